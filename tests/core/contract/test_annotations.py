"""Inventory and grant annotations: exact round trips, and nothing but AnnotationError for whatever else is in there."""

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.contract.annotations import MAX_BYTES
from device_plugin.core.contract.cards import Inventory, ReportedSlice, SliceState
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.errors import AnnotationError
from device_plugin.core.pods import Container, ContainerKind, Pod
from tests.builders.cards import inventory

GRANT = Grant("uid-1", "n1", {"main": (Slice("c0", 4092, (0, 1, 2)),), "side": (Slice("c0", 100, (7,)),)})
INVENTORY = inventory("n1")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)

BAD = [
    ("", "not JSON"),
    (GRANT.encode()[:-7], "not JSON"),
    ("[null]", "expected an object"),
    ("null", "expected an object"),
    ("{}", "v must be an integer"),
    ('{"v":true}', "v must be an integer"),
    ('{"v":2}', "version 2, this program reads version 1"),
    ("[" * 50_000, "not JSON"),
    ("x" * 70_000, "70000 characters long"),
    ('{"v":1' + "9" * 5000 + "}", "not JSON|integer"),
    ('{"v":NaN}', "integer"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
@pytest.mark.parametrize("reader", [Grant.decode, Inventory.decode])
def test_nothing_readable_is_refused_with_the_cause(reader: Any, text: str, message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        reader(text)


def changed(original: str, path: list[Any], value: object) -> str:
    body = json.loads(original)
    inner = body
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(body)


SLICE = ["containers", "main", 0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["containers"], {}, "no container holds a slice"),
        (["containers"], [], "containers must be an object"),
        (["containers"], {f"c{i}": [] for i in range(300)}, "at most 256 keys"),
        (["containers", "main"], [], "1 to 64 slices"),
        (["containers", "main"], [None], "expected an object"),
        (["containers", "main"], [{"card": "c", "memMiB": 1, "cores": [0]}] * 2, "two slices of one card"),
        (["containers", "side", 0, "cores"], [2, 7], "two containers hold the same core group"),
        ([*SLICE, "memMiB"], -4092, "memMiB must be an integer of at least 1"),
        ([*SLICE, "memMiB"], 0, "memMiB must be an integer of at least 1"),
        ([*SLICE, "memMiB"], 2**63, "memMiB must be an integer"),
        ([*SLICE, "memMiB"], "4092", "memMiB must be an integer"),
        ([*SLICE, "memMiB"], 4092.0, "memMiB must be an integer"),
        ([*SLICE, "cores"], [-1], "cores must be integers"),
        ([*SLICE, "cores"], [], "distinct, ascending"),
        ([*SLICE, "cores"], [1, 1], "distinct, ascending"),
        ([*SLICE, "cores"], [2, 1], "distinct, ascending"),
        ([*SLICE, "cores"], [10**9], "below 1024"),
        ([*SLICE, "cores"], [True], "cores must be integers"),
        ([*SLICE, "cores"], None, "cores must be a list"),
        ([*SLICE, "card"], "", "card must be a text"),
        ([*SLICE, "card"], "x" * 254, "card must be a text"),
        ([*SLICE, "card"], "c\nmask = all", "printable characters"),
        ([*SLICE, "card"], "\ud800", "printable characters"),
        (["containers", "\x1b]0;x\x07"], [], "name of a container must be a text of 1 to 63 printable"),
        (["containers", "c" * 64], [], "name of a container must be a text"),
        (["cards"], {"\x1b[2J": {}}, "uuid of a card must be a text of 1 to 253 printable"),
        (["pod"], ..., "pod must be a text"),
        (["gen"], 0, "gen must be an integer"),
    ],
)
def test_a_malformed_grant_is_refused_with_the_key(path: list[Any], value: object, message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        Grant.decode(changed(GRANT.encode(), path, value))


CARD = ["cards", 0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["cards"], None, "cards must be a list"),
        (["cards"], [None], "card 0: expected an object"),
        (["cards", 1, "uuid"], "n1-0", "two cards have the same uuid"),
        (["serving"], "yes", "serving must be true or false"),
        ([*CARD, "memMiB"], -1, "memMiB must be an integer of at least 1"),
        ([*CARD, "units"], 0, "units must be an integer of at least 1"),
        ([*CARD, "units"], 99999, "99999 memory units of 16368 MiB"),
        (
            CARD,
            {**json.loads(INVENTORY.encode())["cards"][0], "memMiB": 2**40, "units": 2**20 + 1},
            "1048577 memory",
        ),
        ([*CARD, "coreGroups"], 61, "do not fit 60 compute units"),
        ([*CARD, "computeUnits"], 10**6, "do not fit"),
        ([*CARD, "healthy"], 1, "healthy must be true or false"),
        ([*CARD, "uuid"], ..., "uuid must be a text"),
    ],
)
def test_a_malformed_inventory_is_refused_with_the_key(path: list[Any], value: object, message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        Inventory.decode(changed(INVENTORY.encode(), path, value))


def test_round_trips_and_unknown_keys() -> None:
    assert Grant.decode(GRANT.encode()) == GRANT
    assert Inventory.decode(INVENTORY.encode()) == INVENTORY
    assert Grant.decode(changed(GRANT.encode(), [*SLICE, "colour"], "red")) == GRANT
    assert Inventory.decode(changed(INVENTORY.encode(), ["later"], {})) == INVENTORY
    assert '"v":1' in GRANT.encode()


def report(number: int, state: SliceState = SliceState.OUTLIVING) -> ReportedSlice:
    held = (Slice("n1-0", 4092, tuple(range(15))),)
    return ReportedSlice(f"uid-{number:04}", "ns", f"pod-{number}", "main", state, held)


REPORTING = replace(INVENTORY, slices=(report(1), report(2, SliceState.COVERED)))
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
    assert Inventory.decode(text) == replace(REPORTING, slices=REPORTING.slices[1:])


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["slices"], {}, "slices must be a list"),
        (REPORT, None, "report 0: expected an object"),
        ([*REPORT, "state"], ..., "state must be a text"),
        ([*REPORT, "pod"], 5, "pod must be a text"),
        ([*REPORT, "name"], "x" * 400, "name must be a text"),
        ([*REPORT, "slices"], [], "1 to 64 slices"),
        ([*REPORT, "slices", 0, "cores"], ["1"], "cores must be integers"),
        ([*REPORT, "pod"], "uid-0002", "two reports of one container"),
        ([*CARD, "memUnitMiB"], 0, "memUnitMiB must be an integer of at least 1"),
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


