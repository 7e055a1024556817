"""The inventory is written when it changes, and again when the API server is back."""

from device_plugin.core.contract.cards import Inventory
from device_plugin.node.stages.publish import LAST_DELAY, LOOK_SECONDS, Publisher
from tests.node.found import card
from tests.node.parts import Peer


def test_the_inventory_is_written_when_it_changes_and_never_otherwise() -> None:
    clock, api = [0.0], Peer()
    publisher = Publisher(api, lambda: clock[0])
    for serving, writes in ((False, 1), (True, 2), (True, 2), (False, 3)):
        for _ in range(100):
            clock[0] += 1
            publisher.step(Inventory((card(),), serving))
        assert api.writes == writes
    Publisher(api, lambda: clock[0]).step(Inventory((card(),), serving=False))
    assert api.writes == 3, "a restarted agent finds its own inventory"


def test_an_absent_api_server_is_asked_ever_more_slowly_and_then_told() -> None:
    clock, api = [0.0], Peer()
    api.up = False
    publisher = Publisher(api, lambda: clock[0])
    publisher.step(Inventory((card(),), serving=True))
    assert "API server" in publisher.why_not
    api.up = True
    clock[0] += LAST_DELAY
    publisher.step(Inventory((card(),), serving=True))
    assert (publisher.why_not, api.writes) == ("", 1)


def test_the_inventory_ages_while_the_api_server_is_not_reached() -> None:
    clock, api = [0.0], Peer()
    publisher = Publisher(api, lambda: clock[0])
    ages = []
    for up, seconds in ((True, 100), (False, 300), (True, 20)):
        api.up = up
        for _ in range(seconds):
            clock[0] += 1
            publisher.step(Inventory((card(),), serving=True))
        ages.append(publisher.age)
    assert ages[0] == ages[2] == 0.0
    assert 300 - LOOK_SECONDS <= ages[1] <= 300, "nothing has changed, and nobody could have said otherwise"


def test_another_memory_unit_than_before_is_said_once() -> None:
    api = Peer(inventory=Inventory((card(unit=1024),)).encode())
    publisher = Publisher(api)
    publisher.step(Inventory((card(unit=512),), serving=True))
    publisher.step(Inventory((card(unit=512),), serving=False))
    ((reason, text),) = api.events
    assert reason == "MemoryUnitChanged"
    assert "one hygon.com/dcu-mem is 512 MiB on this node now, and was 1024 MiB" in text
