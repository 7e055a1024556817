"""Nothing is decided by a new lesson before all nodes were looked at, a few at a time."""

import pytest

from device_plugin.core.contract.grants import Grant
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.workload import Weighted
from device_plugin.core.requests import Shape
from tests.builders.cards import inventory
from tests.builders.requests import shape, slice_request

SMALL, WHOLE = shape(1), shape(whole=1)


@pytest.fixture
def ledger() -> Ledger:
    """Ten cards on ten nodes, of each of which one unit is gone."""
    ledger = Ledger()
    for number in range(10):
        ledger.set_node(f"n{number}", inventory(f"n{number}", 1))
        grant = Placer(ledger).place(slice_request(f"p{number}", 1), [f"n{number}"])
        assert isinstance(grant, Grant)
        ledger.hold(grant)
    return ledger


def lesson(placer: Placer, asked: Shape) -> WorkloadTables:
    return WorkloadTables(*placer.supply(), [Weighted(asked, 1.0)])


def renewed(placer: Placer, most: int) -> int:
    """How many turns it takes."""
    turns = 1
    while not placer.renew(most):
        turns += 1
    return turns


def test_fragmentation_is_that_of_the_old_lesson_until_the_new_one_is_ready(ledger: Ledger) -> None:
    placer = Placer(ledger)
    placer.install(lesson(placer, SMALL))
    renewed(placer, 3)
    assert placer.fragmentation() == pytest.approx(0), "every card still has room for a small slice"
    placer.install(lesson(placer, WHOLE))
    for _ in range(3):
        assert not placer.renew(3)
        assert placer.fragmentation() == pytest.approx(0)
    renewed(placer, 3)
    assert placer.fragmentation() == pytest.approx(56 / 60), "no card is free any more"


def test_a_lesson_about_cards_that_are_gone_decides_nothing(ledger: Ledger) -> None:
    placer = Placer(ledger)
    placer.install(lesson(placer, SMALL))
    renewed(placer, 3)
    placer.install(lesson(placer, WHOLE))
    assert not placer.renew(3)
    ledger.set_node("n0", inventory("n0", 1, groups=30))
    assert renewed(placer, 3) == 1
    assert placer.fragmentation() is None
    assert isinstance(placer.place(slice_request("q", 1)), Grant)


def test_the_newest_lesson_counts(ledger: Ledger) -> None:
    placer = Placer(ledger)
    placer.install(lesson(placer, SMALL))
    placer.install(lesson(placer, WHOLE))
    assert not placer.renew(3)
    placer.install(lesson(placer, SMALL))
    renewed(placer, 3)
    assert placer.fragmentation() == pytest.approx(0)
