"""Forks of the ledger: what is really free now, and what the job engine may plan with.

Both begin as the ledger of the allocator's view. Replicas that were started and are not bound yet are placed in both,
because they will take cards. In a plan, pods that are about to leave hold nothing any more, and a job that others give
way to holds its cards already; in a trial of what is free now, both wait.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from device_plugin.core.contract.grants import Grant
from device_plugin.core.jobs.job import JobKey
from device_plugin.core.jobs.promise import kept
from device_plugin.core.jobs.room import LedgerRoom
from device_plugin.core.jobs.search import Search
from device_plugin.core.ledger import Holding, Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.requests import PodRequest
from device_plugin.core.timestamps import seconds
from device_plugin.jobs.ports import Holdings
from device_plugin.state.managed import Managed

# Seconds in which a pod for which there are cards is bound: a scheduler's backoff is less.
PLACE_SECONDS = 60.0
# Shares of cards are added up: what exceeds a number by less is no more than it.
EXACT = 1e-9


class Fork:
    """A ledger of its own with a placer over it, which catches up with the view's ledger; made once, used again."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self.ledger = Ledger()
        self.placer = Placer(self.ledger)
        self.search = Search(self.ledger, self.placer)
        self._nodes = holdings.nodes()
        self._number = 0
        self.replicas: dict[JobKey, list[str]] = {}
        """By Job: the holders of its replicas, in the order of their indexes; those in another pool hold nothing."""
        # By Job and number: where replicas were expected to come the last time.
        self._expected: dict[tuple[JobKey, int], tuple[PodRequest, Grant]] = {}

    def begin(self, jobs: Iterable[Managed]) -> None:
        """Start the next look for room, with a budget that the users of these jobs share."""
        self.search.begin({job.spec.user for job in jobs if job.seeks})

    def renew(self, jobs: Collection[Managed], now: float) -> None:
        """Take over the ledger as it is now, with all replicas that were started."""
        self._nodes = self._holdings.nodes()
        self.ledger.restore(self._holdings.snapshot())
        self.replicas = {
            job.key: [pod.uid for pod in job.pods if pod.node or self.ledger.holding(pod.uid)] for job in jobs
        }
        # A split may be written with 100,000 pods at a time: of those without cards nothing is to be held.
        asking = [job for job in jobs if job.spec.cards]
        unadmitted = Unadmitted(asking)
        before, self._expected = self._expected, {}
        for job in asking:
            coming = expected(job, now)
            # Where they do not fit at once, each that fits takes its room: they wait for the rest already.
            for number in range(coming.admitted + unadmitted.let(job, coming.others)):
                grant = self._held_again(job, before.get((job.key, number))) or self._taken(job)
                if grant is None:
                    break
                self._expected[job.key, number] = job.spec.request, grant

    def _held_again(self, job: Managed, last: tuple[PodRequest, Grant] | None) -> Grant | None:
        """Hold a replica of the job where it was found to fit the last time, if it still does."""
        if last is None or last[0] != job.spec.request:
            return None
        grant = msgspec.structs.replace(last[1], pod=self._name(job))
        nodes = self._nodes.allowed(job.spec.nodes)
        if (nodes is not None and grant.node not in nodes) or not _fits(self.ledger, grant, job.spec.request):
            return None
        self.ledger.hold(grant, job.spec.request.host)
        self.replicas.setdefault(job.key, []).append(grant.pod)
        return grant

    def _taken(self, job: Managed) -> Grant | None:
        made = self._take(job, 1)
        return made[0] if made else None

    def take(self, job: Managed, count: int) -> bool:
        """Hold `count` further replicas of the job, all or none; what is promised to it is free for it alone."""
        return not job.spec.cards or self._take(job, count) is not None

    def _take(self, job: Managed, count: int) -> Sequence[Grant] | None:
        with self.ledger.transaction() as change:
            promised = self._holdings.release_promised(job.job, self.ledger)
            made = self._placed(job, count)
            if made is None:
                return None
            for holding in promised:
                self._keep_rest(holding, made)
            change.commit()
        return made

    def _keep_rest(self, promised: Holding, made: Sequence[Grant]) -> None:
        """Hold again what `made` leaves of a promise: other Jobs of the group need it."""
        node = self.ledger.node(promised.node)
        if node is None or promised.grant is None:
            return
        taken = [s for grant in made if grant.node == promised.node for s in grant.slices()]
        left = kept(promised.grant.slices(), taken, {card.card.uuid: card for card in node.cards})
        if left:
            containers = dict.fromkeys(promised.grant.containers, left)
            rest = msgspec.structs.replace(promised.grant, containers=containers)
            self.ledger.put(replace(promised, grant=rest))

    def take_together(self, wanted: Iterable[tuple[Managed, int]], *, keep: bool = True) -> bool:
        """Hold this number of further replicas of each of the jobs, all or none.

        Without `keep` nothing changes: the answer is whether they would fit.
        """
        jobs = list(wanted)
        held = {job.key: list(self.replicas.get(job.key, ())) for job, _ in jobs}
        with self.ledger.transaction() as change:
            fitting = all(self.take(job, count) for job, count in jobs)
            if fitting and keep:
                change.commit()
                return True
        self.replicas |= held
        return fitting

    def fits(self, job: Managed, count: int) -> bool:
        """True if `count` further replicas of the job would fit now; nothing is held."""
        if not job.spec.cards:
            return True
        held = list(self.replicas.get(job.key, ()))
        with self.ledger.transaction():
            self._holdings.release_promised(job.job, self.ledger)
            found = self._placed(job, count) is not None
        self.replicas[job.key] = held
        return found

    def _placed(self, job: Managed, count: int) -> Sequence[Grant] | None:
        names = [self._name(job) for _ in range(count)]
        made = self.search.take(job.spec, names, self._nodes.allowed(job.spec.nodes))
        if made is not None:
            self.replicas.setdefault(job.key, []).extend(names)
        return made

    def _name(self, job: Managed) -> str:
        """A holder's name for a replica that does not exist yet; no pod's UID has a slash."""
        self._number += 1
        return f"{'/'.join(job.key)}/expected-{self._number}"

    def leave(self, job: Managed, width: int, *, ends: bool) -> None:
        """Release what the replicas of a job hold for which `width` has no place, if they are about to end."""
        held = self.replicas.get(job.key, [])
        going = {pod.uid for pod in job.leaving(width)}
        stay = [holder for holder in held if holder not in going][:width]
        for holder in held:
            if ends and holder not in stay:
                self.ledger.release(holder)
        self.replicas[job.key] = stay

    def room(self) -> LedgerRoom:
        """The room of the job engine in this fork."""
        return LedgerRoom(self.ledger, self.placer, self.replicas, self._nodes, self.search)


