"""Promises: slices that are being freed for one job, and that no other pod gets (the Job annotation `vgpu.io/resize`).

This annotation is the record of a Job's latest change of width. It names pods that leave the Job (the giver), and the
beneficiary: the job, or its group, that gets their slices. While a leaving pod holds its slices, nothing changes. Once
the slices are free, the ledger holds them for the beneficiary, without a pod. A decision for a pod of the beneficiary
treats these slices as free; the holding shrinks by the slices that the pod takes.

Admission lets only the job engine write records, even where the engine is not installed. A promise holds no more than
the giver's pods have held, and nothing that somebody else holds. When this process starts, pods that a record names may
be gone already. Then the slices of their grants in the record are promised all the same, if nobody holds them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from math import inf

from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import AnnotationError
from device_plugin.core.ledger import Ledger
from device_plugin.core.pods import Pod
from device_plugin.state.faults import Faults
from device_plugin.state.pods import KnownPods
from device_plugin.state.promised import LeavingPod, PromisedSlices
from device_plugin.state.records import JobRecord, JobRecords, QueuedJob
from device_plugin.state.reports import Reports

# Most pods whose slices are promised at a time.
MOST_LEAVING = 16_384
# Most characters of records whose grants are read at once, which takes half a second: enough for MOST_LEAVING pods of a
# card each. A process that has just started finds the records of all Jobs.
MOST_READ = 128 * MOST_LEAVING


@dataclass(frozen=True, slots=True)
class Leaving:
    """The leaving pods that still hold their slices, as one pod that asks for slices sees them.

    `for_it` holds the UIDs of pods that leave for the asking pod's job. `for_others` holds the UIDs of pods that leave
    for another job, and whose slices the asking pod cannot get. `jobs` holds the UIDs of the Jobs that these pods
    leave, if the Job has the smaller width already.
    """

    for_it: set[str]
    for_others: set[str]
    jobs: set[str]


class Promises:
    """All promises. Callers hold the cluster view's lock. Without any promise, a call costs almost nothing.

    `clock` is the cluster view's clock, `wall` returns the seconds since 1970.
    """

    def __init__(
        self, ledger: Ledger, pods: KnownPods, reports: Reports, faults: Faults,
        clock: Callable[[], float], wall: Callable[[], float],
    ) -> None:  # fmt: skip
        self._ledger = ledger
        self._pods = pods
        self._records = JobRecords(faults, clock, wall)
        # By beneficiary, then by UID: the times at which its running pods were bound; empty where not known yet.
        self._bound: dict[str, dict[str, str]] = {}
        self.slices = PromisedSlices(ledger, pods, reports, self._records.beneficiary_of, self._end, clock)
        # The UIDs of pods that were evicted for other jobs: their slices are promised no longer.
        self._withdrawn = set[str]()
        self._begun = False
        self.first_end = inf
        """The earliest time at which a promise can end, on the cluster view's clock."""

    # Jobs

    def see_job(self, job: QueuedJob) -> None:
        """Read a Job with the queue label; promises are made or ended if its record, name or group has changed.

        The record is the Job's latest change of width.
        """
        self._follow(self._records.see(job))

    def forget_job(self, uid: str) -> None:
        """Remove a Job that is gone or has left its queue; promises of its pods' slices and promises to it end."""
        self._follow(self._records.forget(uid))

    def begin(self) -> None:
        """Make the promises that the records of all Jobs announce; called once pods, nodes and Jobs were listed.

        Later calls do nothing.
        """
        if not self._begun:
            self._begun = True
            self._apply(self._records.all(), believed=True)

    def _follow(self, changed: Iterable[JobRecord]) -> None:
        if self._begun:
            self._apply(changed)

    # Changes of pods and nodes

    def changed(self, node: str, uid: str = "") -> None:
        """Update the promises on the node after a change of its cards, or of the slices that the pod `uid` holds.

        A leaving pod's slices may have become free, and a newly bound pod may have taken promised slices.
        """
        if not self.slices.leaving:
            return
        leaving = self.slices.leaving.get(uid)
        if leaving is not None:
            leaving.freed = leaving.freed or self.slices.is_free(leaving.node, uid)
        self._count(uid)
        self.slices.hold_on(node)

    def expire(self, now: float) -> None:
        """End the promises whose time is over at `now`, and set `first_end` to the next time at which one ends."""
        self._reapply({leaving.giver for leaving in self.slices.leaving.values() if leaving.until <= now})
        self.first_end = min((leaving.until for leaving in self.slices.leaving.values()), default=inf)

    # Decisions

    def of(self, pod: Pod) -> str:
        """The name under which slices are kept for the pod's job; empty if no slices are promised to that job."""
        if not self.slices:
            return ""
        name = self._records.beneficiary_of(pod)
        return name if name in self.slices else ""

    def opened_for(self, pod: Pod) -> AbstractContextManager[None]:
        """A context in which slices kept for the pod's job are free; without such slices it changes nothing."""
        beneficiary = self.of(pod)
        return self.slices.open(beneficiary) if beneficiary else nullcontext()

    def shrinking(self) -> Set[str]:
        """The UIDs of the Jobs that shrink: leaving pods still hold slices, or the recorded shrink is not done yet."""
        givers = {leaving.giver for leaving in self.slices.leaving.values() if not leaving.freed}
        return givers | self._records.shrinking()

    def leaving(self, pod: Pod) -> Leaving:
        """The leaving pods that still hold their slices, in sets that say whether `pod` can get their slices.

        Some leaving pods are in no set: they leave for a job of lower priority than `pod`, and their own Job still has
        the larger width, which may last an hour. Until then they may be preempted like any other pod.
        """
        found, own = Leaving(set(), set(), set()), self.of(pod)
        for uid, leaving in self.slices.leaving.items():
            if leaving.freed:
                continue
            record = self._records.get(leaving.giver)
            resize = record.resize if record is not None else None
            if resize is None or resize.applied:
                found.jobs.add(leaving.giver)
            if leaving.beneficiary == own:
                found.for_it.add(uid)
            elif resize is None or resize.applied or resize.priority >= pod.priority:
                found.for_others.add(uid)
        return found

    def withdraw(self, uid: str, pod: Pod) -> None:
        """End the promise of the slices of the pod `uid` to another job, because the pod `uid` is evicted for `pod`."""
        leaving = self.slices.leaving.get(uid)
        if leaving is None or leaving.beneficiary == self.of(pod):
            return
        self._withdrawn = {known for known in self._withdrawn if self._pods.get(known) is not None} | {uid}
        self._reapply([leaving.giver])

    # Records

    def _apply(self, records: Iterable[JobRecord], *, believed: bool = False) -> None:
        """Make, change or end the promises of these Jobs' records, and update the slices held for changed promises.

        `believed` is true only at the start of this process: then the slices of a grant in a record are promised even
        if its pod is gone or has ended.
        """
        touched: dict[tuple[str, str], None] = {}
        read = 0
        for record in records:
            beneficiary, grants = self._in_force(record), tuple[Grant, ...]()
            if beneficiary and (record.leaving or read < MOST_READ):
                named = self._records.grants(record)
                grants = tuple(grant for grant in named if grant.pod not in self._withdrawn)
                read += len(record.text)
            touched |= self._named(record, beneficiary, grants, believed=believed)
        for name, node in touched:
            self.slices.hold(name, node)

    def _named(
        self, record: JobRecord, beneficiary: str, grants: Sequence[Grant], *, believed: bool
    ) -> Mapping[tuple[str, str], None]:
        """Make the pods of `grants` leave for `beneficiary` by a Job's record; promises of the record's other pods end.

        A pod that does not belong to the record's Job is left out, and is a fault of the record. With `believed`, the
        slices of a grant are promised even if its pod is gone or has ended. Returns (beneficiary, node) of each changed
        promise, as the keys of a mapping.
        """
        # First end old promises, then add new ones: slices that one promise gives up may go to another.
        touched = dict.fromkeys(
            (self.slices.leaving[uid].beneficiary, self.slices.leaving[uid].node) for uid in record.leaving
        )
        for uid in record.leaving - {grant.pod for grant in grants}:
            self.slices.drop(uid)
            record.leaving.discard(uid)
        others = []
        for grant in grants:
            leaving = self.slices.leaving.get(grant.pod)
            if leaving is not None and leaving.giver == record.uid:
                self.slices.drop(grant.pod)
                leaving.beneficiary, leaving.until = beneficiary, record.until
            elif self._of_another_job(record, grant.pod):
                others.append(grant.pod)
            else:
                leaving = self._taken(record, grant, beneficiary, believed=believed)
            if leaving is not None and grant.pod not in others:
                self._add(grant.pod, leaving, self._records.asked(record) if believed else "")
                record.leaving.add(grant.pod)
                touched[beneficiary, leaving.node] = None
        if others:
            self._records.fault(
                record, f"resize: pod {others[0]} is not of this Job: what it holds is not promised"
            )
        return touched

    def _reapply(self, uids: Iterable[str]) -> None:
        self._apply([record for record in map(self._records.get, uids) if record is not None])

    def _in_force(self, record: JobRecord) -> str:
        """The name of the job for which a Job's record keeps slices; empty if the record is not in force.

        A record is in force until it ends or is replaced. If the record gives a number of `replicas`, it also ends once
        this number of that job's pods were bound after the record's decision.
        """
        name, resize = self._records.taker(record), record.resize
        if not name or resize is None or self._records.get(record.uid) is not record:
            return ""
        if not resize.replicas:
            return name
        # Pods of a group that ran before the record was written do not count.
        asked = self._records.asked(record)
        bound = sum(not time or time > asked for time in self._bound_of(name).values())
        return "" if bound >= resize.replicas else name

    def _of_another_job(self, record: JobRecord, uid: str) -> bool:
        """True if the pod leaves by another Job's record already, or is known and belongs not to the record's Job."""
        pod = self._pods.get(uid)
        return uid in self.slices.leaving or (pod is not None and self._records.of(pod) is not record)

    def _taken(
        self, record: JobRecord, grant: Grant, beneficiary: str, *, believed: bool
    ) -> LeavingPod | None:
        """The pod of `grant`, with its slices, as a pod that leaves for `beneficiary`; None if it holds no slices.

        The ledger says which slices a pod holds. With `believed` two more cases count. A pod that has ended holds the
        slices of its own grant. A pod that is not known holds the slices of `grant`, unless this process has seen the
        pod go. Returns None too if MOST_LEAVING pods leave already.
        """
        uid, pod = grant.pod, self._pods.get(grant.pod)
        if len(self.slices.leaving) >= MOST_LEAVING:
            return None
        if pod is not None:
            held = self._ledger.grant(uid) or (_granted(pod) if believed else None)
        else:
            # A pod that came and went while this process watched is known as gone: its grant is not believed.
            held = grant if believed and not self._pods.is_gone(uid) else None
        if held is None:
            return None
        freed = self.slices.is_free(held.node, uid)
        return LeavingPod(record.uid, beneficiary, held.node, tuple(held.slices()), record.until, freed)

    def _add(self, uid: str, leaving: LeavingPod, asked: str) -> None:
        """Promise the slices of the pod `uid`: keep them for the job that `leaving` names as the beneficiary.

        `asked` is the time of the record's decision if this process has just started, else empty. Pods of the
        beneficiary that were bound after that time count as having taken promised slices.
        """
        self.first_end = min(self.first_end, leaving.until)
        if leaving.beneficiary not in self._bound:
            self._bound[leaving.beneficiary] = self._bound_of(leaving.beneficiary)
        self.slices.add(uid, leaving, partial(self._before, leaving, asked))

    def _before(self, leaving: LeavingPod, asked: str) -> frozenset[str]:
        """The UIDs of the pods of the job that gets the slices, if they have slices on the leaving pod's node already.

        If the time `asked` is not empty, only pods bound until that time count.
        """
        pods = map(self._pods.get, self.slices.holders(leaving.beneficiary, leaving.node))
        return frozenset(pod.uid for pod in pods if pod is not None and (not asked or pod.bound <= asked))

    # Pods of beneficiaries

    def _end(self, beneficiary: str) -> None:
        """Drop the times at which the beneficiary job's pods were bound, because its last promise has ended."""
        del self._bound[beneficiary]

    def _bound_of(self, beneficiary: str) -> dict[str, str]:
        """The time when each running pod of the job or group `beneficiary` was bound, by the pod's UID.

        The times are computed once, and then kept up to date while there are promises to the beneficiary.
        """
        known = self._bound.get(beneficiary)
        if known is not None:
            return known
        return {
            pod.uid: pod.bound
            for pod in self._pods.all()
            if _runs(pod) and self._records.beneficiary_of(pod) == beneficiary
        }

    def _count(self, uid: str) -> None:
        """Record the time at which the pod was bound; drop the time of a pod that no longer runs.

        After a new time, the promises to the pod's job end if enough pods of that job are bound.
        """
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
    """The grant of a bound pod; None if the pod has none or a malformed one."""
    try:
        return pod.grant() if pod.node else None
    except AnnotationError:
        return None
