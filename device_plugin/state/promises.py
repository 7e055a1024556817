"""Promises: slices that are being freed for one job, and that no other pod gets (the Job annotation `vgpu.io/resize`).

A record names pods of its own Job that are about to leave, and the job that they leave for. While such a pod holds its
slices, nothing changes. When they are free, they are held without a pod, for the beneficiary: the job, or its group.
Decisions for pods of the beneficiary do not see that holding, and what they take is taken from it.

Admission lets only the job engine write records, whether the engine is installed or not. A promise holds no more than
pods of its own Job have held, and nothing that somebody else holds. Only when this process starts may pods that a
record names be gone already: then the record is believed, as a grant is, for slices that nobody holds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from math import inf

from device_plugin.core.batch import QueuedJob
from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import AnnotationError
from device_plugin.core.ledger import Ledger
from device_plugin.core.pods import Pod
from device_plugin.state.faults import Faults
from device_plugin.state.pods import KnownPods
from device_plugin.state.promised import LeavingPod, PromisedSlices
from device_plugin.state.records import Giver, ResizeRecords
from device_plugin.state.reports import Reports

# Most pods whose slices are promised at a time.
MOST_LEAVING = 16_384
# Most characters of records whose grants are read at once, which takes half a second: enough for MOST_LEAVING pods of a
# card each. A process that has just started finds the records of all Jobs.
MOST_READ = 128 * MOST_LEAVING


@dataclass(frozen=True, slots=True)
class Leaving:
    """The UIDs of pods that still hold what they leave: for the job of one pod, and for others that have it before it.

    `jobs` are those of Jobs of which such pods leave now.
    """

    for_it: set[str]
    for_others: set[str]
    jobs: set[str]


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
        self._records = ResizeRecords(faults, clock, wall)
        # By beneficiary: its pods that are bound and have not ended, and since when; empty where that is not known yet.
        self._bound: dict[str, dict[str, str]] = {}
        self.slices = PromisedSlices(ledger, pods, reports, self._records.beneficiary_of, self._end, clock)
        # Pods of which nothing is promised any more, because they were evicted for others.
        self._withdrawn = set[str]()
        self._begun = False
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
        if not self.slices.leaving:
            return
        leaving = self.slices.leaving.get(uid)
        if leaving is not None:
            leaving.freed = leaving.freed or self.slices.is_free(leaving.node, uid)
        self._count(uid)
        self.slices.hold_on(node)

    def expire(self, now: float) -> None:
        """End the promises whose time is over."""
        self._reapply({leaving.giver for leaving in self.slices.leaving.values() if leaving.until <= now})
        self.first_end = min((leaving.until for leaving in self.slices.leaving.values()), default=inf)

    # Decisions

    def of(self, pod: Pod) -> str:
        """The name of the beneficiary that the pod belongs to; empty if nothing is promised to its job."""
        if not self.slices:
            return ""
        name = self._records.beneficiary_of(pod)
        return name if name in self.slices else ""

    def opened_for(self, pod: Pod) -> AbstractContextManager[None]:
        """A block in which what is kept for the pod's job is free; nothing changes if nothing is promised to it."""
        beneficiary = self.of(pod)
        return self.slices.open(beneficiary) if beneficiary else nullcontext()

    def shrinking(self) -> Set[str]:
        """The UIDs of Jobs whose pods are about to leave, now or later, whoever gets the freed slices."""
        givers = {leaving.giver for leaving in self.slices.leaving.values() if not leaving.freed}
        return givers | self._records.shrinking()

    def leaving(self, pod: Pod) -> Leaving:
        """The pods that still hold what they leave for a job: for that of `pod`, and for others.

        Until its Job has the smaller width, which may take it an hour, what a pod leaves for a job of lower priority is
        as free for `pod` as what any pod of its priority holds.
        """
        found, own = Leaving(set(), set(), set()), self.of(pod)
        for uid, leaving in self.slices.leaving.items():
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
        leaving = self.slices.leaving.get(uid)
        if leaving is None or leaving.beneficiary == self.of(pod):
            return
        self._withdrawn = {known for known in self._withdrawn if self._pods.get(known) is not None} | {uid}
        self._reapply([leaving.giver])

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
            self.slices.hold(name, node)

    def _named(
        self, giver: Giver, beneficiary: str, grants: Sequence[Grant], *, believed: bool
    ) -> Mapping[tuple[str, str], None]:
        """Take over which pods leave for whom; returns the beneficiaries and nodes whose promises that changes."""
        # In this order: what one promise gives up another may get.
        touched = dict.fromkeys(
            (self.slices.leaving[uid].beneficiary, self.slices.leaving[uid].node) for uid in giver.leaving
        )
        for uid in giver.leaving - {grant.pod for grant in grants}:
            self.slices.drop(uid)
            giver.leaving.discard(uid)
        others = []
        for grant in grants:
            leaving = self.slices.leaving.get(grant.pod)
            if leaving is not None and leaving.giver == giver.job.uid:
                self.slices.drop(grant.pod)
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
        return uid in self.slices.leaving or (pod is not None and self._records.job_of(pod) is not giver.job)

    def _taken(self, giver: Giver, grant: Grant, beneficiary: str, *, believed: bool) -> LeavingPod | None:
        """The slices of a pod of the Job, as they are known here; None if it holds none."""
        uid, pod = grant.pod, self._pods.get(grant.pod)
        if len(self.slices.leaving) >= MOST_LEAVING:
            return None
        if pod is not None:
            held = self._ledger.grant(uid) or (_granted(pod) if believed else None)
        else:
            # If the pod had come and gone while this process watched, more than its name would be known.
            held = grant if believed and not self._pods.is_gone(uid) else None
        if held is None:
            return None
        freed = self.slices.is_free(held.node, uid)
        return LeavingPod(giver.job.uid, beneficiary, held.node, tuple(held.slices()), giver.until, freed)

    def _add(self, uid: str, leaving: LeavingPod, asked: str) -> None:
        """The pod's slices are promised from now on, or since the time `asked`."""
        self.first_end = min(self.first_end, leaving.until)
        if leaving.beneficiary not in self._bound:
            self._bound[leaving.beneficiary] = self._bound_of(leaving.beneficiary)
        self.slices.add(uid, leaving, partial(self._before, leaving, asked))

    def _before(self, leaving: LeavingPod, asked: str) -> frozenset[str]:
        """The beneficiary's pods that have slices on the node now; only those that were bound by the time `asked`."""
        pods = map(self._pods.get, self.slices.holders(leaving.beneficiary, leaving.node))
        return frozenset(pod.uid for pod in pods if pod is not None and (not asked or pod.bound <= asked))

    # Pods of beneficiaries

    def _end(self, beneficiary: str) -> None:
        """The last promise to the beneficiary has ended: its pods need not be counted."""
        del self._bound[beneficiary]

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
        self._reapply({self.slices.leaving[uid].giver for uid in self.slices.leaving_for(beneficiary)})


def _runs(pod: Pod) -> bool:
    return bool(pod.node) and not pod.ended


def _granted(pod: Pod) -> Grant | None:
    """The grant of a bound pod that has ended, if it is sound."""
    try:
        return pod.grant() if pod.node else None
    except AnnotationError:
        return None
