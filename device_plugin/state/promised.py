"""Slices that are promised to jobs: leaving pods still hold some of them, and the ledger keeps the free ones.

Callers hold the cluster view's lock. Without any promise each call reads one empty dict.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.jobs.promise import kept
from device_plugin.core.ledger import CardState, Holding, Ledger, PromiseHolder
from device_plugin.core.pods import Pod
from device_plugin.state.pods import KnownPods
from device_plugin.state.reports import MOST_NAMED, Reports

# The name of the only container of a promise's grant.
_CONTAINER = "promise"


@dataclass(frozen=True, slots=True)
class PromiseStatus:
    """A promise as people see it: slices of one node promised to `beneficiary`; the promise ends in `seconds`.

    `leaving` are the pods, by namespace and name, that still hold promised slices; `kept` are the slices that are
    already held for the beneficiary.
    """

    beneficiary: str
    node: str
    seconds: float
    leaving: Sequence[str]
    kept: Sequence[Slice]


@dataclass(slots=True)
class LeavingPod:
    """A pod that leaves the Job with the UID `giver`, and its slices, which the job or group `beneficiary` will get.

    The promise ends at the time `until`. The slices are `freed` once neither the pod nor one of its containers holds
    them.
    """

    giver: str
    beneficiary: str
    node: str
    slices: tuple[Slice, ...]
    until: float
    freed: bool = False


@dataclass(slots=True)
class _Promise:
    """The promise of slices to one beneficiary (a job, or its group) on one node; `leaving` has the leaving pods' UIDs.

    `before` has the UIDs of the beneficiary's own pods that already had slices on the node; their slices are no part of
    the promise.
    """

    before: frozenset[str]
    leaving: set[str] = field(default_factory=set)


class PromisedSlices:
    """Holds the promised slices, found by leaving pod, by node and by beneficiary (the job or group that gets them).

    `beneficiary_of` returns the beneficiary that a pod belongs to; `ended` is called with a beneficiary when its last
    promise has ended; `clock` is the cluster view's clock.
    """

    def __init__(
        self, ledger: Ledger, pods: KnownPods, reports: Reports, beneficiary_of: Callable[[Pod], str],
        ended: Callable[[str], None], clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._ledger = ledger
        self._pods = pods
        self._reports = reports
        self._beneficiary_of = beneficiary_of
        self._ended = ended
        self._clock = clock
        self.leaving: dict[str, LeavingPod] = {}
        """The leaving pods by UID; `add` and `drop` change it."""
        # By beneficiary, then by node.
        self._promises: dict[str, dict[str, _Promise]] = {}
        self._on_node: dict[str, set[str]] = {}
        # The beneficiary for whose pods a decision is being made.
        self._opened = ""

    def __contains__(self, beneficiary: str) -> bool:
        return beneficiary in self._promises

    def __bool__(self) -> bool:
        return bool(self._promises)

    # Changes

    def add(self, uid: str, leaving: LeavingPod, before: Callable[[], frozenset[str]]) -> None:
        """Promise the slices of the leaving pod `uid` to its beneficiary: the job, or its group, that gets them.

        `before` returns the UIDs of the beneficiary's pods that already have slices on the node. It is called only for
        the first promise to that beneficiary on that node.
        """
        self.leaving[uid] = leaving
        on = self._promises.setdefault(leaving.beneficiary, {})
        if leaving.node not in on:
            on[leaving.node] = _Promise(before())
            self._on_node.setdefault(leaving.node, set()).add(leaving.beneficiary)
        on[leaving.node].leaving.add(uid)

    def drop(self, uid: str) -> None:
        """Remove a leaving pod, whose slices are no longer promised.

        If it was the last pod that leaves for its promise, the promise itself ends at the next call of `hold`.
        """
        leaving = self.leaving.pop(uid)
        self._promises[leaving.beneficiary][leaving.node].leaving.discard(uid)

    def hold(self, beneficiary: str, node: str) -> None:
        """Update the ledger's entry (holding) that keeps freed slices for the beneficiary, a job, on a node.

        The holding has the freed slices that the beneficiary has not taken yet. If no pod leaves for the promise any
        more, the promise ends. Nothing happens while `open` lets the beneficiary take slices.
        """
        on = self._promises.get(beneficiary, {})
        promise = on.get(node)
        if promise is None or beneficiary == self._opened:
            return
        holder, slices = PromiseHolder(node, beneficiary), self._left(beneficiary, node, promise)
        before = self._ledger.grant(holder)
        if not slices:
            self._ledger.release(holder)
        elif before is None or tuple(before.slices()) != slices:
            self._ledger.put(self._holding(holder, slices))
        if not promise.leaving:
            del on[node]
            self._on_node[node].discard(beneficiary)
            if not self._on_node[node]:
                del self._on_node[node]
            if not on:
                del self._promises[beneficiary]
                self._ended(beneficiary)

    def hold_on(self, node: str) -> None:
        """Update the ledger's entry of each promise on the node: the freed slices that are kept for a job."""
        for beneficiary in tuple(self._on_node.get(node, ())):
            self.hold(beneficiary, node)

    @contextmanager
    def open(self, beneficiary: str) -> Iterator[None]:
        """A context in which the slices kept for the beneficiary job are free; afterwards the rest is held again."""
        ledger = self._ledger
        counts = ledger.gained, ledger.freed
        self.release(beneficiary, ledger)
        # Nothing became free for anybody else.
        ledger.gained, ledger.freed = counts
        self._opened = beneficiary
        try:
            yield
        finally:
            self._opened = ""
            for node in tuple(self._promises.get(beneficiary, ())):
                self.hold(beneficiary, node)

    def release(self, beneficiary: str, ledger: Ledger) -> Sequence[Holding]:
        """Release the slices kept for the beneficiary, a job, in a ledger or a copy; returns the released holdings.

        Afterwards the caller must hold the remaining slices again, or roll the ledger back.
        """
        holders = (PromiseHolder(node, beneficiary) for node in self._promises.get(beneficiary, ()))
        released = [held for holder in holders if (held := ledger.holding(holder)) is not None]
        for held in released:
            ledger.release(held.holder)
        return released

    # Reading

    def leaving_for(self, beneficiary: str) -> Sequence[str]:
        """The UIDs of the leaving pods whose slices are promised to `beneficiary`, a job or group."""
        return [uid for promise in self._promises[beneficiary].values() for uid in promise.leaving]

    def is_free(self, node: str, uid: str) -> bool:
        """True if neither the pod, nor a container that outlives the pod, holds the pod's slices."""
        return self._ledger.grant(uid) is None and self._reports.reported(node, uid) is None

    def holders(self, beneficiary: str, node: str) -> Mapping[str, Sequence[Slice]]:
        """The slices on a node that pods of the job or group `beneficiary` hold, by the pod's UID."""
        state = self._ledger.node(node)
        found: dict[str, Sequence[Slice]] = {}
        for holder, holding in state.holdings.items() if state is not None else ():
            pod = self._pods.get(holder) if holding.grant is not None else None
            if pod is not None and holding.grant is not None and self._beneficiary_of(pod) == beneficiary:
                found[pod.uid] = tuple(holding.grant.slices())
        return found

    # For people

    def notes(self, nodes: Container[str]) -> Mapping[str, str]:
        """A text for each of `nodes` where slices are kept for jobs; the text names these jobs."""
        held = ((node, self._kept_on(node)) for node in self._on_node if node in nodes)
        return {node: f"slices there are kept for {_few(names)}" for node, names in held if names}

    def summary(self) -> Sequence[str]:
        """A text for each of the first MOST_NAMED beneficiaries (jobs) for which slices are kept."""
        names = sorted({name for node in self._on_node for name in self._kept_on(node)})
        return [f"slices are kept for {name}" for name in names[:MOST_NAMED]]

    def statuses(self) -> Sequence[PromiseStatus]:
        """The states of all promises for people, by the job that gets the slices (beneficiary) and by node."""
        return [
            self._status(beneficiary, node, promise)
            for beneficiary, on in sorted(self._promises.items())
            for node, promise in sorted(on.items())
        ]

    def cards(self) -> Mapping[str, int]:
        """The number of cards with promised slices: `leaving` if pods hold the slices, `kept` if they are free."""
        leaving = {(pod.node, s.card) for pod in self.leaving.values() if not pod.freed for s in pod.slices}
        held = (
            self._ledger.grant(PromiseHolder(node, name))
            for name, on in self._promises.items()
            for node in on
        )
        kept = {(grant.node, s.card) for grant in held if grant is not None for s in grant.slices()}
        return {"leaving": len(leaving), "kept": len(kept)}

    # Holdings

    def _holding(self, holder: PromiseHolder, slices: tuple[Slice, ...]) -> Holding:
        state, named = self._ledger.node(holder.node), {s.card for s in slices}
        cards = (each.card for each in (state.cards if state is not None else ()))
        sizes = {card.uuid: card.size for card in cards if card.uuid in named}
        grant = Grant(holder.beneficiary, holder.node, {_CONTAINER: slices}, cards=sizes)
        return Holding(holder=holder, node=holder.node, grant=grant)

    def _left(self, beneficiary: str, node: str, promise: _Promise) -> tuple[Slice, ...]:
        freed = [s for uid in promise.leaving if self.leaving[uid].freed for s in self.leaving[uid].slices]
        state = self._ledger.node(node)
        if not freed or state is None:
            return ()
        cores: dict[str, set[int]] = defaultdict(set)
        for s in freed:
            cores[s.card].update(s.cores)
        taken = [
            s
            for uid, slices in self.holders(beneficiary, node).items()
            # A pod that holds promised core groups got them from the promise, though it may have held them before this
            # process started.
            if uid not in promise.before or any(not cores[s.card].isdisjoint(s.cores) for s in slices)
            for s in slices
        ]
        holder = PromiseHolder(node, beneficiary)
        cards = {
            card.card.uuid: self._without(holder, card) for card in state.cards if card.card.uuid in cores
        }
        return kept(freed, taken, cards)

    def _without(self, holder: PromiseHolder, card: CardState) -> CardState:
        """The state of a card as if `holder` held no slice of it."""
        held = self._ledger.holders(holder.node, card.card.uuid)
        if holder not in held:
            return card
        return CardState.of(
            card.card, [s for other, slices in held.items() if other != holder for s in slices]
        )

    def _kept_on(self, node: str) -> Sequence[str]:
        return sorted(
            beneficiary for beneficiary in self._on_node[node]
            if self._ledger.grant(PromiseHolder(node, beneficiary)) is not None
        )  # fmt: skip

    def _status(self, beneficiary: str, node: str, promise: _Promise) -> PromiseStatus:
        still = [uid for uid in promise.leaving if not self.leaving[uid].freed]
        pods = (self._pods.get(uid) for uid in still)
        until = max(self.leaving[uid].until for uid in promise.leaving)
        held = self._ledger.grant(PromiseHolder(node, beneficiary))
        return PromiseStatus(
            beneficiary, node, max(0.0, until - self._clock()),
            sorted(f"{pod.namespace}/{pod.name}" for pod in pods if pod is not None),
            tuple(held.slices()) if held is not None else (),
        )  # fmt: skip


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")
