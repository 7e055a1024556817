"""One card: how large a request is there, what it lacks, and which core groups it gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.contract.cards import Card, Inventory
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.contract.masks import core_mask
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.ledger import CardState, Ledger
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.placement.fit import Size, choose_cores, fit, size_on, take
from device_plugin.core.requests import PodRequest, Request
from tests.builders.cards import FAMILY, card

CARD = card("c")


def state(card: Card = CARD, *, mib: int = 16368, cores: int = (1 << 60) - 1, slices: int = 4) -> CardState:
    return CardState(card, mib, cores, slices)


@pytest.mark.parametrize(
    ("request_", "size"),
    [
        (Request(FAMILY, 0, 4, 7), Size(4092, 7)),
        (Request(FAMILY, 0, 1), Size(1023, 4)),  # 60 groups / 16 units = 3.75, rounded up
        (Request(FAMILY, 0, None, 1), Size(1023, 1)),
        (Request(FAMILY, 0, None, 16), Size(5 * 1023, 16)),  # 4.27 units, rounded up
        (Request(FAMILY, 1), Size(16368, 60)),
        (Request(FAMILY, 0, 16), Size(16368, 60)),
        (Request(FAMILY, 0, 17), None),
        (Request(FAMILY, 0, 1, 61), None),
    ],
)
def test_the_missing_half_is_completed_in_proportion(request_: Request, size: Size | None) -> None:
    assert size_on(CARD, request_) == size


@pytest.mark.parametrize(
    ("held", "request_", "reason"),
    [
        (0, Request(FAMILY, 0, 17), Reason.TOO_LARGE),
        (1, Request(FAMILY, 1), Reason.WHOLE),
        (4, Request(FAMILY, 0, 1), Reason.SLICES),
        (3, Request(FAMILY, 0, 5, 1), Reason.MEMORY),
        (3, Request(FAMILY, 0, 1, 16), Reason.CORES),
    ],
)
def test_what_is_lacking_is_named(held: int, request_: Request, reason: Reason) -> None:
    """On a card of which quarters are held."""
    ledger = Ledger()
    ledger.set_node("n", Inventory((CARD,)))
    for i in range(held):
        ledger.hold(Grant(f"h{i}", "n", {"main": (Slice("c", 4092, tuple(range(15 * i, 15 * i + 15))),)}))
    node = ledger.node("n")
    assert node is not None
    assert fit(node.cards[0], request_) is None
    answer = Placer(ledger).place(PodRequest("p", (("main", request_),)))
    assert isinstance(answer, Refusal)
    assert answer.cards == {reason: 1}


def test_taking_a_slice_leaves_the_rest() -> None:
    given_ = fit(state(), Request(FAMILY, 0, 4))
    assert given_ == Slice("c", 4092, tuple(range(15)))
    assert given_ is not None
    left = take(state(), given_)
    assert left == state(mib=12276, cores=((1 << 60) - 1) & ~((1 << 15) - 1), slices=3)


@pytest.mark.parametrize(
    ("free", "count", "cores"),
    [
        ({0, 1, 2, 3}, 2, (0, 1)),
        ({0, 2, 3, 7}, 2, (2, 3)),  # a run, though lower ids are free
        ({0, 1, 2, 5, 6}, 2, (5, 6)),  # the shortest run that holds it
        ({0, 2, 4, 6}, 3, (0, 2, 4)),  # no run: the lowest ids
        ({5}, 1, (5,)),
    ],
)
def test_core_groups_are_a_run_where_there_is_one(free: set[int], count: int, cores: tuple[int, ...]) -> None:
    assert choose_cores(core_mask(free), count) == cores


@given(st.sets(st.integers(0, 127), min_size=1), st.data())
def test_core_groups_are_free_distinct_and_as_many_as_asked(free: set[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(free)))
    cores = choose_cores(core_mask(free), count)
    assert len(cores) == count
    assert set(cores) <= free
    assert list(cores) == sorted(set(cores))
