"""The policy `fragmentation`: a pod goes where it destroys the least expected fill.

A placement scores the worth of the node after it less the worth before, of its cards one by one and of those that a pod
could have together, less the price of the kinds of cards that other pods depend on. Untouched nodes are opened last.
"""

import numpy as np

from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Rows, Values
from device_plugin.core.placement.fill import Fill
from device_plugin.core.placement.index import Index, View
from device_plugin.core.placement.need import Need
from device_plugin.core.placement.rough_fill import DIGITS, RoughFill
from device_plugin.core.placement.worth import Worth

# What opening an untouched node costs beside expected fill: it settles near-equal choices.
OPENING = 9.0


class ExpectedFill:
    """Scores in thousandths of a card."""

    lasting = True

    def __init__(self, fill: Fill, index: Index) -> None:
        self._fill = fill
        self._worth = Worth(fill)
        self.rough = RoughFill(fill, self._worth, index, OPENING)

    def slices(self, view: View, need: Need, ask: Ask) -> Values:
        """The less expected fill is lost, the better."""
        score = self._worth.lost_by_slice(view, need.mib, need.cores, ask.host.cpu_milli)
        score += self._fill.together.lost_by_slice(view, ask)
        score -= self._fill.price[view.kind] * need.share
        return _settled(view, score)

    def whole(self, view: View, taken: Rows, ask: Ask) -> Values:
        """The less expected fill is lost, the better."""
        score = self._worth.lost_by_whole(view, taken, ask.host.cpu_milli)
        score -= np.where(taken, self._fill.price[view.kind], 0).sum(axis=1)
        score += self._fill.together.lost_by_whole(view, ask)
        return _settled(view, score) if ask.request.whole else score.round(DIGITS)


def _settled(view: View, score: Values) -> Values:
    """Untouched nodes behind others; rounded, so that equal states are exactly equal."""
    untouched = view.untouched.all(axis=1, keepdims=score.ndim > 1)
    settled: Values = np.round(score - np.where(untouched, OPENING, 0.0), DIGITS)
    return settled
