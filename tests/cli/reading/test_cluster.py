"""What lists of metadata say about nodes, cards, and the pods that hold slices of them."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from device_plugin.cli.reading.cluster import KnownCluster
from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import Inventory, ReportedSlice, SliceState
from device_plugin.core.contract.grants import CardSize, Grant, Slice
from device_plugin.core.ledger import CardState
from device_plugin.core.placement.fit import fit
from device_plugin.core.requests import Request
from device_plugin.kube.api import Metadata
from tests.builders.cards import card, inventory


def node(name: str, shared: Inventory | None = None, text: str = "", cordoned: str = "") -> Metadata:
    kept = {
        annotations.CARDS: shared.encode() if shared is not None else text,
        annotations.CORDONED: cordoned,
    }
    return Metadata(name, annotations={key: value for key, value in kept.items() if value})


def pod(name: str, card: str, cores: range = range(15), mem: int = 4092, where: str = "n1") -> Metadata:
    grant = Grant(
        f"uid-{name}", where, {"main": (Slice(card, mem, tuple(cores)),)}, cards={card: CardSize(16368, 4)}
    )
    return Metadata(name, "default", f"uid-{name}", annotations={annotations.GRANT: grant.encode()})


def test_cards_have_their_holders_by_name() -> None:
    known = KnownCluster()
    known.see_node(node("n1", inventory("n1", 2), cordoned="n1-1"))
    known.see_node(node("plain"))
    for each in (pod("b", "n1-0", range(15, 30)), pod("a", "n1-0")):
        assert known.see_pod(each, running=True) == "n1"
    known.see_pod(pod("all", "n1-1", range(60), 16368), running=False)
    reading = known.reading()
    first, second = reading.cards()
    assert list(reading.nodes) == ["n1"]
    assert [holder.pod for holder in first.holders] == ["a", "b"]
    assert (first.held_mib, first.held_groups, first.core_groups) == (8184, 30, 60)
    assert not first.whole(first.holders[0])
    assert second.whole(second.holders[0])
    assert not second.holders[0].running
    assert second.card is not None
    assert second.card.cordoned
    assert not reading.missing


@pytest.mark.parametrize(
    ("held", "free"),
    [
        ([], 100),
        ([(4092, 15, 25)], 75),
        ([(4092, 15, 0)], 75),
        ([(1023, 30, 0)], 51),  # 30.6 core groups, of which the card grants 30
        ([(16368, 1, 0)], 0),
        ([(1023, 4, 0)] * 4, 0),  # it gives no fifth slice
    ],
)
def test_the_free_percent_of_a_card_is_the_most_that_would_fit(
    held: list[tuple[int, int, int]], free: int
) -> None:
    known, slices, begin = KnownCluster(), list[Slice](), 0
    for mem, cores, percent in held:
        slices.append(Slice("n1-0", mem, tuple(range(begin, begin + cores)), percent))
        begin += cores
    known.see_node(node("n1", inventory("n1", 1)))
    for number, part in enumerate(slices):
        grant = Grant(f"uid-{number}", "n1", {"main": (part,)})
        kept = {annotations.GRANT: grant.encode()}
        known.see_pod(Metadata(str(number), "default", f"uid-{number}", annotations=kept), running=True)
    (found,) = known.reading().cards()
    assert found.free_percent == free
    asked = Request("hygon.com/dcu", percent=max(free, 1))
    state = CardState.of(card("n1-0"), slices)
    assert (fit(state, asked) is not None) == (free > 0)
    assert free == 100 or fit(state, structs.replace(asked, percent=free + 1)) is None


@pytest.mark.parametrize(
    ("shared", "cordoned", "free"),
    [
        (inventory("n1", 1), "", 100),
        (inventory("n1", 1), "n1-0", 0),
        (inventory("n1", 1, healthy=False), "", 0),
        (replace(inventory("n1", 1), serving=False), "", 0),
    ],
)
def test_a_card_that_gets_no_new_slices_has_no_free_percent(
    shared: Inventory, cordoned: str, free: int
) -> None:
    known = KnownCluster()
    known.see_node(node("n1", shared, cordoned=cordoned))
    (found,) = known.reading().cards()
    assert found.free_percent == free


def test_without_nodes_cards_are_those_of_grants_with_their_sizes() -> None:
    known = KnownCluster()
    known.see_pod(pod("a", "n1-0"), running=True)
    (found,) = known.reading(namespace="default").cards()
    assert (found.uuid, found.card, found.mem_mib, found.max_slices, found.core_groups) == (
        "n1-0",
        None,
        16368,
        4,
        0,
    )
    assert known.reading(namespace="default").namespace == "default"


def test_a_slice_of_a_card_that_its_node_does_not_show_is_held_all_the_same() -> None:
    known = KnownCluster()
    known.see_node(node("n1", inventory("n1", 1)))
    known.see_pod(pod("a", "gone"), running=True)
    shown, gone = known.reading().cards()
    assert (shown.uuid, shown.holders) == ("n1-0", ())
    assert (gone.uuid, gone.card, len(gone.holders)) == ("gone", None, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ('{"v":2}', "version 2"),
        (Grant("other", "n1", {"a": (Slice("c", 1, (0,)),)}).encode(), "void"),
    ],
)
def test_a_grant_that_is_not_the_pods_own_is_a_fault_until_the_pod_is_gone(text: str, said: str) -> None:
    known = KnownCluster()
    known.see_pod(pod("a", "n1-0"), running=True)
    bad = pod("a", "n1-0")._replace(annotations={annotations.GRANT: text})
    assert known.see_pod(bad, running=True) == "n1"
    (fault,) = known.reading().faults
    assert (fault.subject, said in fault.text) == ("default/a", True)
    assert not [*known.reading().cards()]
    known.forget_pod("uid-a", running=True)
    assert not known.reading().faults


def test_an_inventory_that_cannot_be_read_is_a_fault_of_its_node() -> None:
    known = KnownCluster()
    known.see_node(node("n1", text="[]"))
    assert [fault.subject for fault in known.reading().faults] == ["n1"]
    assert known.reading().nodes["n1"].serving is None
    known.see_node(node("n1", inventory("n1")))
    assert not known.reading().faults
    assert known.reading().nodes["n1"].serving


def test_what_an_agent_reports_is_shown_and_a_pod_that_is_gone_still_holds() -> None:
    shared = replace(
        inventory("n1", 1),
        slices=(
            ReportedSlice(
                "uid-gone", "default", "gone", "main", SliceState.OUTLIVING, (Slice("n1-0", 1023, (59,)),)
            ),
            ReportedSlice("uid-a", "default", "a", "main", SliceState.COVERED, (Slice("n1-0", 4092, (0,)),)),
        ),
    )
    known = KnownCluster()
    known.see_node(node("n1", shared))
    known.see_pod(pod("a", "n1-0"), running=True)
    (found,) = known.reading().cards()
    assert [(each.pod, each.state) for each in found.holders] == [
        ("a", SliceState.COVERED),
        ("gone", SliceState.OUTLIVING),
    ]
    assert found.held_groups == 16


@pytest.mark.parametrize("first", ["leaves", "comes"])
def test_a_pod_that_begins_to_run_is_held_whichever_watch_is_first(first: str) -> None:
    known = KnownCluster()
    known.see_node(node("n1", Inventory((card("n1-0"),))))
    each = pod("a", "n1-0")
    known.see_pod(each, running=False)
    steps: list[Callable[[], str]] = [
        lambda: known.forget_pod(each.uid, running=False),
        lambda: known.see_pod(each, running=True),
    ]
    for step in steps if first == "leaves" else reversed(steps):
        assert step() == "n1"
    (found,) = known.reading().cards()
    assert [holder.running for holder in found.holders] == [True]
    assert known.forget_pod(each.uid, running=True) == "n1"
    assert [len(found.holders) for found in known.reading().cards()] == [0]
