"""Cards that are near each other, for slices of several cards of one node."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.placement.fit import at_most
from device_plugin.core.placement.near import near
from device_plugin.core.requests import PodRequest, Request
from tests.builders.cards import FAMILY, card
from tests.builders.requests import slice_request


@pytest.mark.parametrize(
    ("places", "scores", "count", "chosen"),
    [
        ([("", 0), ("", 1), ("", 0), ("", 1)], [9, 5, 0, 5], 2, [1, 3]),  # one NUMA node, the better sum
        ([("a", 0), ("b", 0), ("a", 0), ("b", 0)], [1, 9, 2, 0], 2, [1, 3]),  # one hive
        (
            [("a", 0), ("a", 1), ("", 0), ("", 0)],
            [0, 0, 9, 9],
            2,
            [0, 1],
        ),  # a hive is nearer than a NUMA node
        ([("a", 0), ("a", 1), ("a", 0), ("a", 1)], [0, 9, 0, 1], 2, [1, 3]),  # both
        ([("", -1), ("", -1), ("", -1)], [1, 3, 2], 2, [1, 2]),  # nothing is known: the best
        ([("", 0), ("", 1)], [1, 1], 2, [0, 1]),  # no choice
        ([("", 0)] * 4, [1, 1, 1, 1], 3, [0, 1, 2]),  # of equal ones the first
    ],
)
def test_near_cards_are_chosen(
    places: Sequence[tuple[str, int]], scores: Sequence[float], count: int, chosen: list[int]
) -> None:
    cards = [replace(card(f"c{i}"), hive=hive, numa=numa) for i, (hive, numa) in enumerate(places)]
    assert near(cards, scores, count) == chosen


def placed(ledger: Ledger, request: PodRequest) -> Sequence[Slice]:
    grant = Placer(ledger).place(request)
    assert isinstance(grant, Grant), grant.text
    assert ledger.hold(grant) == ()
    return grant.containers["main"]


def several(pod: str, count: int, percent: int = 50) -> PodRequest:
    return PodRequest(pod, (("main", Request(FAMILY, percent=percent, count=count)),))


@pytest.mark.parametrize(
    ("held", "count", "pods"),
    [
        ([0, 0, 0], 2, 6),  # 4 quarters of each card
        ([0, 0, 0], 3, 4),
        ([0, 3, 3], 2, 2),  # 4, 1 and 1 quarters are left
        ([0, 4, 4], 2, 0),  # two slices of one card are not what is asked for
        ([4, 4, 4], 2, 0),
        ([0, 0, 0], 4, 0),
    ],
)
def test_no_more_pods_are_counted_than_have_slices_of_different_cards(
    held: list[int], count: int, pods: int
) -> None:
    ledger = Ledger()
    ledger.set_node("n", Inventory(tuple(card(f"c{i}") for i in range(len(held)))))
    for i, slices in enumerate(held):
        for number in range(slices):
            cores = tuple(range(15 * number, 15 * number + 15))
            ledger.hold(Grant(f"{i}-{number}", "n", {"main": (Slice(f"c{i}", 4092, cores),)}))
    placer = Placer(ledger)
    request = several("p", count, 25)
    assert at_most(placer.table, request) == pods
    assert isinstance(placer.place(request), Grant) is (pods > 0)


def test_each_slice_is_of_another_card_and_near_the_others() -> None:
    ledger = Ledger()
    hives = ("a", "b", "a", "b")
    ledger.set_node("n", Inventory(tuple(replace(card(f"c{i}"), hive=hive) for i, hive in enumerate(hives))))
    placed(ledger, slice_request("first", 16))
    first = placed(ledger, several("p", 2))
    assert [s.card for s in first] == ["c1", "c3"]
    assert [(s.mem_mib, len(s.cores), s.percent) for s in first] == [(8184, 30, 50)] * 2
    # The fuller cards are filled first, and then there is no choice.
    assert [s.card for s in placed(ledger, several("q", 2))] == ["c1", "c3"]
    found = Placer(ledger).place(several("r", 2))
    assert isinstance(found, Refusal)
    assert found.cards == {Reason.TOGETHER: 1, Reason.MEMORY: 3}
    assert "needs 2 cards with room for a slice on one node; the most: n with 1" in found.text
