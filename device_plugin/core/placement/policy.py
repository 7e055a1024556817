"""Placement policies: which of the cards that fit is taken. Feasibility is never theirs to decide."""

from collections.abc import Callable
from typing import Protocol

from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Numbers, Rows, Values
from device_plugin.core.placement.index import View
from device_plugin.core.placement.need import Amounts, Need

Bound = Callable[[Numbers], Values]
"""For nodes at these positions values that are never lower than their scores; both of shape (positions,)."""


class Rough(Protocol):
    """Says quickly how good a node can be at best: who is far behind by that need not be scored."""

    def of(self, ask: Ask, amounts: Amounts, accepted: Rows, /) -> Bound:
        """For an ask, what it takes of a card of each kind, and which kinds it accepts, shape (kinds,)."""


class Policy(Protocol):
    """Scores nodes; the highest wins, of equal ones the first in the fixed order of the nodes.

    A score may depend on nothing but the node itself and the ask: that is why scores can be kept until the node
    changes. A policy that learns something new is another object.
    """

    @property
    def lasting(self) -> bool:
        """False if no score outlives its decision."""

    @property
    def rough(self) -> Rough | None:
        """None where scores are found quickly enough."""

    def slices(self, view: View, need: Need, ask: Ask, /) -> Values:
        """The score of each card for a slice; shape (nodes, cards). Looked at only where the ask fits."""

    def whole(self, view: View, taken: Rows, ask: Ask, /) -> Values:
        """The score of each node for the whole cards `taken` of shape (nodes, cards); shape (nodes,)."""
