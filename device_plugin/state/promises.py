"""Promises: slices that are being freed for one job, and that no other pod gets (the Job annotation `vgpu.io/resize`).

A record names pods of its own Job that are about to leave, and the job that they leave for. While such a pod holds its
slices, nothing changes. When they are free, they are held without a pod, for the beneficiary: the job, or its group.
Decisions for pods of the beneficiary do not see that holding, and what they take is taken from it.

Admission lets only the job engine write records, whether the engine is installed or not. A promise holds no more than
pods of its own Job have held, and nothing that somebody else holds. Only when this process starts may pods that a
record names be gone already: then the record is believed, as a grant is, for slices that nobody holds.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from math import inf

from device_plugin.core.batch import QueuedJob
from device_plugin.core.errors import AnnotationError
from device_plugin.core.grants import Grant, Slice
from device_plugin.core.jobs.promise import kept
from device_plugin.core.ledger import CardState, Holding, Ledger, PromiseHolder
from device_plugin.core.pods import Pod
from device_plugin.state.faults import Faults
from device_plugin.state.pods import KnownPods
from device_plugin.state.records import Giver, ResizeRecords
from device_plugin.state.reports import MOST_NAMED, Reports

# Most pods whose slices are promised at a time.
MOST_LEAVING = 16_384
# Most characters of records whose grants are read at once, which takes half a second: enough for MOST_LEAVING pods of a
# card each. A process that has just started finds the records of all Jobs.
MOST_READ = 128 * MOST_LEAVING
# The name of the only container of a promise's grant.
_CONTAINER = "promise"


@dataclass(frozen=True, slots=True)
class PromiseStatus:
    """A promise as people see it: slices of one node that are promised to `beneficiary`, until in `seconds`.

    `leaving` are the pods, by namespace and name, that still hold some of what is promised; `kept` is what is held for
    the beneficiary already.
    """

    beneficiary: str
    node: str
    seconds: float
    leaving: Sequence[str]
    kept: Sequence[Slice]


@dataclass(frozen=True, slots=True)
class Leaving:
    """The UIDs of pods that still hold what they leave: for the job of one pod, and for others that have it before it.

    `jobs` are those of Jobs of which such pods leave now.
    """

    for_it: set[str]
    for_others: set[str]
    jobs: set[str]


@dataclass(slots=True)
class _Leaving:
    """A pod whose slices are promised, and whether they are free of the pod and of its containers."""

    giver: str
    beneficiary: str
    node: str
    slices: tuple[Slice, ...]
    until: float
    freed: bool = False


@dataclass(slots=True)
class _Promise:
    """The promise to one beneficiary on one node: the leaving pods by UID.

    `before` are the pods of the beneficiary that held slices there already.
    """

    before: frozenset[str]
    leaving: set[str] = field(default_factory=set)


class Promises:
    """All promises. Callers hold the view's lock. Without any promise each call costs one look at an empty dict.

    `clock` is that of the view, `wall` returns the seconds since 1970.
    """

    def __init__(
        self, ledger: Ledger, pods: KnownPods, reports: Reports, faults: Faults,
        clock: Callable[[], float], wall: Callable[[], float],
    ) -> None:  # fmt: skip
        self._ledger = ledger
        self._pods = pods
        self._reports = reports
        self._clock = clock
        self._records = ResizeRecords(faults, clock, wall)
        self._leaving: dict[str, _Leaving] = {}
        # By beneficiary, then by node.
        self._promises: dict[str, dict[str, _Promise]] = {}
        self._on_node: dict[str, set[str]] = {}
        # By beneficiary: its pods that are bound and have not ended, and since when; empty where that is not known yet.
        self._bound: dict[str, dict[str, str]] = {}
        # Pods of which nothing is promised any more, because they were evicted for others.
        self._withdrawn = set[str]()
        self._begun = False
        # The beneficiary for whose pods a decision is being made.
        self._opened = ""
        self.first_end = inf
        """No promise ends by time before this."""

    # Jobs

    def see(self, job: QueuedJob) -> None:
        """Take news of a Job that has the queue label."""
        self._follow(self._records.see(job))

    def forget(self, uid: str) -> None:
        """The Job is gone, or has left its queue: what it promised ends, and what was promised to it."""
        self._follow(self._records.forget(uid))

    def jobs(self) -> Set[str]:
        """The UIDs of all Jobs with the queue label."""
        return {giver.job.uid for giver in self._records.all()}

    def begin(self) -> None:
        """Put the records into force: all pods, nodes and Jobs were listed for the first time."""
        if not self._begun:
            self._begun = True
            self._apply(self._records.all(), believed=True)

    def _follow(self, changed: Iterable[Giver]) -> None:
        if self._begun:
            self._apply(changed)

    # Changes of pods and nodes

    def changed(self, node: str, uid: str = "") -> None:
        """The holding of the pod changed, or the cards of the node did."""
        if not self._leaving:
            return
        leaving = self._leaving.get(uid)
        if leaving is not None:
            leaving.freed = leaving.freed or self._is_free(leaving.node, uid)
        self._count(uid)
        for beneficiary in tuple(self._on_node.get(node, ())):
            self._hold(beneficiary, node)

    def expire(self, now: float) -> None:
        """End the promises whose time is over."""
        self._reapply({leaving.giver for leaving in self._leaving.values() if leaving.until <= now})
        self.first_end = min((leaving.until for leaving in self._leaving.values()), default=inf)

    # Decisions

    def of(self, pod: Pod) -> str:
        """The name of the beneficiary that the pod belongs to; empty if nothing is promised to its job."""
        if not self._promises:
            return ""
        name = self._records.beneficiary_of(pod)
        return name if name in self._promises else ""

    def release(self, beneficiary: str, ledger: Ledger) -> Sequence[Holding]:
        """Release what is kept for the beneficiary, on this ledger or a copy; returns what was held.

        The caller holds the rest again, or rolls it back.
        """
        holders = (PromiseHolder(node, beneficiary) for node in self._promises.get(beneficiary, ()))
        released = [held for holder in holders if (held := ledger.holding(holder)) is not None]
        for held in released:
            ledger.release(held.holder)
        return released

    def opened_for(self, pod: Pod) -> AbstractContextManager[None]:
        """A block in which what is kept for the pod's job is free; nothing changes if nothing is promised to it."""
        beneficiary = self.of(pod)
        return self.open(beneficiary) if beneficiary else nullcontext()

    @contextmanager
    def open(self, beneficiary: str) -> Iterator[None]:
        """A block in which what is kept for the beneficiary is free; then what is left of it is held again."""
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
                self._hold(beneficiary, node)

    def shrinking(self) -> Set[str]:
        """The UIDs of Jobs whose pods are about to leave, now or later, whoever gets the freed slices."""
        givers = {leaving.giver for leaving in self._leaving.values() if not leaving.freed}
        return givers | self._records.shrinking()

    def leaving(self, pod: Pod) -> Leaving:
        """The pods that still hold what they leave for a job: for that of `pod`, and for others.

        Until its Job has the smaller width, which may take it an hour, what a pod leaves for a job of lower priority is
        as free for `pod` as what any pod of its priority holds.
        """
        found, own = Leaving(set(), set(), set()), self.of(pod)
        for uid, leaving in self._leaving.items():
            if leaving.freed:
                continue
            giver = self._records.get(leaving.giver)
            record = giver.record if giver is not None else None
            if record is None or record.applied:
                found.jobs.add(leaving.giver)
            if leaving.beneficiary == own:
                found.for_it.add(uid)
            elif record is None or record.applied or record.priority >= pod.priority:
                found.for_others.add(uid)
        return found

    def withdraw(self, uid: str, pod: Pod) -> None:
        """The pod of this UID is evicted for `pod`: what it was to leave for another job is promised no longer."""
        leaving = self._leaving.get(uid)
        if leaving is None or leaving.beneficiary == self.of(pod):
            return
        self._withdrawn = {known for known in self._withdrawn if self._pods.get(known) is not None} | {uid}
        self._reapply([leaving.giver])

    # For people

    def notes(self, nodes: Container[str]) -> Mapping[str, str]:
        """A text that names the job, by node, for each of `nodes` with slices kept for a job."""
        held = ((node, self._kept_on(node)) for node in self._on_node if node in nodes)
        return {node: f"slices there are kept for {_few(names)}" for node, names in held if names}

    def summary(self) -> Sequence[str]:
        """A text for the first MOST_NAMED beneficiaries for which slices are kept now."""
        names = sorted({name for node in self._on_node for name in self._kept_on(node)})
        return [f"slices are kept for {name}" for name in names[:MOST_NAMED]]

    def statuses(self) -> Sequence[PromiseStatus]:
        """All promises, by beneficiary and node."""
        return [
            self._status(beneficiary, node, promise)
            for beneficiary, on in sorted(self._promises.items())
            for node, promise in sorted(on.items())
        ]

    def cards(self) -> Mapping[str, int]:
        """The number of cards with promised slices: `leaving` while pods still hold them, `kept` afterwards."""
        leaving = {(pod.node, s.card) for pod in self._leaving.values() if not pod.freed for s in pod.slices}
        held = (
            self._ledger.grant(PromiseHolder(node, name))
            for name, on in self._promises.items()
            for node in on
        )
        kept_slices = [s.card for grant in held if grant is not None for s in grant.slices()]
        return {"leaving": len(leaving), "kept": len(kept_slices)}

    # Records

    def _apply(self, givers: Iterable[Giver], *, believed: bool = False) -> None:
        """Put the records of these Jobs into force as they are now, or what is left of them."""
        touched: dict[tuple[str, str], None] = {}
        read = 0
        for giver in givers:
            beneficiary, grants = self._in_force(giver), tuple[Grant, ...]()
            if beneficiary and (giver.leaving or read < MOST_READ):
                named = self._records.grants(giver)
                grants = tuple(grant for grant in named if grant.pod not in self._withdrawn)
                read += len(giver.text)
            touched |= self._named(giver, beneficiary, grants, believed=believed)
        for name, node in touched:
            self._hold(name, node)

    def _named(
        self, giver: Giver, beneficiary: str, grants: Sequence[Grant], *, believed: bool
    ) -> Mapping[tuple[str, str], None]:
        """Take over which pods leave for whom; returns the beneficiaries and nodes whose promises that changes."""
        # In this order: what one promise gives up another may get.
        touched = dict.fromkeys(
            (self._leaving[uid].beneficiary, self._leaving[uid].node) for uid in giver.leaving
        )
        for uid in giver.leaving - {grant.pod for grant in grants}:
            self._drop(uid)
            giver.leaving.discard(uid)
        others = []
        for grant in grants:
            leaving = self._leaving.get(grant.pod)
            if leaving is not None and leaving.giver == giver.job.uid:
                self._drop(grant.pod)
                leaving.beneficiary, leaving.until = beneficiary, giver.until
            elif self._of_another_job(giver, grant.pod):
                others.append(grant.pod)
            else:
                leaving = self._taken(giver, grant, beneficiary, believed=believed)
            if leaving is not None and grant.pod not in others:
                self._add(grant.pod, leaving, self._records.asked(giver) if believed else "")
                giver.leaving.add(grant.pod)
                touched[beneficiary, leaving.node] = None
        if others:
            self._records.fault(
                giver, f"resize: pod {others[0]} is not of this Job: what it holds is not promised"
            )
        return touched

    def _reapply(self, uids: Iterable[str]) -> None:
        self._apply([giver for giver in map(self._records.get, uids) if giver is not None])

    def _in_force(self, giver: Giver) -> str:
        """The beneficiary of the record, until enough of its pods were bound after it was written; else empty."""
        name, record = self._records.taker(giver), giver.record
        if not name or record is None or self._records.get(giver.job.uid) is not giver:
            return ""
        if not record.replicas:
            return name
        # Pods of a group that ran before are not those that it is written for.
        asked = self._records.asked(giver)
        bound = sum(not time or time > asked for time in self._bound_of(name).values())
        return "" if bound >= record.replicas else name

    def _of_another_job(self, giver: Giver, uid: str) -> bool:
        """True if the pod is known and of another Job, or of none."""
        pod = self._pods.get(uid)
        return uid in self._leaving or (pod is not None and self._records.job_of(pod) is not giver.job)

    def _taken(self, giver: Giver, grant: Grant, beneficiary: str, *, believed: bool) -> _Leaving | None:
        """The slices of a pod of the Job, as they are known here; None if it holds none."""
        uid, pod = grant.pod, self._pods.get(grant.pod)
        if len(self._leaving) >= MOST_LEAVING:
            return None
        if pod is not None:
            held = self._ledger.grant(uid) or (_granted(pod) if believed else None)
        else:
            # If the pod had come and gone while this process watched, more than its name would be known.
            held = grant if believed and not self._pods.is_gone(uid) else None
        if held is None:
            return None
        freed = self._is_free(held.node, uid)
        return _Leaving(giver.job.uid, beneficiary, held.node, tuple(held.slices()), giver.until, freed)

    def _add(self, uid: str, leaving: _Leaving, asked: str) -> None:
        """The pod's slices are promised from now on, or since the time `asked`."""
        self._leaving[uid] = leaving
        self.first_end = min(self.first_end, leaving.until)
        on = self._promises.setdefault(leaving.beneficiary, {})
        if leaving.beneficiary not in self._bound:
            self._bound[leaving.beneficiary] = self._bound_of(leaving.beneficiary)
        if leaving.node not in on:
            on[leaving.node] = _Promise(self._before(leaving, asked))
            self._on_node.setdefault(leaving.node, set()).add(leaving.beneficiary)
        on[leaving.node].leaving.add(uid)

    def _before(self, leaving: _Leaving, asked: str) -> frozenset[str]:
        """The beneficiary's pods that have slices on the node now; only those that were bound by the time `asked`."""
        pods = map(self._pods.get, self._holders(leaving.beneficiary, leaving.node))
        return frozenset(pod.uid for pod in pods if pod is not None and (not asked or pod.bound <= asked))

    def _drop(self, uid: str) -> None:
        """The pod's slices are promised no longer. The promise that they were part of is ended by `_hold`."""
        leaving = self._leaving.pop(uid)
        self._promises[leaving.beneficiary][leaving.node].leaving.discard(uid)

    # Holdings

    def _hold(self, beneficiary: str, node: str) -> None:
        """Hold what is left of a promise, and end it if nobody is leaving for it and nothing was freed."""
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
                del self._promises[beneficiary], self._bound[beneficiary]

    def _holding(self, holder: PromiseHolder, slices: tuple[Slice, ...]) -> Holding:
        state, named = self._ledger.node(holder.node), {s.card for s in slices}
        cards = (each.card for each in (state.cards if state is not None else ()))
        sizes = {card.uuid: card.size for card in cards if card.uuid in named}
        grant = Grant(holder.beneficiary, holder.node, {_CONTAINER: slices}, cards=sizes)
        return Holding(holder=holder, node=holder.node, grant=grant)

    def _left(self, beneficiary: str, node: str, promise: _Promise) -> tuple[Slice, ...]:
        freed = [s for uid in promise.leaving if self._leaving[uid].freed for s in self._leaving[uid].slices]
        state = self._ledger.node(node)
        if not freed or state is None:
            return ()
        cores: dict[str, set[int]] = defaultdict(set)
        for s in freed:
            cores[s.card].update(s.cores)
        taken = [
            s
            for uid, slices in self._holders(beneficiary, node).items()
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
        """The state of a card if `holder` held nothing of it."""
        held = self._ledger.holders(holder.node, card.card.uuid)
        if holder not in held:
            return card
        return CardState.of(
            card.card, [s for other, slices in held.items() if other != holder for s in slices]
        )

    def _holders(self, beneficiary: str, node: str) -> Mapping[str, Sequence[Slice]]:
        """The slices on a node of the beneficiary's pods, by UID."""
        state = self._ledger.node(node)
        found: dict[str, Sequence[Slice]] = {}
        for holder, holding in state.holdings.items() if state is not None else ():
            pod = self._pods.get(holder) if holding.grant is not None else None
            if (
                pod is not None
                and holding.grant is not None
                and self._records.beneficiary_of(pod) == beneficiary
            ):
                found[pod.uid] = tuple(holding.grant.slices())
        return found

    def _is_free(self, node: str, uid: str) -> bool:
        """True if neither the pod nor a container that outlives it holds its slices."""
        return self._ledger.grant(uid) is None and self._reports.reported(node, uid) is None

    # Pods of beneficiaries

    def _bound_of(self, beneficiary: str) -> dict[str, str]:
        known = self._bound.get(beneficiary)
        if known is not None:
            return known
        return {
            pod.uid: pod.bound
            for pod in self._pods.all()
            if _runs(pod) and self._records.beneficiary_of(pod) == beneficiary
        }

    def _count(self, uid: str) -> None:
        """Count the pod if it is bound and of a beneficiary; a record ends once enough of them are bound."""
        pod = self._pods.get(uid)
        if pod is None or not _runs(pod):
            for bound in self._bound.values():
                bound.pop(uid, None)
            return
        beneficiary = self.of(pod)
        # The time of a Binding of ours is known once the watch shows it.
        if not beneficiary or self._bound[beneficiary].get(uid) == pod.bound:
            return
        self._bound[beneficiary][uid] = pod.bound
        left = [uid for on in self._promises[beneficiary].values() for uid in on.leaving]
        self._reapply({self._leaving[uid].giver for uid in left})

    # Texts

    def _kept_on(self, node: str) -> Sequence[str]:
        return sorted(
            beneficiary for beneficiary in self._on_node[node]
            if self._ledger.grant(PromiseHolder(node, beneficiary)) is not None
        )  # fmt: skip

    def _status(self, beneficiary: str, node: str, promise: _Promise) -> PromiseStatus:
        still = [uid for uid in promise.leaving if not self._leaving[uid].freed]
        pods = (self._pods.get(uid) for uid in still)
        until = max(self._leaving[uid].until for uid in promise.leaving)
        held = self._ledger.grant(PromiseHolder(node, beneficiary))
        return PromiseStatus(
            beneficiary, node, max(0.0, until - self._clock()),
            sorted(f"{pod.namespace}/{pod.name}" for pod in pods if pod is not None),
            tuple(held.slices()) if held is not None else (),
        )  # fmt: skip


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")


def _runs(pod: Pod) -> bool:
    return bool(pod.node) and not pod.ended


def _granted(pod: Pod) -> Grant | None:
    """The grant of a bound pod that has ended, if it is sound."""
    try:
        return pod.grant() if pod.node else None
    except AnnotationError:
        return None
