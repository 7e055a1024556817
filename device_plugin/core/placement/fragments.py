"""Fragmentation as FGD measures it: what is idle on a node and of no use to a pod of the target workload.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC'23, section 3: F(node) = sum over classes m of p_m times the idle share of the cards that m cannot use there;
all that is idle where m does not fit the node at all. Here an idle share is the lesser of memory and core groups.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from device_plugin.core.hosts import HostAmounts
from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Kind, Numbers, Rows, Values
from device_plugin.core.placement.demand import Demand
from device_plugin.core.placement.index import View
from device_plugin.core.placement.need import Need
from device_plugin.core.placement.target import Weighted


class Fragments:
    """F for nodes, and how much a placement would add to it. In cards.

    Asks that differ in nothing but CPU are looked at together: they fit the same cards, and a node has CPU for some.
    """

    def __init__(self, kinds: Sequence[Kind], asks: Sequence[Weighted]) -> None:
        total = sum(each.count for each in asks) or 1.0
        alike: dict[Ask, int] = {}
        groups = [alike.setdefault(replace(each.ask, host=HostAmounts()), len(alike)) for each in asks]
        self._demand = Demand(kinds, [Weighted(ask, 1.0) for ask in alike])
        cpu = [each.ask.host.cpu_milli for each in asks]
        self._cpu: Numbers
        self._cpu, rows = np.unique(np.array(cpu, dtype=np.int64), return_inverse=True)
        # Of asks that want as much CPU, in the column of their group, their share of the workload.
        self._shares: Values = np.zeros((len(self._cpu), len(alike)))
        for row, group, each in zip(rows, groups, asks, strict=True):
            self._shares[row, group] += each.count / total
        self._all = float(self._shares.sum())

    def of(self, view: View) -> Values:
        """F of each node; shape (nodes,)."""
        idle, fit = self._cards(view, view.free_mib, view.free_cores, view.free_slices)
        return self._sum(self._served(view.cpu), idle.sum(axis=1), _useless(idle, fit), fit.sum(axis=1))

    def added_by_slice(self, view: View, need: Need, ask: Ask) -> Values:
        """The growth of F when a card gives the slice; shape (nodes, cards)."""
        # Now, and once it is given.
        times: Numbers = np.array([0, 1])[:, None, None]
        mib, cores = view.free_mib - times * need.mib, view.free_cores - times * need.cores
        idle, fit = self._cards(view, mib, cores, view.free_slices - times)
        served = self._served(view.cpu - times[:, 0] * ask.host.cpu_milli)
        useless, total, number = np.where(fit, 0, idle[..., None]), idle[0].sum(axis=1), fit[0].sum(axis=1)
        now = useless[0].sum(axis=1)
        before = self._sum(served[0], total, now, number)
        after = self._sum(
            served[1][:, None, :],
            total[:, None] - idle[0] + idle[1],
            now[:, None, :] + (useless[1] - useless[0]),
            number[:, None, :] - fit[0] + fit[1],
        )
        return after - before[:, None]

    def added_by_whole(self, view: View, taken: Rows, ask: Ask) -> Values:
        """The growth of F when the cards `taken` are given away; shape (nodes,)."""
        idle, fit = self._cards(view, view.free_mib, view.free_cores, view.free_slices)
        before = self._sum(self._served(view.cpu), idle.sum(axis=1), _useless(idle, fit), fit.sum(axis=1))
        left, fit = np.where(taken, 0, idle), fit & ~taken[:, :, None]
        served = self._served(view.cpu - ask.host.cpu_milli)
        return self._sum(served, left.sum(axis=1), _useless(left, fit), fit.sum(axis=1)) - before

    def _cards(self, view: View, mib: Numbers, cores: Numbers, slices: Numbers) -> tuple[Values, Rows]:
        """With so much free: the idle share of each card, and which asks it could serve.

        Shapes (…, nodes, cards) and (…, nodes, cards, groups); `mib`, `cores` and `slices` are like the former.
        """
        demand = self._demand
        idle = np.where(view.usable, np.minimum(mib / view.mib, cores / view.groups), 0)
        # Where all cards are alike, what is asked of them need not be copied for each.
        kind = view.kind if len(demand.kinds) > 1 else 0
        fit = (
            demand.allowed[kind] & (view.usable & (slices >= 1))[..., None]
            & (mib[..., None] >= demand.mib[kind]) & (cores[..., None] >= demand.cores[kind])
        )  # fmt: skip
        fit &= demand.slice | (slices == view.most)[..., None]
        return idle, fit

    def _served(self, cpu: Numbers) -> Values:
        """The share of the workload, by group, that nodes have CPU for; shape (…, nodes, groups)."""
        served: Values = (cpu[..., None] >= self._cpu).astype(np.float64) @ self._shares
        return served

    def _sum(self, served: Values, idle: Values, useless: Values, number: Numbers) -> Values:
        """F from what is idle in all, and what of it each group cannot use though it fits the node."""
        fits = number >= np.maximum(self._demand.whole, 1)
        spared = np.where(fits, served * (idle[..., None] - useless), 0).sum(axis=-1)
        f: Values = idle * self._all - spared
        return f


def _useless(idle: Values, fit: Rows) -> Values:
    """Of each node the idle shares on cards that an ask cannot use; shape (nodes, asks)."""
    useless: Values = np.where(fit, 0, idle[:, :, None]).sum(axis=1)
    return useless


class Fgd:
    """Fragmentation gradient descent: where F grows least, in the published steps of a hundredth of a sigmoid.

    The steps matter: nearly equal nodes count as equal, and the first of them is filled before the next is opened.
    """

    lasting, rough = True, None

    def __init__(self, fragments: Fragments) -> None:
        self._fragments = fragments

    def slices(self, view: View, need: Need, ask: Ask) -> Values:
        """The less F grows, the better."""
        return _steps(self._fragments.added_by_slice(view, need, ask))

    def whole(self, view: View, taken: Rows, ask: Ask) -> Values:
        """The less F grows, the better."""
        return _steps(self._fragments.added_by_whole(view, taken, ask))


def _steps(added: Values) -> Values:
    return np.floor(100 / (1 + np.exp(np.round(added, 9))))
