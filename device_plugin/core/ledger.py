"""The ledger: who holds which slice of every card.

It is a function of the set of grants and inventories, never of the order in which they came: a ledger rebuilt from
grants equals the live one. Callers hold one lock around it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from device_plugin.core.cards import Card, Inventory
from device_plugin.core.changes import Followed
from device_plugin.core.grants import CardSize, Grant, Slice, largest
from device_plugin.core.masks import core_mask

CardKey = tuple[str, str]
"""Node name and card uuid."""


class Clash(Enum):
    """What two live grants cannot both have."""

    CORES = "a core group"
    MEMORY = "more memory than the card has"
    SLICES = "more slices than the card can keep apart"


@dataclass(frozen=True, slots=True)
class Conflict:
    """The grants of two pods that cannot both hold on one card."""

    node: str
    card: str
    pod: str
    other: str
    clash: Clash


@dataclass(frozen=True, slots=True)
class CardState:
    """What remains of one card. `free_cores` is a set of core-group ids, bit g for group g.

    A card is `short` if it has less now than its holders were granted when it had more: they keep what they hold, and
    nobody else gets any of it until enough of them have ended.
    """

    card: Card
    free_mib: int
    free_cores: int
    free_slices: int
    short: bool = False

    @classmethod
    def of(cls, card: Card, slices: Iterable[Slice]) -> "CardState":
        """What remains of a card of which these slices are held; short if a core group of theirs is no more."""
        taken = mib = count = 0
        for s in slices:
            taken |= core_mask(s.cores)
            mib += s.mem_mib
            count += 1
        return cls(
            card,
            free_mib=max(0, card.mem_mib - mib),
            free_cores=((1 << card.core_groups) - 1) & ~taken,
            free_slices=max(0, card.max_slices - count),
            short=taken >> card.core_groups != 0,
        )

    @property
    def open(self) -> bool:
        """True if it may get new slices."""
        return self.card.open and not self.short

    @property
    def untouched(self) -> bool:
        """True if nobody holds any of it."""
        return self.free_slices == self.card.max_slices


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node's cards in their fixed order, and whether its agent serves."""

    name: str
    serving: bool
    cards: tuple[CardState, ...]


