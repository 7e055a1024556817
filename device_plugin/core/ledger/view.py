"""The ledger for its readers: the log of changes, the reading methods, and the snapshot."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from types import MappingProxyType

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import CardSize, Grant, Slice, largest
from device_plugin.core.ledger.holdings import Holder, Holding, Reservation
from device_plugin.core.ledger.states import Held, NodeState


class CardPart(Enum):
    """The part of a card in which two grants can conflict."""

    CORES = "a core group"
    MEMORY = "more memory than the card has"
    SLICES = "more slices than the card can keep apart"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two holders whose grants cannot both be held on one card.

    `over` says which part of the card is too small for both: its core groups, its memory, or its number of slices.
    """

    node: str
    card: str
    holder: Holder
    other: Holder
    over: CardPart


class Followed:
    """A log of changed nodes: a reader asks for the nodes that changed after the version that the reader last saw.

    The log keeps only the newest change of each node, so the log is never longer than the list of nodes.
    """

    def __init__(self) -> None:
        # Newest change last, so that a reader catches up from the end.
        self._changed: dict[str, int] = {}
        self.version = 0
        """Grows with every change that is logged."""

    def changed_since(self, version: int) -> Iterator[str]:
        """The names of the nodes that changed after `version`, newest change first."""
        for name in reversed(self._changed):
            if self._changed[name] <= version:
                return
            yield name

    def _touch(self, name: str) -> None:
        """Log a change of a node: the node gets the newest version."""
        self.version += 1
        self._changed.pop(name, None)
        self._changed[name] = self.version


