"""Fragmentation F as FGD measures it: the idle cards of a node that an average pod of the workload could not use.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC'23, section 3: F(node) = sum over pod classes m of p_m * (idle shares of the cards that m cannot use there).
p_m is the share of class m in the workload. If m does not fit the node at all, the idle shares of all its cards count.
The idle share of a card is the smaller of its free shares of memory and core groups.
"""

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from device_plugin.core.hosts import NOTHING
from device_plugin.core.placement.cache import Policy
from device_plugin.core.placement.card_columns import CardKind, Floats, Ints, Mask
from device_plugin.core.placement.fit import CardFit
from device_plugin.core.placement.table import NodeTable, NodeView, RowCache
from device_plugin.core.placement.workload import Demand, Weighted
from device_plugin.core.requests import Shape


class Fragments:
    """Computes the fragmentation F of nodes, and the growth of F by a placement, in cards.

    F of a node is the idle part of its cards that an average expected request cannot use. Shapes (kinds of requests)
    that differ only in CPU, memory and disk form one group of shapes: a card fits all shapes of the group or none. Only
    the CPU of the host counts: a node may have enough CPU for some shapes of a group.
    """

    def __init__(self, kinds: Sequence[CardKind], shapes: Sequence[Weighted]) -> None:
        total = sum(each.count for each in shapes) or 1.0
        alike: dict[Shape, int] = {}
        groups = [alike.setdefault(replace(each.shape, host=NOTHING), len(alike)) for each in shapes]
        self._demand = Demand(kinds, [Weighted(shape, 1.0) for shape in alike])
        cpu = [each.shape.host.cpu_milli for each in shapes]
        self._cpu: Ints
        self._cpu, rows = np.unique(np.array(cpu, dtype=np.int64), return_inverse=True)
        # The share of each shape in the workload, in the row of its CPU amount and the column of its group.
        self._shares: Floats = np.zeros((len(self._cpu), len(alike)))
        for row, group, each in zip(rows, groups, shapes, strict=True):
            self._shares[row, group] += each.count / total
        self._all = float(self._shares.sum())

    def of(self, view: NodeView) -> Floats:
        """The fragmentation F of each node; shape (nodes,)."""
        idle, fit = self._cards(view, view.free_mib, view.free_cores, view.free_slices)
        return self._of_cards(view.cpu, idle, fit)

    def added_by_slice(self, view: NodeView, need: CardFit, shape: Shape) -> Floats:
        """The growth of a node's fragmentation F, in cards, if a card gives the slice; shape (nodes, cards)."""
        # The number of slices given: 0 before the placement, 1 after it.
        times: Ints = np.array([0, 1])[:, None, None]
        mib, cores = view.free_mib - times * need.mib, view.free_cores - times * need.cores
        idle, fit = self._cards(view, mib, cores, view.free_slices - times)
        served = self._served(view.cpu - times[:, 0] * shape.host.cpu_milli)
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

    def added_by_whole(self, view: NodeView, taken: Mask, shape: Shape) -> Floats:
        """The growth of a node's fragmentation F, in cards, if it gives the cards `taken`; shape (nodes,)."""
        idle, fit = self._cards(view, view.free_mib, view.free_cores, view.free_slices)
        left, fits_then = np.where(taken, 0, idle), fit & ~taken[:, :, None]
        after = self._of_cards(view.cpu - shape.host.cpu_milli, left, fits_then)
        return after - self._of_cards(view.cpu, idle, fit)

    def _cards(self, view: NodeView, mib: Ints, cores: Ints, slices: Ints) -> tuple[Floats, Mask]:
        """The idle share of each card with this much free, and which groups of shapes the card fits.

        `mib`, `cores` and `slices` are the free amounts. The arguments and the share have the shape (…, nodes, cards),
        the second result (…, nodes, cards, groups of shapes). A card that is not usable has no idle share and fits no
        group.
        """
        demand = self._demand
        idle = np.where(view.usable, np.minimum(mib / view.mib, cores / view.groups), 0)
        # With one kind of card the sizes are broadcast instead of copied for each card.
        kind = view.kind if len(demand.kinds) > 1 else 0
        fit = (
            demand.allowed[kind] & (view.usable & (slices >= 1))[..., None]
            & (mib[..., None] >= demand.mib[kind]) & (cores[..., None] >= demand.cores[kind])
        )  # fmt: skip
        fit &= demand.slice | (slices == view.most)[..., None]
        return idle, fit

    def _served(self, cpu: Ints) -> Floats:
        """For each node and group of shapes, the share of the expected requests for which the node has enough CPU.

        The result has the shape (…, nodes, groups).
        """
        return (cpu[..., None] >= self._cpu).astype(np.float64) @ self._shares

    def _of_cards(self, cpu: Ints, idle: Floats, fit: Mask) -> Floats:
        """The fragmentation F of nodes with `cpu` free.

        `idle` is the idle share of each card, and `fit` marks the groups of shapes (kinds of requests) that the card
        fits.
        """
        useless = np.where(fit, 0, idle[:, :, None]).sum(axis=1)
        return self._sum(self._served(cpu), idle.sum(axis=1), useless, fit.sum(axis=1))

    def _sum(self, served: Floats, idle: Floats, useless: Floats, number: Ints) -> Floats:
        """The fragmentation F of nodes, from their `idle` cards and each group's `useless` cards.

        A group is a group of shapes (kinds of requests). `useless` are the idle cards that a group cannot use, `served`
        is the group's share of the workload for which the node has enough CPU. `number` is the number of cards that
        each group can use; it decides whether the group fits the node.
        """
        fits = number >= np.maximum(self._demand.whole, 1)
        spared = np.where(fits, served * (idle[..., None] - useless), 0).sum(axis=-1)
        return idle * self._all - spared


class Fgd(Policy):
    """The policy `fgd`: choose the node where fragmentation F grows least.

    F is the idle cards that an average pod cannot use. As in FGD's paper (ATC'23), a sigmoid of the growth is rounded
    to steps of 1/100. So nearly equal nodes have equal scores, and the first of them is filled before the next is used.
    """

    def __init__(self, fragments: Fragments) -> None:
        self._fragments = fragments

    def slices(self, view: NodeView, need: CardFit, shape: Shape) -> Floats:
        """The score of each card for a slice, in steps: higher if fragmentation grows less; shape (nodes, cards)."""
        return _steps(self._fragments.added_by_slice(view, need, shape))

    def whole(self, view: NodeView, taken: Mask, shape: Shape) -> Floats:
        """The score of each node for cards `taken`, in steps: higher if fragmentation grows less; shape (nodes,)."""
        return _steps(self._fragments.added_by_whole(view, taken, shape))


def _steps(added: Floats) -> Floats:
    return np.floor(100 / (1 + np.exp(np.round(added, 9))))


class FragmentationGauge(RowCache):
    """Measures the fragmentation of the cluster for one target workload, the requests expected of later pods.

    The measure is updated node by node.
    """

    def __init__(self, table: NodeTable, fragments: Fragments) -> None:
        super().__init__(table)
        self._fragments = fragments
        self._lay_out()

    def ratio(self) -> float:
        """The share of all cards that is idle and that the target workload cannot use, as of the last `refresh`."""
        return float(self._f.sum() / max(1, self._table.card_count))

    def _lay_out(self) -> None:
        self._f: Floats = np.zeros(len(self._table.nodes))

    def _compute(self, positions: Ints) -> None:
        self._f[positions] = self._fragments.of(NodeView(self._table, positions))
