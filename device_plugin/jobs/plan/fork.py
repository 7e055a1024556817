"""Forks (copies) of the ledger: one to plan with, one to try which replicas fit on the cards that are free now.

Both begin as the ledger of the cluster's view. Replicas that were started and are not bound yet are placed in both,
because they will take cards. In the fork for a plan, leaving pods hold nothing any more, and a job that other Jobs make
room for already holds its cards. In the fork for a trial, leaving pods still hold their cards.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from device_plugin.core.contract.grants import Grant
from device_plugin.core.jobs.job import EXACT, JobKey, JobSpec
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


class Fork:
    """A copy of the cluster's ledger with a placer; it is made once, and `renew` updates it for each use."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self.ledger = Ledger()
        self.placer = Placer(self.ledger)
        self.search = Search(self.ledger, self.placer)
        self._nodes = holdings.nodes()
        self._number = 0
        self.replicas: dict[JobKey, list[str]] = {}
        """By Job: the holders of its replicas, by index; a replica that runs in another pool holds nothing here.
        """
        # By Job and number: the request and the place of replicas that the last `renew` held room for.
        self._expected: dict[tuple[JobKey, int], tuple[PodRequest, Grant]] = {}

    def begin(self, jobs: Iterable[Managed]) -> None:
        """Set a new budget for the search for room; the users of these jobs that seek room share the budget."""
        self.search.begin({job.spec.user for job in jobs if job.seeks})

    def renew(self, jobs: Collection[Managed], now: float) -> None:
        """Copy the present ledger, and hold slices for replicas that were started and have no slices yet.

        A replica that does not fit holds none, and the later replicas of its Job are left out too.
        """
        self._nodes = self._holdings.nodes()
        self.ledger.restore(self._holdings.snapshot())
        self.replicas = {
            job.key: [pod.uid for pod in job.pods if pod.node or self.ledger.holding(pod.uid)] for job in jobs
        }
        # A split may have 100,000 pods at a time: for pods without cards no room is held.
        asking = [job for job in jobs if job.spec.cards]
        unadmitted = Unadmitted(asking)
        before, self._expected = self._expected, {}
        for job in asking:
            coming = expected(job, now)
            # If not all replicas fit, room is held for those that do: they already wait for the others.
            for number in range(coming.admitted + unadmitted.let(job, coming.others)):
                ((each, _),) = job.spec.dealt(len(self.replicas[job.key]), 1)
                grant = self._held_again(job, each, before.get((job.key, number))) or self._taken(job)
                if grant is None:
                    break
                self._expected[job.key, number] = each.request, grant

    def _held_again(
        self, job: Managed, asked: JobSpec, last: tuple[PodRequest, Grant] | None
    ) -> Grant | None:
        """Hold a replica of the job at the place that the previous `renew` found for it, which is `last`.

        `asked` is the spec of the replica's set. Returns the replica's grant; None if the replica asks for something
        else now, or no longer fits there.
        """
        if last is None or last[0] != asked.request:
            return None
        grant = msgspec.structs.replace(last[1], pod=self._name(job))
        nodes = self._nodes.allowed(asked.nodes)
        if (nodes is not None and grant.node not in nodes) or not _fits(self.ledger, grant, asked.request):
            return None
        self.ledger.hold(grant, asked.request.host)
        self.replicas.setdefault(job.key, []).append(grant.pod)
        return grant

    def _taken(self, job: Managed) -> Grant | None:
        made = self._take(job, 1)
        return made[0] if made else None

    def take(self, job: Managed, count: int) -> bool:
        """Hold `count` further replicas of the job, all or none; false if they do not fit.

        Slices that are promised to the job are free for these replicas.
        """
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
        """Keep the promised slices that the new grants `made` did not take, for other Jobs of the same group."""
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
        """Hold the given number of further replicas of each of the jobs, all or none; false if they do not fit.

        Without `keep` nothing is held; the answer only says whether they fit.
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
        """True if `count` further replicas of the job fit now; no slice is held.

        Slices that are promised to the job are free for these replicas.
        """
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
        held = len(self.replicas.get(job.key, ()))
        made = self.search.take_sets(job.spec, held, names, lambda each: self._nodes.allowed(each.nodes))
        if made is not None:
            self.replicas.setdefault(job.key, []).extend(names)
        return made

    def _name(self, job: Managed) -> str:
        """A name under which slices are held for a replica without a pod; it has a slash, which no pod's UID has."""
        self._number += 1
        return f"{'/'.join(job.key)}/expected-{self._number}"

    def leave(self, job: Managed, width: int, *, ends: bool) -> None:
        """Remove the replicas of a job beyond `width`; release their slices too if their pods end (`ends`)."""
        held = self.replicas.get(job.key, [])
        going = {pod.uid for pod in job.leaving(width)}
        stay = [holder for holder in held if holder not in going][:width]
        for holder in held:
            if ends and holder not in stay:
                self.ledger.release(holder)
        self.replicas[job.key] = stay

    def room(self) -> LedgerRoom:
        """The room that the job engine plans with: the cards, replicas and nodes of this fork."""
        return LedgerRoom(self.ledger, self.placer, self.replicas, self._nodes, self.search)


