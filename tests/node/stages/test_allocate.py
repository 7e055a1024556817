"""Whose container is it, what does it get, and what may stand in the way."""

from pathlib import Path

import pytest

from device_plugin.core.contract.grants import Slice
from device_plugin.core.pods import Pod
from device_plugin.node.slices.admission import NotNowError
from device_plugin.node.stages import allocate
from device_plugin.node.vendors.families import CARD_VARIABLES
from hack.embedded.runtime.cdi import Edits
from tests.builders.cards import CORES, MEM, PERCENT, SLICES
from tests.node.parts import Parts, Peer, config_of
from vgpu_runtime import rocm

T4 = ["dcu-mem-0", "dcu-mem-1", "dcu-mem-2", "dcu-mem-3"]
C3 = ["dcu-cores-5", "dcu-cores-6", "dcu-cores-7"]
BOTH = {MEM: "4", CORES: "3"}
WHOLE = "hygon.com/dcu"
EVERY_CONTAINER = {**CARD_VARIABLES, "VGPU_PROGRESS": "/var/run/vgpu/progress"}


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocate, "WAIT_SECONDS", 0.0)


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    made = Parts(tmp_path, Peer())
    made.start()
    return made


def mib(edits: Edits) -> list[int]:
    return [card.mem_bytes >> 20 for card in rocm.parse(config_of(edits)).cards]


def sources_exist(edits: Edits) -> bool:
    sources = [mount.source for mount in edits.mounts] + [host for host, _ in edits.devices]
    return all(Path(source).exists() for source in sources)


@pytest.mark.parametrize("order", [(MEM, CORES), (CORES, MEM)])
def test_memory_carries_the_slice_whichever_resource_comes_first(
    parts: Parts, order: tuple[str, str]
) -> None:
    pod = parts.bind("a", [Slice(parts.uuids[1], 4092, (0, 1, 2))], BOTH)
    tickets = {MEM: T4, CORES: C3}
    parts.hold(pod, tickets)
    for resource in order:
        parts.starts.pre_start(resource, tickets[resource])
    (card,) = rocm.parse(config_of(parts.spec(MEM, T4))).cards
    assert (card.uuid, card.mem_bytes >> 20, card.family.mask) == (parts.uuids[1], 4092, 0b111)
    assert all(mount.target != "/etc/vgpu/vgpu.conf" for mount in parts.spec(CORES, C3).mounts)
    minor = parts.shared()[parts.uuids[1]].payload.render_minor
    *cards, (_, guard) = parts.spec(MEM, T4).devices
    nodes = ["/dev/kfd", f"/dev/dri/renderD{minor}", f"/dev/dri/card{minor - 128}"]
    assert [target for _, target in cards] == nodes
    assert guard.startswith("/dev/vgpu/")


@pytest.mark.parametrize("order", [(PERCENT, SLICES), (SLICES, PERCENT)])
def test_percent_carries_the_slices_of_several_cards(parts: Parts, order: tuple[str, str]) -> None:
    slices = [Slice(uuid, 8184, tuple(range(30)), 50) for uuid in parts.uuids]
    pod = parts.bind("a", slices, {PERCENT: "100", SLICES: "2"})
    tickets = {
        PERCENT: [f"dcu-percent-{number}" for number in range(100)],
        SLICES: ["dcu-slices-0", "dcu-slices-1"],
    }
    parts.hold(pod, tickets)
    for resource in order:
        parts.starts.pre_start(resource, tickets[resource])
    cards = rocm.parse(config_of(parts.spec(PERCENT, tickets[PERCENT]))).cards
    assert [(card.uuid, card.mem_bytes >> 20) for card in cards] == [(uuid, 8184) for uuid in parts.uuids]
    assert {card.family.mask for card in cards} == {(1 << 30) - 1}
    assert parts.spec(PERCENT, tickets[PERCENT]).env == {"ROC_GLOBAL_CU_MASK": "", **EVERY_CONTAINER}
    assert not parts.spec(SLICES, tickets[SLICES]).mounts
    assert [record.slices for record in parts.records.all()] == [tuple(slices)]


