"""States of cards and nodes: their held and free amounts. The ledger replaces a state and never changes it."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from device_plugin.core.contract.cards import Card, Inventory
from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.masks import core_mask
from device_plugin.core.hosts import NOTHING, HostAmounts
from device_plugin.core.ledger.holdings import Holder, Holding

Held = Mapping[Holder, tuple[Slice, ...]]
"""Slices of one card by holder."""


# Structs, and no dataclasses: each placement makes some, and a dataclass takes ten times as long.
class CardState(Struct, frozen=True, gc=False):
    """The free part of one card. `free_cores` is a set of core-group ids, as an integer with bit g set for group g.

    A card is `short` if it shrank below the slices that are held of it: the holders keep their slices, and the card
    gives no new ones until enough holders have ended. A card is `crowded` if its slices together are more than the card
    has, because it shrank or because two grants conflict. `percent` is the sum of the slices that were asked for in
    percent; they hold `percent_cores` core groups together.
    """

    card: Card
    free_mib: int
    free_cores: int
    free_slices: int
    short: bool = False
    crowded: bool = False
    percent: int = 0
    percent_cores: int = 0

    @classmethod
    def of(cls, card: Card, slices: Iterable[Slice], *, shrank: bool = False) -> "CardState":
        """The state of a card with `slices` held.

        `shrank`: since one of these slices was granted, the card's memory, or the number of slices that it can give,
        has become smaller. The card is `short` if a core group of the slices no longer exists, or if the card shrank
        and the slices exceed its memory or its number of slices now.
        """
        taken = mib = count = cores = percent = percent_cores = 0
        for s in slices:
            taken |= core_mask(s.cores)
            cores += len(s.cores)
            mib += s.mem_mib
            count += 1
            if s.percent:
                percent += s.percent
                percent_cores += len(s.cores)
        free_cores = ((1 << card.core_groups) - 1) & ~taken
        beyond = mib > card.mem_mib or count > card.max_slices
        return cls(
            card,
            free_mib=max(0, card.mem_mib - mib),
            free_cores=free_cores,
            free_slices=max(0, card.max_slices - count),
            short=taken >> card.core_groups != 0 or (beyond and shrank),
            crowded=beyond or cores != card.core_groups - free_cores.bit_count(),
            percent=percent,
            percent_cores=percent_cores,
        )

    @property
    def open(self) -> bool:
        """True if the card may get new slices: it is healthy, not cordoned, and not `short`."""
        return self.card.open and not self.short

    @property
    def untouched(self) -> bool:
        """True if no slice of the card is held."""
        return self.free_slices == self.card.max_slices


class NodeState(Struct, frozen=True, gc=False):
    """A node's `cards` in order of their uuids, and the holdings (what pods and others have) on its cards and host.

    - `inventory` is None if the agent publishes none; holdings there stay.
    - `holdings` are by holder. `held` has the slices of all holdings by the uuid of the card, even of cards that are
      gone.
    - `whole` is the amounts of the host, and `taken` the amounts that its holders have.
    """

    name: str
    inventory: Inventory | None = None
    cards: tuple[CardState, ...] = ()
    holdings: Mapping[Holder, Holding] = {}
    held: Mapping[str, Held] = {}
    whole: HostAmounts = NOTHING
    taken: HostAmounts = NOTHING

    @property
    def serving(self) -> bool:
        """True if the node's agent says in its inventory that it serves Allocate."""
        return self.inventory is not None and self.inventory.serving

    @property
    def claims(self) -> bool:
        """True if the node's agent says in its inventory that it prepares the ResourceClaims of pods."""
        return self.inventory is not None and self.inventory.claims

    @property
    def left(self) -> HostAmounts:
        """The free amounts of the host; negative if its holders have more than the host has."""
        return self.whole - self.taken

    @property
    def empty(self) -> bool:
        """True if nothing is known of the node and nothing is held there."""
        return self.inventory is None and not self.holdings

    def card(self, uuid: str) -> CardState | None:
        """The state of the card with this uuid; None if the node does not have the card now."""
        for state in self.cards:
            if state.card.uuid == uuid:
                return state
        return None