def _fits(ledger: Ledger, grant: Grant, request: PodRequest) -> bool:
    """True if the grant of this request could be placed now: the node serves, and nothing else holds its slices."""
    node, host = ledger.node(grant.node), request.host
    if node is None or not node.serving or any(node.card(s.card) is None for s in grant.slices()):
        return False
    left = node.left
    enough = left.cpu_milli >= host.cpu_milli and left.memory_mib >= host.memory_mib
    if not enough or (host.disk_mib and left.disk_mib < host.disk_mib):
        return False
    return ledger.fits_still(grant) and not ledger.in_the_way(grant)


class Free:
    """Finds for the executor which replicas fit on the cards that are free now, in a fork that is updated only once."""

    def __init__(self, fork: Fork, jobs: Mapping[JobKey, Managed], now: float) -> None:
        self._fork = fork
        self._jobs = jobs
        fork.renew(jobs.values(), now)

    def take(self, wanted: Mapping[JobKey, int]) -> bool:
        """Hold further replicas of these jobs, all together; returns false and holds nothing if they do not fit."""
        return self._fork.take_together((self._jobs[job], count) for job, count in wanted.items())

    def may_fit(self, job: JobKey, count: int) -> bool:
        """False if it is certain that `count` further replicas do not fit; true too if the user's budget is used up."""
        managed = self._jobs[job]
        return self._fork.fits(managed, count) or self._fork.search.used_up(managed.spec.user)


class Expected(NamedTuple):
    """The numbers of a Job's replicas that will take cards and hold none yet.

    `admitted` replicas are within the width that the engine lets run. `others` are pods beyond that width, for example
    because the Job's author wrote a larger width.
    """

    admitted: int = 0
    others: int = 0


class Unadmitted:
    """Limits the cards that are kept free for pods that the engine has not admitted.

    The limit is the number of cards that the pods' namespace holds, but at least one card. Without the limit a tenant
    could keep all idle cards from others by creating pods that stay pending.
    """

    def __init__(self, jobs: Iterable[Managed]) -> None:
        held = dict[str, float]()
        for job in jobs:
            bound = sum(bool(pod.node) for pod in job.pods)
            held[job.key[0]] = held.get(job.key[0], 0.0) + bound * job.spec.cards
        self._left = {namespace: max(1.0, cards) for namespace, cards in held.items()}

    def let(self, job: Managed, count: int) -> int:
        """The number of the Job's pods for which cards are kept free: `count`, or fewer if the limit allows fewer.

        These cards are subtracted from what the limit leaves to the Job's namespace.
        """
        namespace, cards = job.key[0], job.spec.cards
        expected = min(count, int(self._left[namespace] / cards + EXACT))
        self._left[namespace] -= expected * cards
        return expected


def expected(job: Managed, now: float) -> Expected:
    """The replicas of a Job that will take cards, and hold none yet.

    Pods that the Job controller counts and our watch has not shown yet are included, and so are pods of a stopped Job
    that have not ended. Replicas without a pod count only up to the width that the engine lets run: pods of a width
    that somebody else wrote may never come. Two kinds of pods do not count. A pod that has waited for PLACE_SECONDS is
    kept by something other than cards, such as its affinity to other pods. A pod that the API server refuses does not
    come.
    """
    if not job.lives:
        return Expected()
    width = min(job.created if job.refused else job.due, job.admitted)
    counted = [pod for pod in job.pods if pod.node or now - seconds(pod.created, now) >= PLACE_SECONDS]
    # Pods that are replaced before their end hold cards in addition to the new pods.
    staying = counted if job.waits_for_ends else [pod for pod in counted if not pod.deleting]
    admitted = max(0, width - len(staying))
    there, ending = job.created, job.job.terminating
    pods = max(width, there + ending) if job.waits_for_ends else max(width, there) + ending
    return Expected(admitted, max(0, pods - len(counted) - admitted))