@pytest.mark.parametrize(
    ("limits", "cards", "request_value"),
    [
        ({MEM: 4, CORES: 3}, 1, "hygon.com/dcu-mem:4"),
        ({MEM: 4}, 1, "hygon.com/dcu-mem:4"),
        ({MEM: 8, SLICES: 2}, 2, "hygon.com/dcu-mem:8"),
        ({CORES: 3}, 1, "hygon.com/dcu-cores:3"),
        ({PERCENT: 25, SLICES: 1}, 1, "hygon.com/dcu-percent:25"),
        ({WHOLE: 1}, 1, "hygon.com/dcu:1"),
        ({WHOLE: 2, SLICES: 8}, 2, "hygon.com/dcu:2"),
    ],
    ids=str,
)
def test_the_config_names_the_limit_that_decides_the_memory(
    parts: Parts, limits: dict[str, int], cards: int, request_value: str
) -> None:
    slices = [Slice(uuid, 4092, (0, 1, 2)) for uuid in parts.uuids[:cards]]
    pod = parts.bind("a", slices, {resource: str(count) for resource, count in limits.items()})
    tickets = {
        resource: [f"{resource.rpartition('/')[2]}-{number}" for number in range(count)]
        for resource, count in limits.items()
    }
    parts.hold(pod, tickets)
    for resource in sorted(tickets):
        parts.starts.pre_start(resource, tickets[resource])
    carrier = next(iter(limits))
    found = rocm.parse(config_of(parts.spec(carrier, tickets[carrier]))).cards
    assert [card.request for card in found] == [request_value] * cards


def test_hip_learns_the_number_of_its_units_from_a_variable_that_the_pod_cannot_override(
    tmp_path: Path,
) -> None:
    amd = Parts(tmp_path, Peer(), "version: v1\ncards: [{preset: amd-60cu-16gib}]\n")
    amd.start()
    mem, cores = "amd.com/gpu-mem", "amd.com/gpu-cores"
    t4, c3 = [f"gpu-mem-{number}" for number in range(4)], [f"gpu-cores-{number}" for number in (5, 6, 7)]
    amd.hold(
        amd.bind("a", [Slice(amd.uuids[0], 4092, (5, 6, 7))], {mem: "4", cores: "3"}), {mem: t4, cores: c3}
    )
    amd.starts.pre_start(mem, t4)
    assert amd.spec(mem, t4).env == {"ROC_GLOBAL_CU_MASK": "0x7", **EVERY_CONTAINER}
    assert amd.spec(cores, c3).env == {}


def test_on_hygons_cards_the_makers_driver_shows_only_the_units_of_the_slice(parts: Parts) -> None:
    parts.hold(parts.bind("a", [Slice(parts.uuids[1], 4092, (5, 6, 7))], BOTH), {MEM: T4, CORES: C3})
    parts.starts.pre_start(MEM, T4)
    # Empty, so that HIP ignores the image's and the pod's value and counts the units of the device.
    assert parts.spec(MEM, T4).env == {"ROC_GLOBAL_CU_MASK": "", **EVERY_CONTAINER}
    (card,) = rocm.parse(config_of(parts.spec(MEM, T4))).cards
    assert card.family.vendor_masks


def test_variables_by_which_runtimes_add_cards_ask_for_none(parts: Parts) -> None:
    parts.hold(parts.bind("a", [Slice(parts.uuids[1], 4092, (5, 6, 7))], BOTH), {MEM: T4, CORES: C3})
    parts.starts.pre_start(MEM, T4)
    env = parts.spec(MEM, T4).env
    assert {env[f"{name}_VISIBLE_DEVICES"] for name in ("AMD", "DCU", "HCU", "HYGON", "NVIDIA")} == {"void"}
    # Hygon's runtime looks for a file that is named by whatever stands in these.
    names = ("VHCU_VISIBLE_DEVICES", "MIG_VISIBLE_DEVICES", "RESOURCE_REGISTER_STRATEGY")
    assert [env[name] for name in names] == ["", "", ""]


def test_who_has_whole_cards_keeps_its_own_value_of_that_variable(parts: Parts) -> None:
    whole = [Slice(uuid, 16368, tuple(range(60))) for uuid in parts.uuids]
    for name, slices in (("one", whole[:1]), ("two", whole)):
        tickets = [f"dcu-{name}-{number}" for number in range(len(slices))]
        pod = parts.bind(name, slices, {WHOLE: str(len(slices))})
        parts.hold(pod, {WHOLE: tickets})
        parts.starts.pre_start(WHOLE, tickets)
        edits = parts.spec(WHOLE, tickets)
        assert (len(rocm.parse(config_of(edits)).cards), edits.env) == (len(slices), EVERY_CONTAINER)
        parts.end(pod)


