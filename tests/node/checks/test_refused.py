"""Containers that cannot start because another pod's container runs on their slice: reported once that lasts."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from device_plugin.core.contract.cards import Inventory, SliceState
from device_plugin.core.contract.grants import Slice
from device_plugin.core.pods import Pod
from device_plugin.node.checks.refused import REFUSED_SECONDS
from device_plugin.node.slices.admission import NotNowError
from device_plugin.node.stages import allocate
from tests.builders.cards import MEM
from tests.node.looping import Looping

TICKETS = ("dcu-mem-9",)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Looping:
    """The container of pod `a` runs, and somebody has written that the pod had Failed."""
    monkeypatch.setattr(allocate, "WAIT_SECONDS", 0.0)
    made = Looping(tmp_path).start()
    made.parts.active.change(replace(a(made), phase="Failed"), gone=False)
    return made


def a(node: Looping) -> Pod:
    return node.peer.pods["default", "a"]


def place(node: Looping) -> Pod:
    """Pod `b`, to which the slice of `a` was granted again."""
    made = node.parts.bind("b", [Slice(node.parts.uuids[0], 2046, (0, 1))], {MEM: "1"})
    node.parts.hold(made, {MEM: TICKETS})
    return made


def refuse(node: Looping) -> None:
    with pytest.raises(NotNowError, match=r"default/a .*still runs on this slice"):
        node.parts.starts.pre_start(MEM, TICKETS)


def reported(node: Looping) -> list[tuple[str, SliceState, bool]]:
    """What the node's inventory says of its containers after a turn of the agent."""
    node.agent.turn()
    found = Inventory.decode(node.peer.inventory).slices
    return [(each.pod_name, each.state, each.end) for each in found if each.state is SliceState.REFUSED]


@pytest.mark.parametrize("rewritten", [False, True])
def test_a_container_that_waits_for_one_that_does_not_end_is_reported(node: Looping, rewritten: bool) -> None:
    """Whether or not the kubelet of `a` has written again that it runs."""
    place(node)
    refuse(node)
    if rewritten:
        node.parts.active.change(replace(a(node), phase="Running"), gone=False)
    node.parts.now += REFUSED_SECONDS - 1.0
    refuse(node)
    assert reported(node) == []
    node.parts.now += 1.0
    assert reported(node) == [("b", SliceState.REFUSED, True)]
    (report,) = (each for each in node.agent.reports() if each.state is SliceState.REFUSED)
    assert (report.pod, report.container) == ("uid-b", "main")
    assert report.slices == (Slice(node.parts.uuids[0], 2046, (0, 1)),)


def test_one_that_could_start_by_now_is_not_reported_and_waits_anew_for_the_next(node: Looping) -> None:
    refused = node.parts.refused
    place(node)
    refuse(node)
    node.parts.now += REFUSED_SECONDS
    node.peer.living.clear()
    assert refused.found() == ()
    node.peer.living.add("uid-a")
    refuse(node)
    assert refused.found() == ()
    node.peer.living.clear()
    node.parts.starts.pre_start(MEM, TICKETS)
    node.peer.living.add("uid-a")
    node.parts.now += REFUSED_SECONDS
    assert refused.found() == (), "it has started"


@pytest.mark.parametrize("gone", [True, False])
def test_one_whose_pod_has_ended_is_not_reported(node: Looping, gone: bool) -> None:
    made = place(node)
    refuse(node)
    node.parts.now += REFUSED_SECONDS
    assert reported(node)
    node.parts.active.change(replace(made, phase="Failed"), gone=gone)
    assert reported(node) == []
