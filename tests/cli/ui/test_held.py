"""The use of held slices as the page's entries: the figures of the commands, and what is not known stays so."""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace

from device_plugin.cli.reading.held_use import SliceKey, SliceUse
from device_plugin.cli.ui import held
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.held import HeldSlice, HeldUses, owner_entries, use_entries
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.idle import IDLE_SECONDS
from device_plugin.core.ledger import Holding, Ledger
from device_plugin.core.pods import Pod
from device_plugin.kube.errors import UnknownError
from tests.builders.cards import inventory

NOW = 1_800_000_000.0
MIB = 2.0**20
PART = Slice("n1-0", 4092, tuple(range(15)))


def slice_of(name: str = "a", owner: str = "", **use: float | None) -> HeldSlice:
    pod = Pod("team", name, f"uid-{name}", owner="Job" if owner else "", owner_name=owner, node="n1")
    known = {"used": 1000 * MIB, "limit": None, "compute": None, **use}
    return HeldSlice(
        "n1", pod, "main", PART, SliceUse("team", name, "main", "n1", "n1-0", **known) if use else None
    )


@pytest.mark.parametrize(
    ("use", "figures"),
    [
        ({"compute": 0.5}, [1000, 7.5, 3092, 0]),
        ({"compute": None}, [1000, None, 3092, 0]),
        ({"used": None, "compute": 0.2}, [None, 3.0, None, 0]),
        ({"idle": IDLE_SECONDS + 100.0}, [1000, None, 4092, (NOW - IDLE_SECONDS - 100) // 60 * 60]),
        ({"idle": IDLE_SECONDS - 1.0}, [1000, None, 3092, 0]),
    ],
)  # fmt: skip
def test_the_figures_of_a_slice_are_those_of_the_commands(
    use: Mapping[str, float | None], figures: Sequence[float | None]
) -> None:
    found = use_entries("n1", [slice_of("a", "", **use)], NOW)
    assert found == {"n1 team": {"n1-0": {"a/main": figures}}}


def test_a_slice_of_which_nothing_is_known_is_left_out() -> None:
    assert use_entries("n1", [slice_of(), slice_of("b", used=None, compute=None)], NOW) == {}


def test_owners_are_those_that_leave_most_unused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = slice_of("c", owner="x", idle=IDLE_SECONDS)
    found = owner_entries(
        [slice_of("a", compute=0.0), slice_of("b"), idle, slice_of("d", owner="x", compute=1.0)]
    )
    assert [*found] == ["team/Job x", "team/Pod a", "team/Pod b"]
    assert found["team/Job x"] == {
        "namespace": "team", "owner": "Job x", "slices": 2, "idle": 1, "heldMiB": 8184, "usedMiB": 2000,
        "unusedMiB": 4092 + 3092,
    }  # fmt: skip
    assert found["team/Pod b"]["unusedMiB"] is None, "unknown stays unknown"
    monkeypatch.setattr(held, "MOST_OWNERS", 1)
    assert [*owner_entries([slice_of("a", compute=0.0), idle])] == ["team/Job x"]
    other = slice_of("b", compute=0.0)
    other = other._replace(pod=replace(other.pod, namespace="other"))
    assert [*owner_entries([other, idle])] == ["team/Job x", "other/Pod b"], "each namespace has owners"


class Reader:
    """A reader that gives these uses, or raises."""

    def __init__(self, uses: Mapping[SliceKey, SliceUse], notes: Sequence[str] = (), fails: str = "") -> None:
        self.uses, self.notes, self.fails = uses, notes, fails
        self.asked: list[set[str]] = []

    def read(self, nodes: Collection[str]) -> Mapping[SliceKey, SliceUse]:
        self.asked.append({*nodes})
        if self.fails:
            raise UnknownError(self.fails)
        return self.uses


def shown(entries: PageEntries, kind: str) -> dict[str, Any]:
    found = [json.loads(text) for text in entries.since(0, 0).texts]
    return {key: value for of, key, value in found if of == kind and value is not None}


def uses(reader: Reader, entries: PageEntries) -> HeldUses:
    ledger = Ledger()
    ledger.set_node("n1", inventory("n1", 1))
    ledger.set_node("n2", inventory("n2", 1))
    ledger.put(Holding.of(Grant("uid-a", "n1", {"main": (PART,)})))
    pods = {"uid-a": Pod("team", "a", "uid-a", node="n1")}
    return HeldUses(reader, entries, lambda: (ledger.snapshot().records(), pods), lambda: True)


def test_only_agents_of_nodes_with_slices_are_asked_and_their_answers_are_shown() -> None:
    entries = PageEntries()
    found = slice_of(compute=0.5).use
    assert found is not None
    reader = Reader({("team", "a", "main", "n1-0"): found}, ["one", "two", "three", "four", "five"])
    assert uses(reader, entries).step() == held.ASK_SECONDS
    assert reader.asked == [{"n1"}]
    assert shown(entries, "use") == {"n1 team": {"n1-0": {"a/main": [1000, 7.5, 3092, 0]}}}
    assert [*shown(entries, "owner")] == ["team/Pod a"]
    assert shown(entries, "about")["use"] == {"notes": ["one", "two", "three", "and 2 more"]}


def test_where_nobody_answers_use_is_unknown_and_the_page_says_why() -> None:
    entries = PageEntries()
    reader = Reader({})
    asking = uses(reader, entries)
    reader.uses = {("team", "a", "main", "n1-0"): slice_of(compute=0.5).use}  # type: ignore[dict-item]
    asking.step()
    reader.fails = "no route to host"
    asking.step()
    assert shown(entries, "use") == {}
    assert shown(entries, "owner")["team/Pod a"]["unusedMiB"] is None
    assert shown(entries, "about")["use"] == {"notes": ["use is not known: no route to host"]}


def test_the_thread_ends_with_the_page() -> None:
    asking = uses(Reader({}), PageEntries())
    with closing(asking):
        asking.start()
