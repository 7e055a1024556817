"""The policy `node-score`: the node with the most free of what the application needs.

    score(node) = sum over GPU, CPU, memory and disk of  weight * free share

The free share of CPU, memory and disk is what the node can give less what its pods request. That of its GPUs is the
mean of its cards' free shares:

    free(card) = 1 - max(granted memory share, granted share of core groups, used memory share, load)

and 0 for a card of which any of the four is beyond its threshold, or that gets no new slices. Used memory and load are
what the node's agent measured, whoever uses the card; on a node that was not measured lately they count as 0.

By a setting amounts are added in place of shares: cards, CPUs, GiB of memory and GiB of disk that are free.
docs/node-score.md has an example and says why shares are the default.
"""

import numpy as np

from device_plugin.core.app_types import Scoring, Weights
from device_plugin.core.placement.cache import Policy
from device_plugin.core.placement.fit import CardFit
from device_plugin.core.placement.table import Floats, Mask, NodeView
from device_plugin.core.requests import Shape

# Scores that differ by less are alike; and among cards of one node that are alike but for their share, this decides.
DIGITS, CARD = 9, 1e-10
ROUNDING = 1e-9


class NodeScore(Policy):
    """Scores for one application type, 0 to 1 where shares are added. On the best node the freest card is taken."""

    def __init__(self, weights: Weights, scoring: Scoring) -> None:
        self._weights = weights
        self._most_memory = scoring.most_memory
        self._most_load = scoring.most_load
        self._counts = scoring.counts

    def slices(self, view: NodeView, _need: CardFit, _shape: Shape) -> Floats:
        """The score of the card's node; then the card's own free share."""
        return self.score(view)[:, None] + CARD * self.free(view)

    def whole(self, view: NodeView, _taken: Mask, _shape: Shape) -> Floats:
        """The score of the node."""
        return self.score(view)

    def several(self, view: NodeView) -> Floats:
        """The score of the node."""
        return self.score(view)

    def free(self, view: NodeView) -> Floats:
        """The free share of each card, from 0 to 1; shape (nodes, cards)."""
        used, load = view.used / 100
        memory = np.maximum(1 - view.free_mib / view.mib, used)
        cores = np.maximum(1 - view.free_cores / view.groups, load)
        within = (memory <= self._most_memory + ROUNDING) & (cores <= self._most_load + ROUNDING)
        return np.where(view.usable & within, 1 - np.maximum(memory, cores), 0.0)

    def score(self, view: NodeView) -> Floats:
        """Of each node; shape (nodes,)."""
        weights = self._weights
        gpu, host = self.free(view).sum(axis=1), view.amounts if self._counts else view.shares
        if not self._counts:
            gpu = gpu / np.maximum(view.there.sum(axis=1), 1)
        beside = np.array([weights.cpu, weights.memory, weights.disk]) @ host
        score: Floats = np.round(weights.gpu * gpu + beside, DIGITS)
        return score