@pytest.mark.parametrize(
    ("shown", "tickets", "missing"),
    [(CORES, C3, r"hygon\.com/dcu-mem"), (MEM, T4, r"hygon\.com/dcu-cores")],
    ids=["the carrier", "the other resource"],
)
def test_nothing_is_written_until_the_kubelet_shows_all_that_the_container_asks(
    parts: Parts, shown: str, tickets: list[str], missing: str
) -> None:
    pod = parts.bind("a", [Slice(parts.uuids[0], 4092, (0, 1, 2))], BOTH)
    parts.hold(pod, {shown: tickets})
    parts.starts.stop()
    with pytest.raises(NotNowError, match=f"does not show its {missing} yet"):
        parts.starts.pre_start(shown, tickets)
    assert parts.left() == []


def test_what_the_kubelet_has_not_shown_whole_is_asked_for_again(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocate, "WAIT_SECONDS", 60.0)
    pod = parts.bind("a", [Slice(parts.uuids[0], 4092, (0, 1, 2))], BOTH)
    parts.hold(pod, {MEM: T4})
    whole, peer = {MEM: T4, CORES: C3}, parts.peer
    pods = peer.pod

    def later(namespace: str, name: str) -> Pod:
        """By the time that the pod is looked up, the kubelet has come to its other resource."""
        peer.holders.clear()
        parts.hold(pod, whole)
        return pods(namespace, name)

    monkeypatch.setattr(peer, "pod", later)
    parts.starts.pre_start(MEM, T4)
    assert mib(parts.spec(MEM, T4)) == [4092]
    assert sources_exist(parts.spec(CORES, C3))


def test_every_spec_names_a_device_node_in_the_containers_own_folder(parts: Parts) -> None:
    """The runtime misses it before there is a container: then even a pod that never restarts is tried again."""
    pod = parts.bind("a", [Slice(parts.uuids[0], 4092, (0, 1, 2))], BOTH)
    tickets = {MEM: T4, CORES: C3}
    parts.hold(pod, tickets)
    for resource in tickets:
        parts.starts.pre_start(resource, tickets[resource])
        source, _ = parts.spec(resource, tickets[resource]).devices[-1]
        assert Path(source).is_fifo()
        assert f"/slices/{pod.uid}/main/" in source


def test_every_file_is_mounted_read_only_but_the_region_and_the_progress(parts: Parts) -> None:
    pod = parts.bind("a", [Slice(parts.uuids[0], 4092, (0, 1, 2))], {MEM: "4"})
    parts.hold(pod, {MEM: T4})
    parts.starts.pre_start(MEM, T4)
    every = {mount.target: mount for mount in parts.spec(MEM, T4).mounts if "vgpu-sim" not in mount.target}
    stack = "/opt/hyhal"
    assert every[stack].options == ("ro", "bind")
    mounts = {target: mount for target, mount in every.items() if target != stack}
    assert {target for target, mount in mounts.items() if "ro" not in mount.options} == {
        "/var/run/vgpu/progress",
        "/var/run/vgpu/usage",
    }
    assert "/etc/vdev/docker/vdev0.conf" in mounts
    for mount in mounts.values():
        assert "ro" in mount.options or {"nosuid", "nodev", "noexec"} <= set(mount.options)
        assert Path(mount.source).is_file()
        assert f"/slices/{pod.uid}/main/" in mount.source
        assert Path(mount.source).stat().st_mode & 0o022 == (0o022 if "rw" in mount.options else 0)


def test_a_name_that_is_used_again_points_its_stale_spec_at_nothing(parts: Parts) -> None:
    first = parts.bind("a", [Slice(parts.uuids[0], 4092, (0, 1, 2))], {MEM: "4"})
    parts.hold(first, {MEM: T4})
    parts.starts.pre_start(MEM, T4)
    stale = parts.spec(MEM, T4)
    parts.end(first)
    second = parts.bind("b", [Slice(parts.uuids[1], 8184, (5, 6))], {MEM: "4"})
    parts.hold(second, {MEM: T4})
    parts.starts.pre_start(MEM, T4)
    assert not sources_exist(stale)
    assert mib(parts.spec(MEM, T4)) == [8184]


def test_a_stale_marker_never_lets_the_next_holder_start_without_its_slice(parts: Parts) -> None:
    first = parts.bind("a", [Slice(parts.uuids[0], 4092, (0, 1, 2))], BOTH)
    parts.hold(first, {MEM: T4, CORES: C3})
    parts.starts.pre_start(MEM, T4)
    parts.starts.pre_start(CORES, C3)
    stale = parts.spec(CORES, C3)
    parts.end(first)
    second = parts.bind("b", [Slice(parts.uuids[0], 819, (7, 8, 9))], {CORES: "3"})
    parts.hold(second, {CORES: C3})
    parts.starts.pre_start(CORES, C3)
    assert not sources_exist(stale)


