"""The policy `node-score`: choose the node with the most free resources, weighted by application type.

    score(node) = sum over GPU, CPU, memory and disk of  weight * free share

The free share of CPU, memory and disk is (allocatable amount - requests of the node's pods) / allocatable amount. The
free share of the node's GPUs is the mean of its cards' free shares:

    free(card) = 1 - max(granted memory share, granted share of core groups, used memory share, load)

A card's free share is 0 if one of the four is above its threshold, or if the card gets no new slices. Used memory and
load are the agent's measurements, for all users of the card together; without a recent measurement they count as 0.

A setting adds amounts in place of shares: free cards, CPUs, GiB of memory and GiB of disk.
docs/node-score.md has an example and says why shares are the default.
"""

import numpy as np

from device_plugin.core.app_types import Scoring, Weights
from device_plugin.core.placement.cache import Policy
from device_plugin.core.placement.card_columns import Floats
from device_plugin.core.placement.fit import CardFit
from device_plugin.core.placement.table import NodeView
from device_plugin.core.requests import Shape

# The digits of rounded scores, and the weight of a card's own free share, which decides between cards of one node.
DIGITS, CARD = 9, 1e-10
ROUNDING = 1e-9


class NodeScore(Policy):
    """Computes the scores of nodes by the policy `node-score`, for one application type.

    Scores are from 0 to 1 if they add free shares; by a setting they add free amounts.
    """

    def __init__(self, weights: Weights, scoring: Scoring) -> None:
        self._weights = weights
        self._most_memory = scoring.most_memory
        self._most_load = scoring.most_load
        self._counts = scoring.counts

    def slices(self, view: NodeView, _need: CardFit, _shape: Shape) -> Floats:
        """The score of the card's node, plus a small part of the card's own free share."""
        return self.score(view)[:, None] + CARD * self.free(view)

    def several(self, view: NodeView) -> Floats:
        """The score of each node for a pod of several containers; shape (nodes,)."""
        return self.score(view)

    def free(self, view: NodeView) -> Floats:
        """The free share of each card, from 0 to 1; shape (nodes, cards)."""
        used, load = view.used / 100
        memory = np.maximum(1 - view.free_mib / view.mib, used)
        cores = np.maximum(1 - view.free_cores / view.groups, load)
        within = (memory <= self._most_memory + ROUNDING) & (cores <= self._most_load + ROUNDING)
        return np.where(view.usable & within, 1 - np.maximum(memory, cores), 0.0)

    def score(self, view: NodeView) -> Floats:
        """The score of each node; shape (nodes,)."""
        weights = self._weights
        gpu, host = self.free(view).sum(axis=1), view.amounts if self._counts else view.shares
        if not self._counts:
            gpu = gpu / np.maximum(view.there.sum(axis=1), 1)
        beside = np.array([weights.cpu, weights.memory, weights.disk]) @ host
        return np.round(weights.gpu * gpu + beside, DIGITS)