class Ledger(Followed):
    """Grants against inventories. Grants on cards or nodes that are away stay held, and count when they return."""

    def __init__(self) -> None:
        super().__init__()
        self._inventories: dict[str, Inventory] = {}
        # Each node's cards in their fixed order.
        self._cards: dict[str, tuple[Card, ...]] = {}
        self._grants: dict[str, Grant] = {}
        self._held: dict[CardKey, dict[str, tuple[Slice, ...]]] = {}
        # What is left of cards, until somebody takes or gives back.
        self._states: dict[CardKey, CardState] = {}
        # Of those the cards of which more is held than they have.
        self._crowded: set[CardKey] = set()
        self._undo: list[Grant | str] = []
        # What `gained` was at each.
        self._checkpoints: list[int] = []
        self.gained = 0
        """Grows whenever a node may have become better for somebody: a slice ended, or its inventory is another."""

    def __eq__(self, other: object) -> bool:
        """Equal if the same grants are held against the same inventories, with the same remainders."""
        if not isinstance(other, Ledger):
            return NotImplemented
        mine, theirs = (
            (x._inventories, x._grants, x._held, {n: x.node(n) for n in x._inventories})
            for x in (self, other)
        )
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]  # a ledger changes

    def set_node(self, name: str, inventory: Inventory) -> None:
        """Take a node's inventory; does nothing if it is the same as before."""
        if self._inventories.get(name) != inventory:
            self.drop_node(name)
            self._inventories[name] = inventory
            self.gained += 1
            self._cards[name] = tuple(sorted(inventory.cards, key=lambda card: card.uuid))
            self._changes.touch(name)

    def drop_node(self, name: str) -> None:
        """Forget a node's inventory; grants on it stay held."""
        dropped = self._inventories.pop(name, None)
        if dropped is not None:
            for card in self._cards.pop(name):
                self._states.pop((name, card.uuid), None)
            self._changes.touch(name)

    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes with an inventory, in order."""
        return tuple(sorted(self._inventories))

    def node(self, name: str) -> NodeState | None:
        """What remains on a node, or None if it has no inventory."""
        inventory = self._inventories.get(name)
        if inventory is None:
            return None
        return NodeState(
            name, inventory.serving, tuple([self._state(name, card) for card in self._cards[name]])
        )

    def holders(self, node: str, card: str) -> Mapping[str, tuple[Slice, ...]]:
        """Who holds what of a card: pod UID to slices."""
        return MappingProxyType(self._held.get((node, card), {}))

    def grant(self, pod: str) -> Grant | None:
        """What the pod of this UID holds."""
        return self._grants.get(pod)

    def grants(self) -> Mapping[str, Grant]:
        """Every held grant by pod UID."""
        return MappingProxyType(self._grants)

    def hold(self, grant: Grant) -> tuple[Conflict, ...]:
        """Record a grant in place of what its pod held before; returns its conflicts.

        It is recorded even so: the ledger tells what is, and the caller decides who loses.
        """
        before = self._grants.get(grant.pod)
        if before != grant:
            self._note(before, grant.pod)
            if before is not None:
                self._take_off(before)
            self._put_on(grant)
        return self.conflicts(grant) if self._may_clash(grant) else ()

    def release(self, pod: str) -> Grant | None:
        """End the pod's grant; returns it, or None if it held nothing."""
        grant = self._grants.get(pod)
        if grant is not None:
            self._note(grant, pod)
            self._take_off(grant)
        return grant

    def conflicts(self, grant: Grant) -> tuple[Conflict, ...]:
        """The grants of other pods that conflict with `grant`: at no time did the card have room for both.

        Two grants of one core group never can. More memory or slices than a card has are a conflict only if the card
        never had as much: whichever of its grants was decided last was decided with all others in the ledger, so
        together they fit the largest size that any of them recorded. A grant that records none may have been that last
        one, and then only core groups are compared.
        """
        return tuple(
            conflict
            for uuid in {s.card for s in grant.slices()}
            for conflict in self._clashes(grant, uuid, self._largest(grant, uuid))
        )

    def in_the_way(self, grant: Grant) -> tuple[Conflict, ...]:
        """The grants of other pods beside which `grant` does not fit its cards as they are now."""
        found: list[Conflict] = []
        for uuid in {s.card for s in grant.slices()}:
            card = self._card(grant.node, uuid)
            found += self._clashes(grant, uuid, card.size if card is not None else None)
        return tuple(found)

    def fits_still(self, grant: Grant) -> bool:
        """False if a card of `grant` takes no new slices now, or has less than all grants on it take together."""
        cards = (self._card(grant.node, s.card) for s in grant.slices())
        return all(
            card.open and not self._state(grant.node, card).short for card in cards if card is not None
        )

    def checkpoint(self) -> int:
        """Start a trial: later `hold` and `release` can be taken back to here. End it by rollback or commit."""
        self._checkpoints.append(self.gained)
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        """End the trial and take back every hold and release since its checkpoint."""
        gained = self._checkpoints[-1]
        while len(self._undo) > mark:
            entry = self._undo.pop()
            now = self._grants.get(entry if isinstance(entry, str) else entry.pod)
            if now is not None:
                self._take_off(now)
            if isinstance(entry, Grant):
                self._put_on(entry)
        self.gained = gained
        self.commit()

    def commit(self) -> None:
        """End the innermost trial and keep what it did."""
        if not self._checkpoints:
            raise ValueError("no checkpoint is open")
        self._checkpoints.pop()
        if not self._checkpoints:
            self._undo.clear()

    def _note(self, before: Grant | None, pod: str) -> None:
        if self._checkpoints:
            self._undo.append(before or pod)

    def _put_on(self, grant: Grant) -> None:
        self._grants[grant.pod] = grant
        for s in grant.slices():
            held = self._held.setdefault((grant.node, s.card), {})
            held[grant.pod] = (*held.get(grant.pod, ()), s)
            self._states.pop((grant.node, s.card), None)
        self._changes.touch(grant.node)

    def _take_off(self, grant: Grant) -> None:
        del self._grants[grant.pod]
        self.gained += 1
        for uuid in {s.card for s in grant.slices()}:
            held = self._held[(grant.node, uuid)]
            del held[grant.pod]
            self._states.pop((grant.node, uuid), None)
            if not held:
                del self._held[(grant.node, uuid)]
        self._changes.touch(grant.node)

    def _state(self, node: str, card: Card) -> CardState:
        known = self._states.get((node, card.uuid))
        if known is None:
            known = self._states[node, card.uuid] = self._counted(node, card)
        return known

    def _counted(self, node: str, card: Card) -> CardState:
        held = self._held.get((node, card.uuid), {})
        slices = [s for pod in held.values() for s in pod]
        state = CardState.of(card, slices)
        beyond = sum(s.mem_mib for s in slices) > card.mem_mib or len(slices) > card.max_slices
        shared = sum(len(s.cores) for s in slices) != card.core_groups - state.free_cores.bit_count()
        (self._crowded.add if beyond or shared else self._crowded.discard)((node, card.uuid))
        return replace(state, short=True) if beyond and self._shrank(card, held) else state

    def _shrank(self, card: Card, pods: Iterable[str]) -> bool:
        """True if the card has less than when one of these pods was granted some of it."""
        sizes = (self._grants[pod].cards.get(card.uuid) for pod in pods)
        return any(
            size.mem_mib > card.mem_mib or size.max_slices > card.max_slices
            for size in sizes if size is not None
        )  # fmt: skip

    def _largest(self, grant: Grant, uuid: str) -> CardSize | None:
        """The most that a card had when any of its grants, `grant` included, was decided, or has now.

        None if one of them does not say.
        """
        others = (self._grants[pod] for pod in self._held.get((grant.node, uuid), {}))
        sizes = [each.cards.get(uuid) for each in (grant, *others)]
        if None in sizes:
            return None
        card = self._card(grant.node, uuid)
        return largest((*sizes, card.size if card is not None else None))

    def _may_clash(self, held: Grant) -> bool:
        """False if all that is held of its cards can be had together, which is nearly always and takes less to see."""
        for s in held.slices():
            card = self._card(held.node, s.card)
            if card is None:
                return True
            self._state(held.node, card)
            if (held.node, s.card) in self._crowded:
                return True
        return False

    def _clashes(self, grant: Grant, uuid: str, size: CardSize | None) -> Iterator[Conflict]:
        """Conflicts on one card; of its memory and slices only if its `size` is known."""
        held = self._held.get((grant.node, uuid), {})
        others = sorted((pod, slices) for pod, slices in held.items() if pod != grant.pod)
        if not others:
            return
        own = [s for s in grant.slices() if s.card == uuid]
        mine = {core for s in own for core in s.cores}
        together = own + [s for _, slices in others for s in slices]
        full = size is not None and sum(s.mem_mib for s in together) > size.mem_mib
        many = size is not None and len(together) > size.max_slices
        for pod, slices in others:
            if not all(mine.isdisjoint(s.cores) for s in slices):
                yield Conflict(grant.node, uuid, grant.pod, pod, Clash.CORES)
            elif full:
                yield Conflict(grant.node, uuid, grant.pod, pod, Clash.MEMORY)
            elif many:
                yield Conflict(grant.node, uuid, grant.pod, pod, Clash.SLICES)

    def _card(self, node: str, uuid: str) -> Card | None:
        return next((card for card in self._cards.get(node, ()) if card.uuid == uuid), None)