def test_a_slice_waits_for_the_container_that_outlives_its_pod(parts: Parts) -> None:
    first = parts.bind("a", [Slice(parts.uuids[0], 4092, (0, 1, 2))], {MEM: "4"})
    parts.hold(first, {MEM: T4})
    parts.starts.pre_start(MEM, T4)
    parts.end(first)
    parts.peer.living.add(first.uid)
    second = parts.bind("b", [Slice(parts.uuids[0], 1023, (2, 3))], {MEM: "1"})
    parts.hold(second, {MEM: ["dcu-mem-9"]})
    with pytest.raises(NotNowError, match="default/a"):
        parts.starts.pre_start(MEM, ["dcu-mem-9"])
    parts.peer.living.clear()
    parts.starts.pre_start(MEM, ["dcu-mem-9"])
    assert mib(parts.spec(MEM, ["dcu-mem-9"])) == [1023]


def test_two_pods_with_the_same_tickets_are_both_named_with_the_cure(parts: Parts) -> None:
    for name, core in (("a", 0), ("b", 1)):
        parts.hold(parts.bind(name, [Slice(parts.uuids[0], 1023, (core,))], {MEM: "4"}), {MEM: T4})
    for _ in range(3):
        with pytest.raises(NotNowError, match="delete one"):
            parts.starts.pre_start(MEM, T4)
    ((_, message),) = parts.peer.events  # one, however often the kubelet tries
    assert "default/a" in message
    assert "default/b" in message
    assert not parts.left()


@pytest.mark.parametrize(
    ("slices", "says"),
    [
        ([Slice("GPU-unknown", 1023, (0,))], "GPU-unknown"),
        ([Slice("CARD", 16369, (0,))], "is larger than the card"),
        ([Slice("CARD", 1023, (60,))], "none of those in the grant"),
    ],
)
def test_a_grant_that_this_node_cannot_serve_is_refused(parts: Parts, slices: list[Slice], says: str) -> None:
    slices = [Slice(parts.uuids[0] if s.card == "CARD" else s.card, s.mem_mib, s.cores) for s in slices]
    parts.hold(parts.bind("a", slices, {MEM: "4"}), {MEM: T4})
    with pytest.raises(NotNowError, match=says):
        parts.starts.pre_start(MEM, T4)
    assert not parts.left()


def test_a_restarted_container_gets_the_same_slice_and_another_pipe(parts: Parts) -> None:
    pod = parts.bind("a", [Slice(parts.uuids[0], 4092, (0, 1, 2))], {MEM: "4"})
    parts.hold(pod, {MEM: T4})
    seen = []
    for _ in range(3):
        parts.starts.pre_start(MEM, T4)
        (record,) = parts.records.all()
        seen.append((record.slices, record.vendor_ids[parts.uuids[0]]))
    assert len({slices for slices, _ in seen}) == 1
    assert seen[0][1] != seen[1][1] != seen[2][1]


def test_an_agent_that_restarts_goes_on_from_its_records(parts: Parts, tmp_path: Path) -> None:
    pod = parts.bind("a", [Slice(parts.uuids[0], 4092, (0, 1, 2))], {MEM: "4"})
    parts.hold(pod, {MEM: T4})
    parts.starts.pre_start(MEM, T4)
    before = parts.left()
    again = Parts(tmp_path, parts.peer)
    again.start()
    assert again.left() == before
    assert again.records.all() == parts.records.all()


def test_a_container_that_comes_back_with_other_tickets_leaves_no_spec_of_the_old(parts: Parts) -> None:
    pod = parts.bind("a", [Slice(parts.uuids[0], 2046, (0,))], {MEM: "2", CORES: "1"})
    old, new = {MEM: ["dcu-mem-0"], CORES: ["dcu-cores-0"]}, {MEM: ["dcu-mem-4"], CORES: ["dcu-cores-4"]}
    for tickets in (old, new):
        parts.peer.holders.clear()
        parts.hold(pod, tickets)
        for resource, ids in tickets.items():
            parts.starts.pre_start(resource, ids)
    assert len(list(parts.cdi.glob("vgpu-*.json"))) == 1
    assert all(sources_exist(parts.spec(resource, ids)) for resource, ids in new.items())
    parts.end(pod)
    parts.reclaimer.sweep()
    assert not parts.left()
