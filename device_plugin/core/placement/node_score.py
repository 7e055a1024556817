"""The policy `node-score`: the node with the most free of what the application needs.

    score(node) = sum over GPU, CPU, memory and disk of  weight * free share

The free share of CPU, memory and disk is what the node can give less what its pods request. The free GPUs of a node are

    its free cards + sum over its busy cards of min(free memory share, 1 - load)

where a card above the threshold of memory in use or of load counts 0, whoever uses it. What is in use is measured by
the node's agent; on nodes that were not measured lately, memory and core groups that are granted count as in use.
"""

import numpy as np

from device_plugin.core.app_types import Scoring, Weights
from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Rows, Values
from device_plugin.core.placement.index import View
from device_plugin.core.placement.need import Need

# Scores that differ by less are alike; and among cards of one node that are alike but for their share, this decides.
DIGITS, CARD = 9, 1e-10
ROUNDING = 1e-9


class NodeScore:
    """Scores from 0 to 1 for one application type. On the best node the freest card is taken."""

    lasting, rough = True, None

    def __init__(self, weights: Weights, scoring: Scoring) -> None:
        self._weights = weights
        self._most_memory = scoring.most_memory
        self._most_load = scoring.most_load

    def slices(self, view: View, _need: Need, _ask: Ask) -> Values:
        """The score of the card's node; then the card's own free share."""
        return self.score(view)[:, None] + CARD * self.free(view)

    def whole(self, view: View, _taken: Rows, _ask: Ask) -> Values:
        """The score of the node."""
        return self.score(view)

    def free(self, view: View) -> Values:
        """How much of each card counts as free, from 0 to 1; shape (nodes, cards)."""
        unused = view.unused / 100
        memory = 1 - view.free_mib / view.mib - unused[0]
        load = 1 - view.free_cores / view.groups - unused[1]
        shared = np.clip(np.minimum(1 - memory, 1 - load), 0, 1)
        free = np.where(view.untouched, 1.0, shared)
        within = (memory <= self._most_memory + ROUNDING) & (load <= self._most_load + ROUNDING)
        return np.where(view.usable & within, free, 0.0)

    def score(self, view: View) -> Values:
        """Of each node; shape (nodes,)."""
        weights = self._weights
        cards = np.maximum(view.there.sum(axis=1), 1)
        gpu = self.free(view).sum(axis=1) / cards
        host = np.array([weights.cpu, weights.memory, weights.disk]) @ view.shares
        score: Values = np.round(weights.gpu * gpu + host, DIGITS)
        return score
