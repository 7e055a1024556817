"""The agent's loop: whatever a stage meets, the others go on, and what failed is said."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Slice
from device_plugin.node.slices.records import Record
from device_plugin.node.stages.discover import _slices_on
from device_plugin.node.vendors.rocm import TOPOLOGY
from tests.node.kfd_tree import KfdTree
from tests.node.looping import COVER, Looping
from vgpu_runtime import sim


@pytest.fixture
def node(tmp_path: Path) -> Looping:
    node = Looping(tmp_path).start()
    node.turns(2)
    return node


def test_nothing_is_written_while_nothing_happens(node: Looping) -> None:
    before = node.peer.writes
    assert node.turns(600) == ()
    assert (node.peer.writes, node.peer.events) == (before, [])


def test_a_slice_that_outlives_its_pod_is_written_once_and_withdrawn_once(node: Looping) -> None:
    before = node.peer.writes
    node.parts.end(node.peer.pods["default", "a"])
    node.peer.living.add("uid-a")
    assert node.turns(1.5) == ()
    (report,) = node.turns(1.5)
    assert (report.pod, report.state.value, report.namespace, report.pod_name) == (
        "uid-a",
        "outliving",
        "default",
        "a",
    )
    assert node.turns(300) == (report,)
    node.peer.living.clear()
    assert node.turns(1) == ()
    assert node.peer.writes - before == 2


def test_a_pod_that_ends_with_its_processes_costs_no_write(node: Looping) -> None:
    before = node.peer.writes
    node.parts.end(node.peer.pods["default", "a"])
    assert node.turns(30) == ()
    assert node.peer.writes == before


def test_a_covered_slice_is_reported_and_one_that_outlives_its_pod_is_no_longer_called_covered(
    node: Looping,
) -> None:
    node.host.mounted["uid-a"] = {7: node.mountinfo(COVER)}
    assert [report.state.value for report in node.turns(40)] == ["covered"]
    node.parts.end(node.peer.pods["default", "a"])
    node.peer.living.add("uid-a")
    assert [report.state.value for report in node.turns(5)] == ["outliving"]


def test_claims_are_off_unless_the_settings_turn_them_on(node: Looping) -> None:
    assert not Inventory.decode(node.peer.inventory).claims
    assert not node.driver_made.serving


def test_the_inventory_says_that_claims_are_prepared_while_the_kubelet_knows_the_drivers(
    tmp_path: Path,
) -> None:
    node = Looping(tmp_path, claims=True)
    node.driver_made.refusal = "no handler"
    node.start()
    node.turns(2)
    assert not Inventory.decode(node.peer.inventory).claims
    assert "does not register the DRA driver dcu.vgpu.io: no handler" in node.agent.why_not_ready()
    node.driver_made.refusal, node.driver_made.registered = "", True
    node.turns(1)
    before = node.peer.writes
    assert Inventory.decode(node.peer.inventory).claims
    assert node.agent.why_not_ready() == ""
    node.turns(300)
    assert node.peer.writes == before
    node.driver_made.refusal, node.driver_made.registered = "no handler", False
    node.turns(0.5)
    assert not Inventory.decode(node.peer.inventory).claims


def test_cards_that_take_no_new_slices_are_shown_so(tmp_path: Path) -> None:
    node = Looping(tmp_path, claims=True).start()
    first, second = node.parts.uuids
    node.peer.cordoned = first
    node.turns(2)
    assert {card.uuid: card.open for card in node.shown.cards} == {first: False, second: True}
    node.peer.cordoned = second
    node.turns(61)
    assert {card.uuid: card.open for card in node.shown.cards} == {first: True, second: False}


def fail() -> None:
    raise TypeError("nobody thought of this")


@pytest.mark.parametrize(
    ("stage", "part"),
    [
        ("discover", lambda node: (node.parts.shared, "look")),
        ("reclaim", lambda node: (node.parts.reclaimer, "sweep")),
        ("restore", lambda node: (node.parts.reclaimer, "restore")),
        ("look for covers", lambda node: (node.covered, "step")),
    ],
)
def test_a_stage_that_fails_stops_no_other_and_readyz_says_so_until_it_works(
    node: Looping,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    stage: str,
    part: Callable[[Looping], tuple[object, str]],
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(*part(node), fail)
        node.peer.inventory = ""
        node.turns(90)
        assert f"{stage} failed: TypeError: nobody thought of this" in list(node.agent.reasons())
        assert Inventory.decode(node.peer.inventory).serving
    assert caplog.text.count("nobody thought of this") < 5, "it is logged once, with where it came from"
    node.turns(10)
    assert list(node.agent.reasons()) == []


def test_a_sick_card_is_a_warning_that_names_its_pods_and_a_healthy_one_is_none(
    node: Looping,
) -> None:
    uuid, other = node.parts.uuids
    for each in node.parts.uuids:
        sim.set_health(node.parts.machine, each, ok=False)
    node.turns(5)
    for each in node.parts.uuids:
        sim.set_health(node.parts.machine, each, ok=True)
    node.turns(5)
    texts = {message.split()[1]: message for reason, message in node.peer.events if reason == "CardUnhealthy"}
    fault = "is unhealthy: uncorrectable memory errors (RAS): 1"
    assert texts[uuid].endswith(f"{fault}; 1 slice on it: default/a. vgpu drain {uuid} moves them")
    assert texts[other].endswith(f"{fault}; no slice is on it")
    assert [reason for reason, _ in node.peer.events].count("CardHealthy") == 2


def test_a_pod_is_told_once_that_its_card_is_sick(node: Looping) -> None:
    uuid = node.parts.uuids[0]
    for _ in range(3):
        sim.set_health(node.parts.machine, uuid, ok=False)
        node.turns(5)
        sim.set_health(node.parts.machine, uuid, ok=True)
        node.turns(5)
    ((reason, text),) = [each for each in node.peer.events if each[0].startswith("Slice")]
    assert reason == "SliceUnhealthy a"
    assert text.startswith(f"its card {uuid} at ")
    assert "is unhealthy: uncorrectable memory errors (RAS): 1. Its containers are not started again" in text


def test_a_card_that_its_driver_shows_no_more_stays_as_a_sick_one(node: Looping) -> None:
    shutil.rmtree(node.parts.machine / TOPOLOGY / "1")
    node.turns(5)
    assert [card.healthy for card in Inventory.decode(node.peer.inventory).cards] == [False, True]
    (reason, text), (told, _) = node.peer.events
    assert (reason, told) == ("CardUnhealthy", "SliceUnhealthy a")
    assert "is unhealthy: its driver does not show it any more; 1 slice on it: default/a." in text


def test_cards_of_a_damaged_record_are_not_offered_while_its_processes_run(
    node: Looping, tmp_path: Path
) -> None:
    (node.parts.records.folder("uid-a", "main") / "record.json").write_text("{}")
    node.parts.end(node.peer.pods["default", "a"])
    node.peer.living.add("uid-a")
    after = Looping(tmp_path, node.peer)
    after.kubelet()
    after.parts.start()
    after.turns(60)
    assert [card.healthy for card in Inventory.decode(node.peer.inventory).cards] == [False, True]
    assert [reason for reason, _ in node.peer.events] == ["RecordDamaged"]
    node.peer.living.clear()
    after.turns(1)
    assert [card.healthy for card in Inventory.decode(node.peer.inventory).cards] == [True, True]


def test_an_excluded_card_gets_no_new_slice_and_goes_with_its_last_one(node: Looping, tmp_path: Path) -> None:
    both = node.parts.uuids
    after = Looping(tmp_path, node.peer, exclude=both)
    after.kubelet()
    after.parts.start()
    after.turns(5)
    (left,) = Inventory.decode(node.peer.inventory).cards
    assert (left.uuid, left.healthy) == (both[0], False)
    after.parts.end(node.peer.pods["default", "a"])
    after.turns(60)
    assert not Inventory.decode(node.peer.inventory).cards
    assert not after.peer.events


def test_the_text_about_a_sick_card_has_room_for_some_of_its_pods_only(node: Looping) -> None:
    card = node.parts.shared.cards()[0]
    held = (Slice(card.uuid, 1, (0,)),)
    records = [Record(f"uid-{i // 2}", "ns", f"pod-{i // 2}", f"c{i}", held, {}, {}, {}) for i in range(16)]
    assert _slices_on(card, records) == (
        "16 slices on it: ns/pod-0 (2), ns/pod-1 (2), ns/pod-2 (2) and 5 more pods."
        f" vgpu drain {card.uuid} moves them"
    )


def test_a_slice_that_computes_for_a_second_is_not_idle_any_more(node: Looping) -> None:
    card = next(iter(node.parts.cards().values()))
    kfd = KfdTree(node.parts.machine)
    (record,) = node.parts.records.all()

    def idle() -> float:
        found = node.history.of(record, card.card.uuid)
        assert found is not None
        assert found.idle is not None
        return found.idle

    node.host.mounted["uid-a"] = {7: ""}
    kfd.use(7, card, 512, 1, 0)
    node.turns(20)
    assert idle() > 9
    kfd.use(7, card, 512, 1, 4)
    node.turns(1)
    kfd.use(7, card, 512, 1, 0)
    node.turns(2)
    assert idle() <= 3
