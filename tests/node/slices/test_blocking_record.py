"""A pod's containers are weighed together: each alone may fit beside a survivor where all of them do not."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import CardSize, Grant, Slice
from device_plugin.core.machine import Holder
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.node.slices.admission import NotNowError, blocking_record
from device_plugin.node.stages import allocate
from tests.node.found import card, record
from tests.node.parts import Parts, Peer
from vgpu_runtime import rocm

AMD = "version: v1\ncards: [{preset: amd-60cu-16gib, count: 1}]"
MEM = "amd.com/gpu-mem"


@pytest.mark.parametrize(
    ("mine", "held", "blocked"),
    [
        ([8000, 8000], 368, False),
        ([8000, 8000], 369, True),
        ([1, 1, 1], 1, False),
        ([1, 1, 1, 1], 1, True),  # of at most four slices
    ],
)
def test_all_containers_of_a_pod_count(mine: list[int], held: int, blocked: bool) -> None:
    wanted = [Slice("GPU-1", mib, (i,)) for i, mib in enumerate(mine)]
    records = [record("other", Slice("GPU-1", held, (9,)))]
    sizes = {"GPU-1": CardSize(16368, card().max_slices)}
    assert (blocking_record("me", wanted, sizes, records, lambda _: True) is not None) == blocked


@pytest.mark.parametrize(
    ("others", "wanted", "blocked"),
    [
        ([Slice("GPU-1", 1024, (0, 1))], Slice("GPU-1", 1024, (1, 2)), True),
        ([Slice("GPU-1", 1024, (0, 1))], Slice("GPU-1", 1024, (2, 3)), False),
        ([Slice("GPU-1", 1024, (0, 1))], Slice("GPU-2", 1024, (0, 1)), False),
        ([Slice("GPU-1", 12000, (0,))], Slice("GPU-1", 4369, (1,)), True),
        ([Slice("GPU-1", 12000, (0,))], Slice("GPU-1", 4368, (1,)), False),
        ([Slice("GPU-1", 1, (i,)) for i in range(4)], Slice("GPU-1", 1, (9,)), True),
        ([Slice("GPU-1", 1, (i,)) for i in range(3)], Slice("GPU-1", 1, (9,)), False),
    ],
)
def test_what_cannot_be_side_by_side_waits_for_the_living(
    others: list[Slice], wanted: Slice, blocked: bool
) -> None:
    cards = {name: card().size for name in ("GPU-1", "GPU-2")}
    records = [record(f"p{i}", slice_) for i, slice_ in enumerate(others)]
    assert (blocking_record("me", [wanted], cards, records, lambda _: True) is not None) == blocked
    assert blocking_record("me", [wanted], cards, records, lambda _: False) is None


def bind(parts: Parts, name: str, mib: dict[str, int], first_core: int) -> Pod:
    """A pod with a slice of one core group for each container, that holds a ticket for each."""
    slices = {c: (Slice(parts.uuids[0], m, (first_core + i,)),) for i, (c, m) in enumerate(mib.items())}
    pod = Pod(
        "default", name, f"uid-{name}", node="n1",
        annotations={annotations.GRANT: Grant(f"uid-{name}", "n1", slices).encode()},
        containers=tuple(Container(c, ContainerKind.MAIN, {MEM: "1"}) for c in mib),
    )  # fmt: skip
    parts.peer.pods["default", name] = pod
    parts.active.change(pod, gone=False)
    for c in mib:
        parts.peer.holders.append(Holder("default", name, c, {MEM: frozenset([f"{name}-{c}"])}))
    return pod


def test_two_containers_wait_where_one_would_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocate, "WAIT_SECONDS", 0.0)
    parts = Parts(tmp_path, Peer(), AMD)
    parts.start()
    old = bind(parts, "old", {"main": 8000}, 0)
    parts.starts.pre_start(MEM, ["old-main"])
    parts.end(old)
    parts.peer.living.add(old.uid)
    bind(parts, "new", {"a": 8000, "b": 8000}, 1)
    for container in "ab":
        with pytest.raises(NotNowError, match="default/old"):
            parts.starts.pre_start(MEM, [f"new-{container}"])
    parts.peer.living.clear()
    for container in "ab":
        parts.starts.pre_start(MEM, [f"new-{container}"])


def test_a_grant_whose_containers_together_exceed_the_card_is_refused(tmp_path: Path) -> None:
    parts = Parts(tmp_path, Peer(), AMD)
    parts.start()
    bind(parts, "new", {"a": 9000, "b": 9000}, 1)
    with pytest.raises(NotNowError, match="is larger than the card"):
        parts.starts.pre_start(MEM, ["new-a"])


@pytest.mark.parametrize("less", [{"mem_mib": 12000}, {"max_slices": 1}, {"core_groups": 40}], ids=str)
def test_a_card_that_reports_less_keeps_nobody_who_fitted_it_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, less: dict[str, int]
) -> None:
    """A driver update, or an agent with other settings: `old` starts again, and `late` for the first time."""
    monkeypatch.setattr(allocate, "WAIT_SECONDS", 0.0)
    parts = Parts(tmp_path, Peer(), AMD)
    parts.start()
    size = parts.cards()[parts.uuids[0]].card.size
    cores = {"old": tuple(range(30)), "late": tuple(range(30, 60))}
    for name in cores:
        slices = {"main": (Slice(parts.uuids[0], 8184, cores[name]),)}
        given = Grant(f"uid-{name}", "n1", slices, cards={parts.uuids[0]: size})
        pod = bind(parts, name, {"main": 8184}, 0)
        pod = replace(pod, annotations={annotations.GRANT: given.encode()})
        parts.peer.pods["default", name] = pod
    parts.starts.pre_start(MEM, ["old-main"])
    parts.less = less
    for name in ("old", "late"):
        parts.peer.living.add(f"uid-{name}")
        parts.starts.pre_start(MEM, [f"{name}-main"])
    limit = rocm.parse((parts.records.folder("uid-late", "main") / "vgpu.conf").read_text()).cards[0]
    groups = less.get("core_groups", 60) - 30
    assert (limit.mem_bytes, limit.family.mask.bit_count()) == (8184 * 2**20, groups)
