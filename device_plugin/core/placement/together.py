"""What a node is worth as a whole: to pods that want several free cards at once, with the host to match.

Cards that are looked at one by one add up wherever they are. But of a node that could still take a pod of eight cards
the first card that is given away costs all of that, and so does the CPU that such a pod would need.
"""

import numpy as np

from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Numbers, Rows, Values
from device_plugin.core.placement.demand import Demand
from device_plugin.core.placement.index import View

# Of the cards that such a pod takes, how much it is worth to keep them together: KEEPING, times the share of all wanted
# cards that pods like it want, times the share that pods of as many cards want, beyond a FEW. Where fewer want several
# cards, to keep some together costs more than it brings. The share is taken one standard error low: the first of a
# hundred pods may well want eight cards.
KEEPING, FEW = 0.3, 0.1
# The rarest change nothing.
MOST = 32


class Together:
    """In thousandths of a card. It `matters` where enough pods want several cards."""

    def __init__(self, demand: Demand, free_card: float) -> None:
        wanted = demand.wanted()
        share = wanted / max(float(wanted.sum()), 1e-9)
        alike, pods = (np.bincount(demand.whole, each)[demand.whole] for each in (share, demand.count))
        sure = alike * np.maximum(0, 1 - 1 / np.sqrt(np.maximum(pods, 1)))
        value = free_card * KEEPING * demand.whole * share * np.maximum(0, sure - FEW)
        several = np.flatnonzero((demand.whole > 1) & (value > 0))
        chosen = several[np.argsort(-value[several], kind="stable")[:MOST]]
        self._cards, self._cpu, self._memory = demand.whole[chosen], demand.cpu[chosen], demand.memory[chosen]
        self._value: Values = value[chosen] * demand.allowed[:, chosen]
        self.matters = len(chosen) > 0

    def lost_by_slice(self, view: View, ask: Ask) -> Values:
        """Less than zero by what is lost when a card gives a slice; shape (nodes, cards)."""
        if not self.matters:
            return np.zeros(view.rows.shape)
        free = _free(view)
        number, taken = free.sum(axis=1), np.array([[0], [1], [0]])
        now, opened, touched = self._worth(view, number - taken, ask, np.array([[0], [1], [1]]))
        lost: Values = np.where(free, opened[:, None], touched[:, None]) - now[:, None]
        return lost

    def lost_by_whole(self, view: View, ask: Ask) -> Values:
        """Less than zero by what is lost when a node gives so many free cards as are asked for; shape (nodes,)."""
        if not self.matters:
            return np.zeros(len(view.rows))
        number, times = _free(view).sum(axis=1), np.array([[0], [1]])
        now, then = self._worth(view, number - times * ask.request.whole, ask, times)
        lost: Values = then - now
        return lost

    def _worth(self, view: View, number: Numbers, ask: Ask, times: Numbers) -> Values:
        """With so many free cards, and the host less `times` what the ask wants of it; shape of `number`."""
        cpu, memory = view.cpu - times * ask.host.cpu_milli, view.memory - times * ask.host.memory_mib
        fits: Rows = number[..., None] >= self._cards
        fits &= cpu[..., None] >= self._cpu
        fits &= memory[..., None] >= self._memory
        # The cards of a node are nearly always of one kind.
        worth: Values = np.where(fits, self._value[view.kind[:, 0]], 0).sum(axis=-1)
        return worth


def _free(view: View) -> Rows:
    free: Rows = view.untouched & view.usable
    return free
