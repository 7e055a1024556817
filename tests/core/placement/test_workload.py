"""The target workload: what came most, the newest first, however much else comes."""

import numpy as np

from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.placement.card_columns import CardKind
from device_plugin.core.placement.policies import KINDS, WorkloadTables
from device_plugin.core.placement.table import NodeView
from device_plugin.core.placement.workload import KEPT, MOST, TargetWorkload, Weighted
from device_plugin.core.requests import Request, Selector, Shape
from tests.builders.cards import FAMILY, inventory


def test_pods_that_all_ask_for_something_else_do_not_pile_up_nor_hide_what_comes_often() -> None:
    target, usual = TargetWorkload(), Shape(Request(FAMILY, mem=4))
    for number in range(3 * KEPT):
        target.add(Shape(Request(FAMILY, mem=1), Selector(f"m{number}")))
        if number % 10 == 0:
            target.add(usual)
    assert target.frequent()[0].shape == usual
    assert len(target.frequent(1.0)) == MOST
    assert len(target.copy()._counts) <= 2 * KEPT


def test_tables_look_at_so_many_kinds_of_asks_for_each_card_and_no_more() -> None:
    """A column for each of a thousand would take a third of a gigabyte for 512 nodes."""
    kinds = [CardKind(FAMILY, "K100", 16368, 16, 60, 4)]
    shapes = [Weighted(Shape(Request(FAMILY, mem=1), Selector(f"!x{n}")), 1.0) for n in range(500)]
    ledger = Ledger()
    ledger.set_node("n1", inventory("n1", 2))
    placer = Placer(ledger)
    placer.table.refresh()
    view = NodeView(placer.table, np.array([0]))
    _, fit = WorkloadTables(kinds, [2], shapes).fragments._cards(
        view, view.free_mib, view.free_cores, view.free_slices
    )
    assert fit.shape == (1, 2, KINDS)
