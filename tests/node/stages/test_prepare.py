"""Slices by ResourceClaims: whose they are, what the container gets, what contradicts the grant, and how they end."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from device_plugin.core.contract import annotations
from device_plugin.core.contract.claims import AllocatedDevice, Allocation
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.pods import Pod
from device_plugin.node.slices.admission import NotNowError
from tests.builders.cards import MEM
from tests.node.parts import TICKETS, Parts, Peer, config_of
from vgpu_runtime import rocm


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    made = Parts(tmp_path, Peer())
    made.start()
    return made


def slice_of(parts: Parts, card: int = 0, mib: int = 4092, cores: tuple[int, ...] = (0, 1, 2)) -> Slice:
    return Slice(parts.uuids[card], mib, cores)


def granted(pod: Pod, grant: Grant | None) -> Pod:
    """The pod with another grant."""
    return msgspec.structs.replace(
        pod, annotations={annotations.GRANT: grant.encode()} if grant is not None else {}
    )


def test_a_claim_brings_the_files_of_its_grant_under_a_name_of_its_own(parts: Parts) -> None:
    pod = parts.bind_claims("a", {"main": [slice_of(parts, 1)]})
    found = parts.prepare(pod)
    assert found.cdi == "vgpu.io/slice=claim-claim-uid-a-main"
    assert found.devices == (parts.allocated(slice_of(parts, 1)),)
    (card,) = rocm.parse(config_of(parts.edits(found.cdi))).cards
    assert (card.uuid, card.mem_bytes >> 20, card.family.mask) == (parts.uuids[1], 4092, 0b111)
    assert card.request == "dcu.vgpu.io/memory:4096Mi"
    (record,) = parts.records.all()
    assert (record.claim, record.tickets) == ("claim-uid-a-main", {})


def test_the_slices_of_a_claim_come_by_one_device_in_the_order_of_the_grant(parts: Parts) -> None:
    slices = [slice_of(parts, 1), slice_of(parts, 0)]
    pod = parts.bind_claims("a", {"main": slices})
    claim = parts.peer.claims["a-main"]
    parts.peer.claims["a-main"] = msgspec.structs.replace(claim, devices=claim.devices[::-1])
    found = parts.prepare(pod)
    assert found.devices == tuple(map(parts.allocated, slices))
    cards = rocm.parse(config_of(parts.edits(found.cdi))).cards
    assert [card.uuid for card in cards] == [s.card for s in slices]


def test_containers_by_claims_and_by_limits_share_a_pod(parts: Parts) -> None:
    given = {"one": [slice_of(parts)], "two": [slice_of(parts, 0, 2046, (3,))]}
    given["main"] = [slice_of(parts, 1, 2046, (4,))]
    pod = parts.bind_claims("a", given, {"main": {MEM: "2"}})
    parts.hold(pod, {MEM: TICKETS})
    parts.starts.pre_start(MEM, TICKETS)
    edits = [parts.edits(parts.prepare(pod, each).cdi) for each in ("one", "two")]
    edits.append(parts.spec(MEM, TICKETS))
    found = [rocm.parse(config_of(each)).cards[0] for each in edits]
    assert [(card.uuid, card.family.mask) for card in found] == [
        (parts.uuids[0], 0b111), (parts.uuids[0], 0b1000), (parts.uuids[1], 0b10000),
    ]  # fmt: skip


def elsewhere(device: AllocatedDevice) -> AllocatedDevice:
    return msgspec.structs.replace(device, pool="n2")


def other_card(device: AllocatedDevice) -> AllocatedDevice:
    return msgspec.structs.replace(device, device="card-0000-ff-00-0")


def other_driver(device: AllocatedDevice) -> AllocatedDevice:
    return msgspec.structs.replace(device, driver="gpu.vgpu.io")


@pytest.mark.parametrize("change", [elsewhere, other_card, other_driver])
def test_a_claim_with_a_device_that_its_grant_does_not_give_gets_nothing(
    parts: Parts, change: Callable[[AllocatedDevice], AllocatedDevice]
) -> None:
    pod = parts.bind_claims("a", {"main": [slice_of(parts)]})
    claim = parts.peer.claims["a-main"]
    parts.peer.claims["a-main"] = msgspec.structs.replace(claim, devices=(change(claim.devices[0]),))
    with pytest.raises(NotNowError, match=r"names .*, and its pod's grant gives"):
        parts.prepare(pod)
    assert not parts.left()


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        (Allocation("uid-of-another"), "was created again: delete the pod"),
        (Allocation("claim-uid-a-main"), "reserved for 0 pods"),
        (Allocation("claim-uid-a-main", (), (("a", "uid-a"), ("b", "uid-b"))), "reserved for 2 pods"),
        (Allocation("claim-uid-a-main", (), (("a", "uid-earlier"),)), "not on this node"),
        (Allocation("claim-uid-a-main", (), (("a", "uid-a"),)), "names no device"),
    ],
)
def test_a_claim_that_is_not_this_pods_alone_gets_nothing(parts: Parts, claim: Allocation, says: str) -> None:
    pod = parts.bind_claims("a", {"main": [slice_of(parts)]})
    parts.peer.claims["a-main"] = claim
    with pytest.raises(NotNowError, match=says):
        parts.prepare(pod)
    assert not parts.left()


def test_a_pod_on_another_node_gets_nothing(parts: Parts) -> None:
    pod = parts.bind_claims("a", {"main": [slice_of(parts)]})
    grant = Grant(pod.uid, "n2", {"main": (slice_of(parts),)}, claims={"main": "claim-uid-a-main"})
    parts.peer.pods["default", "a"] = msgspec.structs.replace(granted(pod, grant), node="n2")
    with pytest.raises(NotNowError, match="not on this node"):
        parts.prepare(pod)


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        (None, "write schedulerName: vgpu-scheduler"),
        ({}, "gives nothing by the ResourceClaim"),
        ({"main": "claim-of-another"}, "gives nothing by the ResourceClaim"),
    ],
)
def test_a_pod_whose_grant_does_not_name_the_claim_gets_nothing(
    parts: Parts, claims: dict[str, str] | None, says: str
) -> None:
    pod = parts.bind_claims("a", {"main": [slice_of(parts)]})
    grant = None if claims is None else Grant(pod.uid, "n1", {"main": (slice_of(parts),)}, claims=claims)
    parts.peer.pods["default", "a"] = granted(pod, grant)
    with pytest.raises(NotNowError, match=says):
        parts.prepare(pod)
    assert not parts.left()


def test_limits_give_nothing_to_a_container_whose_grant_names_a_claim(parts: Parts) -> None:
    pod = parts.bind_claims("a", {"main": [slice_of(parts)]})
    parts.hold(pod, {MEM: TICKETS})
    with pytest.raises(NotNowError, match="by a ResourceClaim and none by its limits"):
        parts.starts.pre_start(MEM, TICKETS)


def test_a_claim_waits_for_a_container_that_outlives_its_pod(parts: Parts) -> None:
    first = parts.bind_claims("a", {"main": [slice_of(parts)]})
    parts.prepare(first)
    parts.peer.living.add(first.uid)
    del parts.peer.pods["default", "a"]
    parts.active.change(first, gone=True)
    second = parts.bind_claims("b", {"main": [slice_of(parts)]})
    with pytest.raises(NotNowError, match="still runs on this slice"):
        parts.prepare(second)
    parts.peer.living.clear()
    parts.claims.unprepare("claim-uid-a-main", 0.0)
    parts.prepare(second)


def test_an_agent_that_restarts_answers_from_its_records_alone(parts: Parts, tmp_path: Path) -> None:
    pod = parts.bind_claims("a", {"main": [slice_of(parts)]})
    before, files = parts.prepare(pod), parts.left()
    again = Parts(tmp_path, parts.peer)
    again.start()
    parts.peer.up = False
    assert again.prepare(pod) == before
    assert again.left() == files


def test_without_the_api_a_claim_whose_files_are_not_all_there_is_not_prepared(parts: Parts) -> None:
    pod = parts.bind_claims("a", {"main": [slice_of(parts)]})
    parts.prepare(pod)
    (record,) = parts.records.all()
    (parts.records.folder(*record.key) / "ld.so.preload").unlink()
    parts.peer.up = False
    with pytest.raises(NotNowError, match="no answer"):
        parts.prepare(pod)
    parts.peer.up = True
    parts.prepare(pod)
    assert parts.injector.written(record)


def test_the_files_of_a_running_container_stay_as_they_are(parts: Parts) -> None:
    pod = parts.bind_claims("a", {"main": [slice_of(parts)]})
    found = parts.prepare(pod)
    before = {path: path.stat().st_ino for path in parts.left()}
    parts.peer.living.add(pod.uid)
    assert parts.prepare(pod) == found
    assert {path: path.stat().st_ino for path in parts.left()} == before


def test_a_claim_ends_when_the_pods_processes_have_ended(parts: Parts) -> None:
    pod = parts.bind_claims("a", {"main": [slice_of(parts)]})
    parts.prepare(pod)
    parts.peer.living.add(pod.uid)
    with pytest.raises(NotNowError, match="processes of container main of pod default/a"):
        parts.claims.unprepare("claim-uid-a-main", 0.0)
    assert parts.left()
    parts.peer.living.clear()
    for _ in range(2):  # the second time it is unknown
        parts.claims.unprepare("claim-uid-a-main", 0.0)
    assert not parts.left()


def test_another_claim_of_the_pod_stays_when_one_ends(parts: Parts) -> None:
    pod = parts.bind_claims("a", {"one": [slice_of(parts)], "two": [slice_of(parts, 1)]})
    parts.prepare(pod, "one")
    parts.prepare(pod, "two")
    parts.claims.unprepare("claim-uid-a-one", 0.0)
    assert [record.container for record in parts.records.all()] == ["two"]


def test_calls_that_wait_end_when_the_agent_stops(parts: Parts) -> None:
    pod = parts.bind_claims("a", {"main": [slice_of(parts)]})
    parts.peer.up = False
    parts.claims.stop()
    with pytest.raises(NotNowError, match="no answer"):
        parts.claims.prepare("default", "a-main", "claim-uid-a-main", 3600.0)
    assert pod.uid not in {record.pod for record in parts.records.all()}


def test_the_slices_of_a_claim_are_held_while_another_pod_uses_its_files(parts: Parts) -> None:
    pod = parts.bind_claims("a", {"main": [slice_of(parts)]})
    parts.prepare(pod)
    (record,) = parts.records.all()
    mounted = (
        f"11 10 8:1 {parts.records.folder(*record.key)}/vgpu.conf /etc/vgpu/vgpu.conf ro - ext4 sda ro\n"
    )
    parts.host.mounted = {"uid-other": {7: "1 0 8:1 / / rw - ext4 sda rw\n"}, "uid-thief": {9: mounted}}
    parts.reclaimer.sweep()
    del parts.peer.pods["default", "a"]
    parts.active.change(pod, gone=True)
    parts.now += 10
    for _ in range(5):
        parts.reclaimer.sweep()
        parts.now += 10
    assert parts.reclaimer.outliving() == (record,)
    second = parts.bind_claims("b", {"main": [slice_of(parts)]})
    with pytest.raises(NotNowError, match="still runs on this slice"):
        parts.prepare(second)
    del parts.host.mounted["uid-thief"]
    parts.now += 10
    assert parts.reclaimer.sweep() == 1
    parts.prepare(second)


def test_a_record_of_a_claim_that_was_lost_is_made_again_and_its_spec_stays(
    parts: Parts, tmp_path: Path
) -> None:
    pod = parts.bind_claims("a", {"main": [slice_of(parts)]})
    found = parts.prepare(pod)
    (record,) = parts.records.all()
    (parts.records.folder(*record.key) / "record.json").write_text("{")
    again = Parts(tmp_path, parts.peer)
    again.start()
    again.reclaimer.restore()
    (restored,) = again.records.all()
    assert (restored.claim, restored.names) == (record.claim, record.names)
    assert config_of(again.edits(found.cdi))
    assert again.prepare(pod) == found
