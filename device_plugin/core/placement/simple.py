"""Policies that look at remainders alone."""

import numpy as np

from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Rows, Values
from device_plugin.core.placement.index import View
from device_plugin.core.placement.need import Need

# The sizes by which BestFit compares cards with CPU; only their ratio matters.
LARGEST_CARDS, LARGEST_CPU = 8, 128_000
# A node of 64 cards has a slack of 1.28e8 millionths: one such step of the first key outweighs any second key, and
# both together are exact in a float.
STEP = 1 << 28


class Pack:
    """Best fit on the card, then the fullest node."""

    lasting, rough = True, None

    def slices(self, view: View, need: Need, _ask: Ask) -> Values:
        """The less would remain of the card, the better."""
        return -(need.leftover() * float(STEP) + _slack(view)[:, None])

    def whole(self, view: View, _taken: Rows, _ask: Ask) -> Values:
        """The fullest node."""
        return -_slack(view)


class Spread:
    """The emptiest node, then the emptiest card."""

    lasting, rough = True, None

    def slices(self, view: View, need: Need, _ask: Ask) -> Values:
        """The more is free on the node, the better."""
        return _slack(view)[:, None] * 2.0**22 + need.leftover()

    def whole(self, view: View, _taken: Rows, _ask: Ask) -> Values:
        """The emptiest node."""
        return _slack(view)


class BestFit:
    """The node with the least left, CPU and cards counting alike; there the card with the least left.

    As the baseline of FGD's paper (ATC'23) does it: each dimension against the largest node.
    """

    lasting, rough = True, None

    def slices(self, view: View, need: Need, _ask: Ask) -> Values:
        """The less would remain of the node, the better; then of the card."""
        return _fullness(view)[:, None] - need.leftover() * 1e-12

    def whole(self, view: View, _taken: Rows, _ask: Ask) -> Values:
        """The less would remain of the node, the better."""
        return _fullness(view)


class Random:
    """Any node, any card, drawn anew for each decision: what every other policy is to be better than."""

    lasting, rough = False, None

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def slices(self, view: View, _need: Need, _ask: Ask) -> Values:
        """Any."""
        return self._rng.random((len(view.rows), 1)) + 1e-9 * self._rng.random(view.rows.shape)

    def whole(self, view: View, _taken: Rows, _ask: Ask) -> Values:
        """Any."""
        return self._rng.random(len(view.rows))


def _fullness(view: View) -> Values:
    # What the pod takes is the same everywhere, so what is left now orders the nodes as what remains does.
    cards = np.where(view.there, view.idle(), 0).sum(axis=1)
    fullness: Values = -(cards / LARGEST_CARDS + view.cpu / LARGEST_CPU)
    return fullness


def _slack(view: View) -> Values:
    slack: Values = np.where(view.there, view.slack(), 0).sum(axis=1).astype(np.float64)
    return slack
