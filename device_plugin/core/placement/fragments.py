"""Fragmentation as FGD measures it: what is idle on a node and of no use to a pod of the target workload.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC'23, section 3: F(node) = sum over classes m of p_m times the idle share of the cards that m cannot use there;
all that is idle where m does not fit the node at all. Here an idle share is the lesser of memory and core groups.
"""

from collections.abc import Sequence

import numpy as np

from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Kind, Numbers, Rows, Values
from device_plugin.core.placement.demand import Demand
from device_plugin.core.placement.index import View
from device_plugin.core.placement.need import Need
from device_plugin.core.placement.target import Weighted


class Fragments:
    """F for nodes, and how much a placement would add to it. In cards."""

    def __init__(self, kinds: Sequence[Kind], asks: Sequence[Weighted]) -> None:
        self._demand = demand = Demand(kinds, asks)
        total = demand.count.sum()
        self._share: Values = demand.count / total if total else demand.count

    def of(self, view: View) -> Values:
        """F of each node; shape (nodes,)."""
        idle, fit = self._cards(view, view.free_mib, view.free_cores, view.free_slices)
        return self._sum(view.cpu[:, None], idle.sum(axis=1)[:, None], _useless(idle, fit), fit.sum(axis=1))

    def added_by_slice(self, view: View, need: Need, ask: Ask) -> Values:
        """The growth of F when a card gives the slice; shape (nodes, cards)."""
        idle, fit = self._cards(view, view.free_mib, view.free_cores, view.free_slices)
        less, fits_less = self._cards(
            view, view.free_mib - need.mib, view.free_cores - need.cores, view.free_slices - 1
        )
        useless, number, total = _useless(idle, fit), fit.sum(axis=1), idle.sum(axis=1)[:, None]
        before = self._sum(view.cpu[:, None], total, useless, number)
        after = self._sum(
            (view.cpu - ask.host.cpu_milli)[:, None, None],
            (total - idle + less)[:, :, None],
            useless[:, None, :]
            - np.where(fit, 0, idle[:, :, None])
            + np.where(fits_less, 0, less[:, :, None]),
            number[:, None, :] - fit + fits_less,
        )
        return after - before[:, None]

    def added_by_whole(self, view: View, taken: Rows, ask: Ask) -> Values:
        """The growth of F when the cards `taken` are given away; shape (nodes,)."""
        idle, fit = self._cards(view, view.free_mib, view.free_cores, view.free_slices)
        total = idle.sum(axis=1)[:, None]
        before = self._sum(view.cpu[:, None], total, _useless(idle, fit), fit.sum(axis=1))
        left, fit = np.where(taken, 0, idle), fit & ~taken[:, :, None]
        cpu = (view.cpu - ask.host.cpu_milli)[:, None]
        return self._sum(cpu, left.sum(axis=1)[:, None], _useless(left, fit), fit.sum(axis=1)) - before

    def _cards(self, view: View, mib: Numbers, cores: Numbers, slices: Numbers) -> tuple[Values, Rows]:
        """With so much free: the idle share of each card, and which asks it could serve, (nodes, cards, asks)."""
        demand = self._demand
        there = view.there & view.usable
        idle = np.where(there, np.minimum(mib / view.mib, cores / view.groups), 0)
        kind = np.where(there, view.kind, 0)
        fit = (
            demand.allowed[kind] & there[:, :, None] & (slices >= 1)[:, :, None]
            & (mib[:, :, None] >= demand.mib[kind]) & (cores[:, :, None] >= demand.cores[kind])
        )  # fmt: skip
        fit &= demand.slice | (slices == view.most)[:, :, None]
        return idle, fit

    def _sum(self, cpu: Numbers, idle: Values, useless: Values, number: Numbers) -> Values:
        demand = self._demand
        serves = (
            (cpu >= demand.cpu)
            & (number >= np.maximum(demand.whole, 1))
            & (demand.slice | (demand.whole > 0))
        )
        f: Values = np.where(serves, useless, idle) @ self._share
        return f


def _useless(idle: Values, fit: Rows) -> Values:
    """Of each node the idle shares on cards that an ask cannot use; shape (nodes, asks)."""
    useless: Values = np.where(fit, 0, idle[:, :, None]).sum(axis=1)
    return useless


class Fgd:
    """Fragmentation gradient descent: where F grows least, in the published steps of a hundredth of a sigmoid.

    The steps matter: nearly equal nodes count as equal, and the first of them is filled before the next is opened.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._fragments = Fragments((), ())

    def adopt(self, fragments: Fragments) -> None:
        """Another target workload."""
        self._fragments = fragments
        self.epoch += 1

    def slices(self, view: View, need: Need, ask: Ask) -> Values:
        """The less F grows, the better."""
        return _steps(self._fragments.added_by_slice(view, need, ask))

    def whole(self, view: View, taken: Rows, ask: Ask) -> Values:
        """The less F grows, the better."""
        return _steps(self._fragments.added_by_whole(view, taken, ask))


def _steps(added: Values) -> Values:
    return np.floor(100 / (1 + np.exp(np.round(added, 9))))
