"""A pod's containers are weighed together: each alone may fit beside a survivor where all of them do not."""

from dataclasses import replace
from pathlib import Path

import pytest

from device_plugin.core import annotations
from device_plugin.core.grants import Grant, Slice
from device_plugin.core.machine import Holder
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.node import allocate
from device_plugin.node.allocate import NotNowError
from device_plugin.node.arbiter import rival
from tests.node.parts import Parts, Peer
from tests.node.test_parts import card, record

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
    cards = {"GPU-1": replace(card(), mem_mib=16368)}
    assert (rival("me", wanted, cards, records, lambda _: True) is not None) == blocked


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
    parts.allocator.pre_start(MEM, ["old-main"])
    parts.end(old)
    parts.peer.living.add(old.uid)
    bind(parts, "new", {"a": 8000, "b": 8000}, 1)
    for container in "ab":
        with pytest.raises(NotNowError, match="default/old"):
            parts.allocator.pre_start(MEM, [f"new-{container}"])
    parts.peer.living.clear()
    for container in "ab":
        parts.allocator.pre_start(MEM, [f"new-{container}"])


def test_a_grant_whose_containers_together_exceed_the_card_is_refused(tmp_path: Path) -> None:
    parts = Parts(tmp_path, Peer(), AMD)
    parts.start()
    bind(parts, "new", {"a": 9000, "b": 9000}, 1)
    with pytest.raises(NotNowError, match="exceeds the card"):
        parts.allocator.pre_start(MEM, ["new-a"])
