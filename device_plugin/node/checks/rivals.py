"""Rivals: other programs that give out the cards of a vendor on this node, noticed by the traces that they leave.

Two programs that give out one card overfill it, and Hygon's own plugin destroys virtual devices that it does not know.
So while there is a trace of one, the card family gets no new slices here; running slices go on.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from device_plugin.node.checks.lasting import Lasting
from device_plugin.node.vendors.local_card import LocalCard
from device_plugin.node.vendors.port import NodeSigns

# Seconds without a trace after which the rival counts as gone: its socket is away while it restarts.
GONE_SECONDS = 30.0
# Most traces that a text names.
NAMED = 3


class Rivals:
    """Looks for rivals, other programs that give out the node's cards, at each `step`; any thread may read the result.

    `signs` reads the traces that such programs leave.
    """

    def __init__(
        self,
        cards: Callable[[], Mapping[str, LocalCard]],
        signs: Callable[[], NodeSigns],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cards = cards
        self._signs = signs
        self._found = Lasting[str](clock, 0.0, GONE_SECONDS)
        # By card family: the traces of the last look that found any.
        self._traces: Mapping[str, Sequence[str]] = {}

    def withdrawn(self, family: str) -> bool:
        """True if the card family gets no new slices on this node."""
        return family in self._traces

    def problems(self) -> list[str]:
        """A line for each card family that another program gives out."""
        return [
            f"another program gives out the cards of {family} on this node, by {', '.join(traces[:NAMED])}: {family}"
            " gets no new slices here while it does, and running slices go on. Remove that program from this node, or"
            " take the label vgpu.io/node from the node"
            for family, traces in sorted(self._traces.items())
        ]

    def step(self) -> None:
        """Look for traces of other programs, for all vendors with cards on the node.

        A family with a trace is withdrawn, and gets new slices again after GONE_SECONDS without one.
        """
        vendors = {local.card.family: local.vendor for local in self._cards().values()}
        traces = {
            family: found for family, vendor in vendors.items() if (found := vendor.rivals(self._signs))
        }
        counting = self._found.note_all(traces.keys())
        self._traces = {family: traces.get(family) or self._traces[family] for family in counting}