class LedgerView:
    """Reads the states of nodes, and what each holder has (holdings), of a ledger or a snapshot.

    `_unbound` are the holdings that are reservations or expire.
    """

    _nodes: Mapping[str, NodeState]
    _holdings: Mapping[Holder, Holding]
    _unbound: Mapping[Holder, Holding]

    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes with an inventory, sorted."""
        return tuple(sorted(name for name, node in self._nodes.items() if node.inventory is not None))

    def node(self, name: str) -> NodeState | None:
        """The state of a node; None if it has no inventory."""
        node = self._nodes.get(name)
        return node if node is not None and node.inventory is not None else None

    def inventories(self) -> dict[str, Inventory]:
        """The inventory of each node that has one, by the node's name."""
        return {name: node.inventory for name, node in self._nodes.items() if node.inventory is not None}

    def holders(self, node: str, card: str) -> Held:
        """The held slices of a card, by holder."""
        return self._nodes.get(node, _UNKNOWN).held.get(card, {})

    def holding(self, holder: Holder) -> Holding | None:
        """The holding of `holder`; None without one."""
        return self._holdings.get(holder)

    def holdings(self) -> Mapping[Holder, Holding]:
        """All holdings by holder."""
        return MappingProxyType(self._holdings)

    def reservation(self, holder: Holder) -> Reservation | None:
        """The reservation of the pod with this UID; None if it has none."""
        found = self._unbound.get(holder)
        return found if isinstance(found, Reservation) else None

    def reservations(self) -> list[Reservation]:
        """The reservations of all unbound pods."""
        return [found for found in list(self._unbound.values()) if isinstance(found, Reservation)]

    def grant(self, holder: Holder) -> Grant | None:
        """The grant of `holder`; None without one."""
        found = self._holdings.get(holder)
        return found.grant if found is not None else None

    def grants(self) -> dict[Holder, Grant]:
        """The grants of all holders, by holder."""
        return {holder: found.grant for holder, found in self._holdings.items() if found.grant is not None}

    def conflicts(self, grant: Grant, holder: Holder = "") -> tuple[Conflict, ...]:
        """The conflicts of `grant` with grants of other holders: a card never had room for both grants.

        `holder` is the grant's own holder; by default the pod that the grant names.

        Two grants of one core group always conflict. Grants that together exceed a card's memory or number of slices
        conflict only if they exceed the largest size that is known of the card: its present size, or a size that one of
        the grants recorded. The newest grant was decided with all others in the ledger, so it recorded a size that fits
        all of them. If a grant has no recorded size, it may be the newest; then only core groups are compared.
        """
        return tuple(
            conflict
            for uuid in {s.card for s in grant.slices()}
            for conflict in self._conflicts_on(grant, holder, uuid, self._largest(grant, uuid))
        )

    def in_the_way(self, grant: Grant, holder: Holder = "") -> tuple[Conflict, ...]:
        """The conflicts of `grant` with grants of other holders, measured by the present size of each card.

        `holder` is the grant's own holder; by default the pod that the grant names.
        """
        return tuple(
            conflict
            for uuid in {s.card for s in grant.slices()}
            for conflict in self._conflicts_on(grant, holder, uuid, self._size(grant, uuid))
        )

    def fits_still(self, grant: Grant) -> bool:
        """False if a card of `grant` gives no new slices now: unhealthy, cordoned, or smaller than its held slices.

        Also false if the grant is for ResourceClaims, and the node prepares none now. Cards that the node does not
        report now are left out.
        """
        node = self._nodes.get(grant.node, _UNKNOWN)
        if grant.claims and node.inventory is not None and not node.claims:
            return False
        cards = (node.card(s.card) for s in grant.slices())
        return all(card.open for card in cards if card is not None)

    def _size(self, grant: Grant, uuid: str) -> CardSize | None:
        card = self._nodes.get(grant.node, _UNKNOWN).card(uuid)
        return card.card.size if card is not None else None

    def _largest(self, grant: Grant, uuid: str) -> CardSize | None:
        """The largest size of a card: its present size, or a size that one of its grants (or `grant`) recorded.

        None if one of the grants recorded no size.
        """
        others = (self.grant(holder) for holder in self.holders(grant.node, uuid))
        sizes = [each.cards.get(uuid) for each in (grant, *others) if each is not None]
        return None if None in sizes else largest((*sizes, self._size(grant, uuid)))

    def _conflicts_on(
        self, grant: Grant, holder: Holder, uuid: str, size: CardSize | None
    ) -> Iterator[Conflict]:
        """The conflicts of `grant` on one card; in memory and number of slices only if the card's `size` is known."""
        held, holder = self.holders(grant.node, uuid), holder or grant.pod
        others = [(other, held[other]) for other in sorted(held, key=str) if other != holder]
        if not others:
            return
        own = [s for s in grant.slices() if s.card == uuid]
        mine = {core for s in own for core in s.cores}
        together: list[Slice] = own + [s for _, slices in others for s in slices]
        full = size is not None and sum(s.mem_mib for s in together) > size.mem_mib
        many = size is not None and len(together) > size.max_slices
        for other, slices in others:
            if not all(mine.isdisjoint(s.cores) for s in slices):
                yield Conflict(grant.node, uuid, holder, other, CardPart.CORES)
            elif full:
                yield Conflict(grant.node, uuid, holder, other, CardPart.MEMORY)
            elif many:
                yield Conflict(grant.node, uuid, holder, other, CardPart.SLICES)


class Snapshot(LedgerView):
    """An immutable view of the ledger at one version, which is read without the ledger's lock.

    It holds the states of nodes of that moment; the ledger replaces these states and never changes them.
    """

    def __init__(self, nodes: Mapping[str, NodeState], unbound: Mapping[Holder, Holding]) -> None:
        self._nodes = dict(nodes)
        self._unbound = dict(unbound)

    # Built when first read, because copying 40,000 entries takes too long with the lock held.
    @cached_property
    def _holdings(self) -> Mapping[Holder, Holding]:  # type: ignore[override]
        return {holder: held for node in self._nodes.values() for holder, held in node.holdings.items()}

    def records(self) -> Mapping[str, NodeState]:
        """The states of all nodes (cards, holdings, host), by name; also of nodes without an inventory."""
        return self._nodes

    def of(self, nodes: Collection[str]) -> "Snapshot":
        """A snapshot with only the states of `nodes` and the holdings there."""
        records = {name: node for name in nodes if (node := self._nodes.get(name)) is not None}
        return Snapshot(
            records, {holder: held for holder, held in self._unbound.items() if held.node in records}
        )


_UNKNOWN = NodeState("")
