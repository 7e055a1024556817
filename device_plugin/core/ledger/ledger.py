"""The ledger: records which holder has which slices of every card, and which amounts of each host.

Its state depends on the set of holdings and inventories, never on the order in which they came: a ledger rebuilt from
grants equals the live ledger. Callers that change it hold one lock around it; readers take a snapshot.
"""

from collections.abc import Collection, Iterable, Mapping
from types import TracebackType

from msgspec.structs import replace

from device_plugin.core.contract.cards import Card, Inventory
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.hosts import NOTHING, HostAmounts
from device_plugin.core.ledger.holdings import Holder, Holding, Reservation
from device_plugin.core.ledger.states import CardState, Held, NodeState
from device_plugin.core.ledger.view import Conflict, Followed, LedgerView, Snapshot


class Transaction:
    """A context manager that rolls back all changes to the ledger made inside it, unless `commit` is called.

    Transactions nest: changes that an inner transaction commits are rolled back with the outer one. `nodes` holds the
    states of the changed nodes before the changes; `gained` and `freed` are the ledger's counters before them.
    """

    def __init__(self, ledger: "Ledger") -> None:
        self._ledger = ledger
        self.nodes: dict[str, NodeState | None] = {}
        self.gained, self.freed = ledger.gained, ledger.freed
        self._committed = False

    def commit(self) -> None:
        """Keep all changes when the transaction ends."""
        self._committed = True

    def __enter__(self) -> "Transaction":
        self._ledger.begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Keep the changes if they were committed, else roll them back; after an error all are rolled back."""
        self._ledger.end(self, keep=self._committed and error is None)


class Ledger(Followed, LedgerView):
    """Holds, by node, the inventory and the holdings (slices and host amounts that pods and others have there).

    A holding stays when its card or node disappears.

    The state of a node is replaced with every change, never modified, so that snapshots and rollbacks are cheap.
    """

    def __init__(self) -> None:
        super().__init__()
        self._nodes: dict[str, NodeState] = {}
        self._holdings: dict[Holder, Holding] = {}
        self._unbound: dict[Holder, Holding] = {}
        # By UID of each ResourceClaim in a grant: the holders of such grants, the first one first.
        self._claimed: dict[str, dict[Holder, None]] = {}
        # No holding expires before this time.
        self._first_expiry = _NEVER
        self._open: list[Transaction] = []
        self._snapshot: Snapshot | None = None
        self.gained = 0
        """Grows when a slice ends or an inventory changes: then a refused request may fit the cards."""
        self.restocked = 0
        """Grows when an inventory changes or goes: then even a request that was too large for every card may fit."""
        self.freed = 0
        """Grows when slices or host amounts end, or a node changes: then a refused request may fit."""

    def __eq__(self, other: object) -> bool:
        """True if both have equal holdings and equal states of nodes."""
        if not isinstance(other, Ledger):
            return NotImplemented
        return (self._holdings, self._nodes) == (other._holdings, other._nodes)

    __hash__ = None  # type: ignore[assignment]  # a ledger changes

    def set_node(self, name: str, inventory: Inventory, whole: HostAmounts = NOTHING) -> None:
        """Set a node's inventory and the total CPU, memory and disk of its host; does nothing if both are unchanged."""
        before = self._nodes.get(name) or NodeState(name)
        known = before.inventory
        if known is not None and _offered(known) == _offered(inventory):
            # New reports about slices alone make no request fit: reported slices are holdings of their own.
            resized = before.whole != whole
            self.freed += resized
            if resized or known != inventory:
                self._record(replace(before, inventory=inventory, whole=whole), changed=resized)
            return
        self.gained += 1
        self.restocked += 1
        self.freed += 1
        cards = sorted(inventory.cards, key=lambda card: card.uuid)
        states = tuple([self._state(card, before.held.get(card.uuid, {})) for card in cards])
        self._record(replace(before, inventory=inventory, cards=states, whole=whole))

    def drop_node(self, name: str) -> None:
        """Remove a node's inventory and the CPU, memory and disk of its host; the holdings there stay."""
        before = self._nodes.get(name)
        if before is not None and before.inventory is not None:
            self.restocked += 1
            self.freed += 1
            self._record(replace(before, inventory=None, cards=(), whole=NOTHING))

    def hold(self, grant: Grant, host: HostAmounts = NOTHING) -> tuple[Conflict, ...]:
        """Record a pod's grant and host amounts in place of its earlier holding.

        Returns the conflicts with the grants of other holders.
        """
        return self.put(Holding.of(grant, host))

    def put(self, holding: Holding) -> tuple[Conflict, ...]:
        """Record a holding (a holder's slices and host amounts) in place of the holder's earlier one.

        Returns the conflicts with the grants of other holders. A holding with conflicts is recorded too: the ledger
        shows the facts, and the caller decides which pod loses.
        """
        before = self._holdings.get(holding.holder)
        if before != holding:
            self._write(holding.holder, before, holding)
        grant = holding.grant
        return (
            self.conflicts(grant, holding.holder) if grant is not None and self._may_conflict(grant) else ()
        )

    def release(self, holder: Holder) -> Holding | None:
        """End the holder's holding; returns the holding, or None if there was none."""
        before = self._holdings.get(holder)
        if before is not None:
            self._write(holder, before, None)
        return before

    def expired(self, now: float) -> list[str]:
        """The UIDs of the pods whose holdings (slices and host amounts) expired at or before `now`.

        The holdings stay until they are released. Holdings of reports and promises are not listed.
        """
        # Every decision calls this, and nearly always nothing has expired.
        if now < self._first_expiry:
            return []
        self._first_expiry = min((found.expires for found in self._unbound.values()), default=_NEVER)
        return [
            holder
            for holder, found in self._unbound.items()
            if found.expires <= now and isinstance(holder, str)
        ]

    def claimed(self, claim: str) -> tuple[Holder, ...]:
        """The holders whose grants name the ResourceClaim with this UID, the first one first."""
        return tuple(self._claimed.get(claim, ()))

    def transaction(self) -> Transaction:
        """A context manager that rolls back all changes made inside it, unless its `commit` is called."""
        return Transaction(self)

    def snapshot(self) -> Snapshot:
        """An immutable view of the present ledger, for readers without the lock; the same object until a change."""
        if self._snapshot is None:
            self._snapshot = Snapshot(self._nodes, self._unbound)
        return self._snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Replace all holdings and all states of nodes by those of a snapshot.

        Only nodes that differ count as changed. The counters `gained`, `restocked` and `freed` grow, because requests
        that were refused may fit now.
        """
        nodes = snapshot.records()
        names = self._nodes.keys() | nodes.keys()
        self._put_back(
            {name: nodes.get(name) for name in names if self._nodes.get(name) is not nodes.get(name)}
        )
        self._snapshot = snapshot
        self.gained += 1
        self.restocked += 1
        self.freed += 1

    def begin(self, transaction: Transaction) -> None:
        """Add `transaction` as the innermost open one; `end` ends it.

        While it is open, it keeps the state that each changed node had before its first change, so that all changes can
        be rolled back.
        """
        self._open.append(transaction)

    def end(self, transaction: Transaction, *, keep: bool) -> None:
        """End the innermost transaction: roll its changes back, or with `keep` pass them to the next outer one."""
        if self._open.pop() is not transaction:
            raise AssertionError("an inner transaction is still open")
        if keep:
            if self._open:
                self._open[-1].nodes = transaction.nodes | self._open[-1].nodes
            return
        self._put_back(transaction.nodes)
        self.gained, self.freed = transaction.gained, transaction.freed

    def _put_back(self, nodes: Mapping[str, NodeState | None]) -> None:
        """Replace the states of these nodes, with all holdings on them, by earlier states."""
        returning: dict[Holder, Holding] = {}
        for name, node in nodes.items():
            now, then = _holdings(self._nodes.get(name)), _holdings(node)
            for holder in [holder for holder, held in now.items() if then.get(holder) is not held]:
                self._set_holding(holder, None)
            returning |= {holder: held for holder, held in then.items() if now.get(holder) is not held}
            self._set_node(name, node)
        # After all removals, because a holder may have moved from one of the nodes to another.
        for holder, held in returning.items():
            self._set_holding(holder, held)

    def _write(self, holder: Holder, before: Holding | None, after: Holding | None) -> None:
        """Replace one holding (None: no holding), and the states of its old and new node.

        The counter `gained` grows if earlier slices ended or changed, and `freed` also if earlier host amounts did.
        """
        self._set_holding(holder, after)
        other_slices = not _same(_grant(before), _grant(after))
        self.gained += _grant(before) is not None and other_slices
        self.freed += before is not None and (after is None or other_slices or before.host != after.host)
        if before is not None and (after is None or after.node != before.node):
            self._update(before.node, holder, before, None)
            before = None
        if after is not None:
            self._update(after.node, holder, before, after)

    def _update(self, name: str, holder: Holder, before: Holding | None, after: Holding | None) -> None:
        """Replace a node's state in the ledger after the grant or the host amounts of a holder changed there."""
        node = self._nodes.get(name) or NodeState(name)
        less = before.host if before is not None else NOTHING
        more = after.host if after is not None else NOTHING
        taken = node.taken if less == more else node.taken - less + more
        holdings = dict(node.holdings)
        if after is not None:
            holdings[holder] = after
        else:
            del holdings[holder]
        off, on = _grant(before), _grant(after)
        if not _same(off, on):
            uuids = {s.card for grant in (off, on) if grant is not None for s in grant.slices()}
            held = _exchanged(node.held, holder, on, uuids)
            cards = tuple([
                self._state(state.card, held.get(state.card.uuid, {})) if state.card.uuid in uuids else state
                for state in node.cards
            ])  # fmt: skip
            self._record(NodeState(name, node.inventory, cards, holdings, held, node.whole, taken))
        else:
            # Caches depend on free amounts only: they need not see a change that leaves these equal.
            self._record(
                NodeState(name, node.inventory, node.cards, holdings, node.held, node.whole, taken),
                changed=taken is not node.taken,
            )

    def _record(self, node: NodeState, *, changed: bool = True) -> None:
        if self._open:
            self._open[-1].nodes.setdefault(node.name, self._nodes.get(node.name))
        self._set_node(node.name, node, changed=changed)

    def _set_node(self, name: str, node: NodeState | None, *, changed: bool = True) -> None:
        self._snapshot = None
        shown = self.node(name) is not None
        if node is None or node.empty:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = node
        # Only nodes with an inventory are logged. Readers see no others, and tenants can name any in `spec.nodeName`.
        if changed and (shown or (node is not None and node.inventory is not None)):
            self._touch(name)

    def _set_holding(self, holder: Holder, holding: Holding | None) -> None:
        self._snapshot = None
        off, on = _grant(self._holdings.get(holder)), _grant(holding)
        if (off is not None and off.claims) or (on is not None and on.claims):
            self._set_claims(holder, off, on)
        if holding is None:
            self._holdings.pop(holder, None)
        else:
            self._holdings[holder] = holding
        if isinstance(holding, Reservation) or (holding is not None and holding.expires != _NEVER):
            self._unbound[holder] = holding
            self._first_expiry = min(self._first_expiry, holding.expires)
        else:
            self._unbound.pop(holder, None)

    def _set_claims(self, holder: Holder, off: Grant | None, on: Grant | None) -> None:
        for claim in off.claims.values() if off is not None else ():
            holders = self._claimed.get(claim, {})
            holders.pop(holder, None)
            if not holders:
                self._claimed.pop(claim, None)
        for claim in on.claims.values() if on is not None else ():
            self._claimed.setdefault(claim, {})[holder] = None

    def _state(self, card: Card, held: Held) -> CardState:
        """The state of a card with these slices held; the holders' grants are in the ledger already."""
        state = CardState.of(card, [s for slices in held.values() for s in slices])
        if state.crowded and not state.short and self._shrank(card, held):
            return CardState.of(card, [s for slices in held.values() for s in slices], shrank=True)
        return state

    def _shrank(self, card: Card, holders: Iterable[Holder]) -> bool:
        """True if the card has less memory or fewer slices than at the time of a grant of one of the holders."""
        grants = (self.grant(holder) for holder in holders)
        sizes = (grant.cards.get(card.uuid) for grant in grants if grant is not None)
        return any(
            size.mem_mib > card.mem_mib or size.max_slices > card.max_slices
            for size in sizes if size is not None
        )  # fmt: skip

    def _may_conflict(self, held: Grant) -> bool:
        """False if all slices held of each card of the grant `held` fit that card: then there is no conflict.

        This check is fast, and nearly always saves computing the conflicts, which is slow.
        """
        node = self.node(held.node)
        if node is None:
            return True
        for s in held.slices():
            card = node.card(s.card)
            if card is None or card.crowded:
                return True
        return False


