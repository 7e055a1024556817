"""Other programs that give out the same cards, noticed by their traces."""

from pathlib import Path

import pytest

from device_plugin.core.contract.cards import Inventory
from device_plugin.node.checks.rivals import GONE_SECONDS
from device_plugin.node.stages.agent import RIVALS_SECONDS
from device_plugin.node.vendors.port import NodeSigns
from tests.node.looping import Looping

NOTHING = NodeSigns((), (), ())
SIGNS = {
    "the socket hygon.com_hcu": NodeSigns((), ("hygon.com_hcu",), ()),
    "the node's annotation hygon.com/node-hcu-register": NodeSigns(("hygon.com/node-hcu-register",), (), ()),
    "the CDI file hcu-dra-driver-device.yaml": NodeSigns((), (), ("hcu-dra-driver-device.yaml",)),
}


@pytest.fixture
def looping(tmp_path: Path) -> Looping:
    return Looping(tmp_path).start()


def offered(agent: Looping) -> list[bool]:
    return [card.healthy for card in Inventory.decode(agent.peer.inventory).cards]


@pytest.mark.parametrize("trace", SIGNS)
def test_a_rival_is_noticed_within_fifteen_seconds_and_again_when_it_has_gone(
    looping: Looping, trace: str
) -> None:
    looping.turns(1)
    assert offered(looping) == [True, True]
    looping.signs = SIGNS[trace]
    assert RIVALS_SECONDS < 15
    looping.turns(RIVALS_SECONDS)
    assert offered(looping) == [False, False]
    assert trace in looping.agent.why_not_ready()
    assert any(event == "Preflight" and trace in text for event, text in looping.peer.events)
    looping.signs = NOTHING
    looping.turns(GONE_SECONDS - RIVALS_SECONDS)
    assert offered(looping) == [False, False], "its socket is away while it restarts"
    looping.turns(2 * RIVALS_SECONDS)
    assert offered(looping) == [True, True]
    assert trace not in looping.agent.why_not_ready()


def test_marks_of_hygons_plugin_are_a_trace(looping: Looping) -> None:
    marks = looping.parts.machine / "etc/vdev/dynamic"
    marks.mkdir(parents=True)
    (marks / "uid_main_0_1").write_text("")
    looping.turns(RIVALS_SECONDS)
    assert offered(looping) == [False, False]
    assert "the file /etc/vdev/dynamic/uid_main_0_1" in looping.agent.why_not_ready()


def test_other_programs_are_no_rivals(looping: Looping) -> None:
    looping.signs = NodeSigns((), ("nvidia.com_gpu", "vgpu-dcu.sock"), ("nvidia.yaml",))
    looping.turns(RIVALS_SECONDS)
    assert offered(looping) == [True, True]
