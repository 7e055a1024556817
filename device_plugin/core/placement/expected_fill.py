"""The policy `fragmentation`: a pod goes where it destroys the least expected fill.

The worth of a node is what its cards will probably hold of the pods to come, given what CPU it has left:

    worth(node) = min over CPU prices p of  p * free CPU + sum over cards of fill.worth[kind, p, level]

The minimum is a Lagrangian bound: a node short of CPU for its free cards has a price for it, a node with plenty has
none, and nobody weighs CPU against cards. A placement scores the worth after it less the worth before, less the price
of the kinds that other pods depend on. Among choices nearly alike the least fragmentation wins, and untouched nodes
are opened last.
"""

import numpy as np

from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Numbers, Rows, Values
from device_plugin.core.placement.fill import Fill
from device_plugin.core.placement.fragments import Fragments
from device_plugin.core.placement.index import View
from device_plugin.core.placement.need import Need

# Thousandths of a card by which a card's growth in fragmentation may outweigh expected fill, and what opening an
# untouched node counts as.
TIE, UNTOUCHED_NODE = 3.0, 3.0


class Loss:
    """What expected fill is lost, in thousandths of a card; as a policy, the score of `ExpectedFill` at its best."""

    lasting, rough = True, None

    def __init__(self, fill: Fill) -> None:
        self._fill = fill

    def slices(self, view: View, need: Need, ask: Ask) -> Values:
        """The less is lost, the better."""
        share = np.maximum(need.mib / view.mib, need.cores / view.groups)
        return _settled(view, self.by_slice(view, need, ask), -share)

    def whole(self, view: View, taken: Rows, ask: Ask) -> Values:
        """The less is lost, the better."""
        score = self.by_whole(view, taken, ask)
        return _settled(view, score, -taken.sum(axis=1)) if ask.request.whole else score.round(6)

    def by_slice(self, view: View, need: Need, ask: Ask) -> Values:
        """Less than zero by what is lost when a card gives the slice; shape (nodes, cards)."""
        fill, cpu = self._fill, ask.host.cpu_milli
        now = self._worth(view, view.free_mib, view.free_cores)
        then = self._worth(view, view.free_mib - need.mib, view.free_cores - need.cores)
        total = now.sum(axis=1)
        after = (total[:, None, :] - now + then + (fill.cpu * (view.cpu - cpu)[:, None])[:, None, :]).min(
            axis=2
        )
        share = np.maximum(need.mib / view.mib, need.cores / view.groups)
        score: Values = after - self._before(view, total)[:, None] - fill.price[view.kind] * share
        return score

    def by_whole(self, view: View, taken: Rows, ask: Ask) -> Values:
        """Less than zero by what is lost when the cards `taken` are given away; shape (nodes,)."""
        fill, cpu = self._fill, ask.host.cpu_milli
        now = self._worth(view, view.free_mib, view.free_cores)
        left = np.where(taken[:, :, None], 0, now).sum(axis=1)
        after = (left + fill.cpu * (view.cpu - cpu)[:, None]).min(axis=1)
        price = np.where(taken, fill.price[view.kind], 0).sum(axis=1)
        score: Values = after - self._before(view, now.sum(axis=1)) - price
        return score

    def _worth(self, view: View, mib: Numbers, cores: Numbers) -> Values:
        """Of each card with so much free, for each CPU price; shape (nodes, cards, CPU prices)."""
        fill = self._fill
        levels = fill.grid.levels(np.maximum(mib, 0), np.maximum(cores, 0), view.mib, view.groups)
        worth: Values = fill.worth[view.kind, :, levels]
        return np.where((view.there & view.usable)[:, :, None], worth, 0)

    def _before(self, view: View, total: Values) -> Values:
        worth: Values = (total + self._fill.cpu * view.cpu[:, None]).min(axis=1)
        return worth


class ExpectedFill:
    """Scores in thousandths of a card."""

    lasting = True

    def __init__(self, fill: Fill, fragments: Fragments) -> None:
        self._loss = Loss(fill)
        self._fragments = fragments

    @property
    def rough(self) -> Loss:
        """Fragmentation falls by no more than what is given away, and to measure it takes most of the time."""
        return self._loss

    def slices(self, view: View, need: Need, ask: Ask) -> Values:
        """The less expected fill is lost, the better."""
        added = self._fragments.added_by_slice(view, need, ask)
        return _settled(view, self._loss.by_slice(view, need, ask), added)

    def whole(self, view: View, taken: Rows, ask: Ask) -> Values:
        """The less expected fill is lost, the better."""
        score = self._loss.by_whole(view, taken, ask)
        if not ask.request.whole:
            return score.round(6)
        return _settled(view, score, self._fragments.added_by_whole(view, taken, ask))


def _settled(view: View, score: Values, added: Values) -> Values:
    """Near-equal choices settled; rounded, so that equal states are exactly equal."""
    untouched = (view.untouched | ~view.there).all(axis=1, keepdims=score.ndim > 1)
    settled: Values = np.round(score - np.where(untouched, UNTOUCHED_NODE * TIE, TIE * added), 6)
    return settled