def test_the_memory_unit_is_carried_and_worked_out_where_an_older_agent_wrote_none() -> None:
    small = Inventory((replace(INVENTORY.cards[0], units=32, unit_mib=512),))
    assert Inventory.decode(small.encode()) == small
    assert Inventory.decode(changed(small.encode(), [*CARD, "memUnitMiB"], ...)).cards[0].unit_mib == 512
    assert Inventory.decode(changed(INVENTORY.encode(), [*CARD, "memUnitMiB"], ...)) == INVENTORY


@given(
    JSON, st.sampled_from([["slices"], REPORT, [*REPORT, "slices"], [*REPORT, "name"], [*CARD, "memUnitMiB"]])
)
def test_any_json_in_any_place_of_an_inventory_is_read_or_refused(value: object, path: list[Any]) -> None:
    with contextlib.suppress(AnnotationError):
        Inventory.decode(changed(REPORTING.encode(), path, value))


@given(
    JSON, st.sampled_from([["containers"], ["containers", "main"], SLICE, [*SLICE, "cores"], ["gen"], ["v"]])
)
def test_any_json_in_any_place_of_a_grant_is_read_or_refused(value: object, path: list[Any]) -> None:
    with contextlib.suppress(AnnotationError):
        Grant.decode(changed(GRANT.encode(), path, value))


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for reader in (Grant.decode, Inventory.decode):
        with pytest.raises(AnnotationError):
            reader(text)


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (
            Pod("ns", "p", "uid-2", "n1", annotations={"vgpu.io/grant": GRANT.encode()}),
            "written for pod uid-1",
        ),
        (Pod("ns", "p", "uid-1", "n2", annotations={"vgpu.io/grant": GRANT.encode()}), "written for node n1"),
        (Pod("ns", "p", "uid-1", "n1", annotations={"vgpu.io/grant": GRANT.encode()}), "no container main"),
    ],
)
def test_a_grant_that_is_not_the_pods_own_is_void(pod: Pod, message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        pod.grant()


def test_a_pod_reads_its_own_grant() -> None:
    containers = tuple(Container(name, ContainerKind.MAIN, {}) for name in ("main", "side"))
    pod = Pod("ns", "p", "uid-1", "n1", annotations={"vgpu.io/grant": GRANT.encode()}, containers=containers)
    assert pod.grant() == GRANT
    assert Pod("ns", "p", "uid-1", "n1").grant() is None
