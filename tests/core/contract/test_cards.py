"""The inventory annotation: exact round trips, and nothing but AnnotationError for anything else."""

import contextlib
import json
from dataclasses import replace as replaced
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from device_plugin.core.contract.annotations import MAX_BYTES
from device_plugin.core.contract.cards import MAX_IDLE, IdlePod, Inventory, ReportedSlice, SliceState
from device_plugin.core.contract.grants import Slice
from device_plugin.core.errors import AnnotationError
from tests.builders.cards import card, inventory
from tests.core.contract.texts import JSON, changed, is_int, is_text, loaded, randomly_changed, read

INVENTORY = inventory("n1")
CARD = ["cards", 0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["cards"], None, "cards: expected array, got null"),
        (["cards"], [None], r"cards\[0\]: expected object, got null"),
        (["cards", 1, "uuid"], "n1-0", "two cards have the same uuid"),
        (["serving"], "yes", "serving: expected bool, got str"),
        (["serving"], ..., "object missing required field serving"),
        ([*CARD, "memMiB"], -1, r"cards\[0\].memMiB: expected int >= 1"),
        ([*CARD, "units"], 0, "units: expected int >= 1"),
        ([*CARD, "units"], 99999, "99999 memory units of 16368 MiB"),
        (
            CARD,
            {**json.loads(INVENTORY.encode())["cards"][0], "memMiB": 2**40, "units": 2**20 + 1},
            "units: expected int <= 1048576",
        ),
        ([*CARD, "coreGroups"], 61, r"cards\[0\]: 61 core groups of 1 units do not fit 60 compute units"),
        ([*CARD, "computeUnits"], 10**6, "computeUnits: expected int <= 1024"),
        ([*CARD, "healthy"], 1, "healthy: expected bool, got int"),
        ([*CARD, "healthy"], ..., "missing required field healthy"),
        ([*CARD, "numa"], -2, "numa: expected int >= -1"),
        ([*CARD, "hive"], "", "hive: expected str of length >= 1"),
        ([*CARD, "uuid"], ..., "missing required field uuid"),
        ([*CARD, "model"], "Z\x1b100", r"cards\[0\].model must have printable characters only"),
    ],
)
def test_a_malformed_inventory_is_refused_with_the_key(path: list[Any], value: object, message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        Inventory.decode(changed(INVENTORY.encode(), path, value))


def report(number: int, state: SliceState = SliceState.OUTLIVING) -> ReportedSlice:
    held = (Slice("n1-0", 4092, tuple(range(15))),)
    return ReportedSlice(f"uid-{number:04}", "ns", f"pod-{number}", "main", state, held)


REPORTING = replaced(INVENTORY, slices=(report(1), report(2, SliceState.COVERED)))
REPORT = ["slices", 0]


def test_an_inventory_carries_the_slices_that_the_agent_reports() -> None:
    assert Inventory.decode(REPORTING.encode()) == REPORTING
    assert json.loads(REPORTING.encode())["slices"][0] == {
        "pod": "uid-0001",
        "name": "ns/pod-1",
        "container": "main",
        "state": "outliving",
        "slices": [{"card": "n1-0", "memMiB": 4092, "cores": list(range(15))}],
    }
    assert '"slices"' not in INVENTORY.encode()


def test_a_state_that_only_later_agents_know_is_ignored() -> None:
    text = changed(REPORTING.encode(), [*REPORT, "state"], "dancing")
    assert Inventory.decode(text) == replaced(REPORTING, slices=REPORTING.slices[1:])


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["slices"], {}, "slices: expected array, got object"),
        (REPORT, None, r"slices\[0\]: expected object, got null"),
        ([*REPORT, "state"], ..., "missing required field state"),
        ([*REPORT, "pod"], 5, "pod: expected str, got int"),
        ([*REPORT, "name"], "x" * 400, "name: expected str of length <= 317"),
        ([*REPORT, "slices"], [], r"slices\[0\].slices: expected array of length >= 1"),
        ([*REPORT, "slices", 0, "cores"], ["1"], r"cores\[0\]: expected int, got str"),
        ([*REPORT, "slices", 0, "cores"], [2, 1], "container main: cores must be distinct and ascending"),
        ([*REPORT, "pod"], "uid-0002", "two reports of one container"),
        ([*CARD, "memUnitMiB"], 0, "memUnitMiB: expected int >= 1"),
    ],
)
def test_a_malformed_report_is_refused_with_the_key(path: list[Any], value: object, message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        Inventory.decode(changed(REPORTING.encode(), path, value))


def test_however_many_slices_are_reported_the_text_stays_readable_and_outliving_ones_come_first() -> None:
    cards = inventory("n1", 16).cards
    covered = [report(number, SliceState.COVERED) for number in range(1000)]
    outliving = [report(number) for number in range(1000, 1100)]
    text = Inventory(cards, slices=(*covered, *outliving)).encode()
    assert MAX_BYTES - 400 < len(text) <= MAX_BYTES
    told = Inventory.decode(text).slices
    assert told[:100] == tuple(outliving)
    assert len(told) >= 200


def test_an_inventory_names_idle_pods_as_many_as_have_room() -> None:
    idle = replaced(REPORTING, idle=(IdlePod("uid-a", 1800), IdlePod("uid-b", 7200)), unmeasured=("uid-c",))
    assert Inventory.decode(idle.encode()) == idle
    assert '"idlePods":[["uid-a",1800],["uid-b",7200]],"unmeasured":["uid-c"]' in idle.encode()
    assert "idle" not in REPORTING.encode()
    assert "unmeasured" not in REPORTING.encode()
    cards = inventory("n1", 16).cards
    reports = tuple(report(number) for number in range(1000))
    many = tuple(IdlePod(f"{number:036}", 1800) for number in range(2000))
    uids = tuple(pod.uid for pod in many)
    full = Inventory(cards, slices=reports, idle=many, unmeasured=uids)
    assert len(full.encode()) <= MAX_BYTES
    assert len(Inventory.decode(full.encode()).slices) >= 200, "reports come first"
    alone = Inventory(cards, idle=many, unmeasured=uids)
    assert len(alone.encode()) <= MAX_BYTES
    told = Inventory.decode(alone.encode())
    assert len(told.idle) == MAX_IDLE
    assert told.unmeasured == uids[: len(told.unmeasured)]


@pytest.mark.parametrize("value", [{}, [5], [""], ["x" * 400], ["uid"] * (MAX_IDLE + 1)])
def test_malformed_unmeasured_pods_are_refused(value: object) -> None:
    with pytest.raises(AnnotationError, match="unmeasured"):
        Inventory.decode(changed(INVENTORY.encode(), ["unmeasured"], value))


@pytest.mark.parametrize(
    "value", [{}, ["uid"], [["uid"]], [["uid", 0]], [["uid", "2h"]], [["", 60]], [["u", 60]] * (MAX_IDLE + 1)]
)
def test_malformed_idle_pods_are_refused(value: object) -> None:
    with pytest.raises(AnnotationError, match="idlePods"):
        Inventory.decode(changed(INVENTORY.encode(), ["idlePods"], value))


def test_the_memory_unit_is_carried() -> None:
    small = Inventory((replace(INVENTORY.cards[0], units=32, unit_mib=512),))
    assert Inventory.decode(small.encode()) == small


def test_an_agent_cannot_cordon_a_card() -> None:
    assert Inventory.decode(changed(INVENTORY.encode(), [*CARD, "cordoned"], value=True)) == INVENTORY


@pytest.mark.parametrize(
    "made",
    [
        Inventory(()),
        Inventory((replace(card("GPU-1", healthy=False), numa=-1, hive="h", model="Zü"),), serving=False),
    ],
)
def test_what_is_written_is_read(made: Inventory) -> None:
    assert Inventory.decode(made.encode()) == made
    assert Inventory.decode(changed(made.encode(), ["later"], {})) == made


def test_cards_of_a_kind_share_their_texts() -> None:
    first, second = (Inventory.decode(inventory(node, 1).encode()).cards[0] for node in ("n1", "n2"))
    assert first.family is second.family
    assert first.mem_mib is second.mem_mib


def test_a_text_that_is_changed_at_random_is_read_where_it_is_sound_and_nowhere_else() -> None:
    usual = Inventory((replace(card("GPU-1"), hive="h"), card("GPU-2"))).encode()
    soundness = []
    for text in randomly_changed(usual, 3000):
        found, body = read(Inventory.decode, text), loaded(text)
        assert (found is not None) == sound(body), text
        if isinstance(found, Inventory) and all("memUnitMiB" in each for each in body["cards"]):
            again = zip(json.loads(found.encode())["cards"], body["cards"], strict=True)
            assert all(each.items() <= whole.items() for each, whole in again)
        soundness.append(found is not None)
    assert {*soundness} == {True, False}


def sound(body: Any) -> bool:
    """True for an inventory without reports, by the contract's words and by other code than the reader."""
    found = body.get("cards")
    return (
        type(body.get("v")) is int
        and body["v"] == 1
        and isinstance(body.get("serving"), bool)
        and isinstance(found, list)
        and all(isinstance(each, dict) and sound_card(each) for each in found)
        and len({each["uuid"] for each in found}) == len(found)
    )


COUNTS = ("memMiB", "units", "computeUnits", "coreGroups", "groupUnits", "maxSlices")


def sound_card(body: dict[str, Any]) -> bool:
    return (
        all(is_text(body.get(key)) for key in ("uuid", "family", "model", "pci"))
        and all(is_int(body.get(key)) for key in COUNTS)
        and is_int(body.get("memUnitMiB", 1024))
        and is_text(body.get("hive", "-"))
        and is_int(body.get("numa"), -1)
        and isinstance(body.get("healthy"), bool)
        and body["computeUnits"] <= 1024
        and body["coreGroups"] * body["groupUnits"] <= body["computeUnits"]
        and body["units"] <= min(body["memMiB"], 2**20)
    )


@given(
    JSON, st.sampled_from([["slices"], REPORT, [*REPORT, "slices"], [*REPORT, "name"], [*CARD, "memUnitMiB"]])
)
def test_any_json_in_any_place_of_an_inventory_is_read_or_refused(value: object, path: list[Any]) -> None:
    with contextlib.suppress(AnnotationError):
        Inventory.decode(changed(REPORTING.encode(), path, value))