_NEVER = float("inf")


def _holdings(node: NodeState | None) -> Mapping[Holder, Holding]:
    return node.holdings if node is not None else {}


def _grant(holding: Holding | None) -> Grant | None:
    return holding.grant if holding is not None else None


def _offered(inventory: Inventory) -> tuple[object, ...]:
    """The parts of an inventory that decide which requests fit."""
    return inventory.serving, inventory.claims, inventory.cards


def _same(one: Grant | None, other: Grant | None) -> bool:
    """True if both grants are equal. Identity is compared first, because that is much faster."""
    return one is other or one == other


def _exchanged(
    held: Mapping[str, Held], holder: Holder, on: Grant | None, uuids: Collection[str]
) -> Mapping[str, Held]:
    """The slices held of a node's cards, after the holder's grant was replaced by `on` (None: no grant).

    `held` has the slices from before, by card; `uuids` are the cards of the holder's old and new grant.
    """
    slices: dict[str, tuple[Slice, ...]] = {}
    for s in on.slices() if on is not None else ():
        slices[s.card] = (*slices.get(s.card, ()), s)
    found = dict(held)
    for uuid in uuids:
        of_card = dict(found.pop(uuid, {}))
        if uuid in slices:
            of_card[holder] = slices[uuid]
        else:
            del of_card[holder]
        if of_card:
            found[uuid] = of_card
    return found