def _fits(ledger: Ledger, grant: Grant, request: PodRequest) -> bool:
    """True if nothing is in the way of the grant of this request now."""
    node, host = ledger.node(grant.node), request.host
    if node is None or not node.serving or any(node.card(s.card) is None for s in grant.slices()):
        return False
    left = node.left
    enough = left.cpu_milli >= host.cpu_milli and left.memory_mib >= host.memory_mib
    if not enough or (host.disk_mib and left.disk_mib < host.disk_mib):
        return False
    return ledger.fits_still(grant) and not ledger.in_the_way(grant)


class Free:
    """The trial of the executor: what is free now."""

    def __init__(self, fork: Fork, jobs: Mapping[JobKey, Managed], now: float) -> None:
        self._fork = fork
        self._jobs = jobs
        fork.renew(jobs.values(), now)

    def take(self, wanted: Mapping[JobKey, int]) -> bool:
        """Hold further replicas of these jobs, all together; false, and nothing changes, if they do not fit."""
        return self._fork.take_together((self._jobs[job], count) for job, count in wanted.items())

    def may_fit(self, job: JobKey, count: int) -> bool:
        """False if `take` would not hold them, and that is certain; nothing changes."""
        managed = self._jobs[job]
        return self._fork.fits(managed, count) or self._fork.search.used_up(managed.spec.user)


class Expected(NamedTuple):
    """The replicas of a Job that take cards in addition to the pods that hold some.

    `admitted` are those that the engine lets run, and `others` pods beyond them, as of a width that an author wrote.
    """

    admitted: int = 0
    others: int = 0


class Unadmitted:
    """The cards that pods which nobody admitted are expected to take: in a namespace no more than it holds, or one.

    Otherwise a tenant whose pods stay pending keeps all idle cards from others, for as long as he creates more.
    """

    def __init__(self, jobs: Iterable[Managed]) -> None:
        held = dict[str, float]()
        for job in jobs:
            bound = sum(bool(pod.node) for pod in job.pods)
            held[job.key[0]] = held.get(job.key[0], 0.0) + bound * job.spec.cards
        self._left = {namespace: max(1.0, cards) for namespace, cards in held.items()}

    def let(self, job: Managed, count: int) -> int:
        """The number of such pods of the Job that are expected, of `count`; they are part of its namespace's share."""
        namespace, cards = job.key[0], job.spec.cards
        expected = min(count, int(self._left[namespace] / cards + EXACT))
        self._left[namespace] -= expected * cards
        return expected


def expected(job: Managed, now: float) -> Expected:
    """The replicas of a Job for which room is held.

    Replicas that do not exist are expected only up to the width that the engine lets run: pods of a width that somebody
    else wrote may never come. The Job controller's counts are in it: our watch of pods may be behind, and pods of a Job
    that was stopped live on. Pods that have waited for PLACE_SECONDS are not: something else keeps them, such as their
    affinity to other pods, and the cards that are free are of use to other jobs. Nor are pods that the API server
    refuses to create.
    """
    if not job.lives:
        return Expected()
    width = min(job.created if job.refused else job.due, job.admitted)
    counted = [pod for pod in job.pods if pod.node or now - seconds(pod.created, now) >= PLACE_SECONDS]
    # Pods that are replaced before they have ended hold cards in addition to the new pods.
    staying = counted if job.waits_for_ends else [pod for pod in counted if not pod.deleting]
    admitted = max(0, width - len(staying))
    there, ending = job.created, job.job.terminating
    pods = max(width, there + ending) if job.waits_for_ends else max(width, there) + ending
    return Expected(admitted, max(0, pods - len(counted) - admitted))
