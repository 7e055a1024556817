"""An API server with Jobs, a Job controller, an allocator that keeps promises, and engines whose watches lag behind."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from device_plugin.core.batch import Job, JobCondition
from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.contract.resize import Resize
from device_plugin.core.jobs.job import JobKey
from device_plugin.core.jobs.plan import Plan
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.jobs.execute.executor import Executor
from device_plugin.jobs.execute.writes import Action, Write
from device_plugin.kube.errors import ConflictError, GoneError
from device_plugin.state.managed import Managed
from tests.builders.batch_jobs import replica, spec, waiting

CARD_MIB = 16368


@dataclass(frozen=True)
class Seen:
    """A Job, its record, and the past in its status, as one version had them."""

    job: Job
    record: Resize | None = None
    past: Resize | None = None


class Cluster:
    """The truth. Every replica of every Job takes one card of node n1, which has `cards`."""

    def __init__(self, cards: int) -> None:
        self.now = 1000.0
        self.cards = [f"n1-{number}" for number in range(cards)]
        self.jobs: dict[JobKey, Seen] = {}
        self.pods: dict[str, Pod] = {}
        self.writes: list[Write] = []
        self.watches: list[View] = []
        self._count = 0

    # What users and the API server do

    def create(self, name: str, width: int) -> JobKey:
        made = waiting(name, width, uid=self._next("job"))
        self._put(Seen(made))
        return made.namespace, made.name

    def edit(self, key: JobKey, **changed: object) -> None:
        seen = self.jobs[key]
        self._put(replace(seen, job=replace(seen.job, **changed)))  # type: ignore[arg-type]

    def unrecord(self, key: JobKey) -> None:
        self._put(replace(self.jobs[key], record=None))

    def drop(self, key: JobKey) -> None:
        """The Job's author ends what is under way."""
        seen = self.jobs[key]
        gen = str(seen.record.gen) if seen.record is not None else "1"
        self._put(replace(seen, job=replace(seen.job, annotations={annotations.RESIZE_DROP: gen})))

    def delete(self, key: JobKey) -> None:
        gone = self.jobs.pop(key)
        for watch in self.watches:
            watch.news.append((key, None))
        for pod in self.of(gone.job):
            self._put_pod(structs.replace(pod, deleting=True))

    def patch(self, write: Write) -> Seen:
        """What the API server does with a write; raises as the port does."""
        seen = self.jobs.get(write.key)
        if seen is None:
            raise GoneError("gone")
        if seen.job.version != write.managed.job.version:
            raise ConflictError("changed meanwhile")
        self._check(write, seen)
        job = seen.job
        if write.action in (Action.START, Action.STOP):
            job = replace(job, suspend=write.action is Action.STOP)
        if write.width is not None:
            job = replace(job, parallelism=write.width, completions=write.width)
        record, past = seen.record, seen.past
        if write.record is not None:
            assert all(before is None or write.record.gen >= before.gen for before in (record, past))
            record = _stored(write.record)
            past = _stored(write.record.past) if write.keeps else past
        self.writes.append(write)
        return self._put(Seen(job, record, past))

    def _check(self, write: Write, seen: Seen) -> None:
        """No job starts or grows on cards that are not free."""
        before = 0 if write.action is Action.START else seen.job.parallelism
        after = write.width or seen.job.parallelism
        if write.action not in (Action.START, Action.WIDTH) or after <= before:
            return
        held = sum(bool(pod.node) for pod in self.pods.values())
        others = sum(self._missing(each.job) for key, each in self.jobs.items() if key != write.key)
        own = sum(bool(pod.node) for pod in self.of(seen.job))
        assert len(self.cards) - held - others >= after - own, (_told(write), held, others)

    def _missing(self, job: Job) -> int:
        if job.suspend or job.ended:
            return 0
        return max(0, job.parallelism - sum(bool(pod.node) for pod in self.of(job)))

    # What the Job controller, the allocator and the kubelets do

    def control(self, key: JobKey) -> None:
        """The Job controller looks at a Job; podReplacementPolicy is Failed."""
        job = self.jobs[key].job
        if job.ended:
            return
        wanted = 0 if job.suspend else job.parallelism
        for pod in self.of(job):
            if pod.index is not None and pod.index >= wanted and not pod.deleting:
                self._put_pod(structs.replace(pod, deleting=True))
        existing = {pod.index for pod in self.of(job)}
        for index in set(range(wanted)) - existing:
            made = replica(
                job, index, node="", phase="Pending", containers=(Container("main", ContainerKind.MAIN, {}),)
            )
            self._put_pod(structs.replace(made, uid=self._next("pod")))
        self._report(key)

    def bind(self, pod: Pod) -> None:
        """The allocator places a pod, if there is a card that is not promised to another job."""
        mine = (pod.namespace, pod.owner_name)
        held, promised = _held(self.pods.values()), dict[str, JobKey]()
        for seen in self.jobs.values():
            promised |= _promises(seen, self.jobs, self.pods.values(), self.now)
        free = [card for card in self.cards if card not in held and promised.get(card, mine) == mine]
        if free:
            card = next((card for card in free if card in promised), free[0])
            text = grant(pod.uid, card).encode()
            self._put_pod(
                structs.replace(pod, node="n1", phase="Running", annotations={annotations.GRANT: text})
            )

    def end(self, pod: Pod) -> None:
        """The pod's containers have ended, and its object is gone."""
        del self.pods[pod.uid]
        for watch in self.watches:
            watch.pod_news.append((pod.uid, None))
        for key, seen in list(self.jobs.items()):
            if seen.job.uid == pod.owner_uid:
                self._report(key)

    def succeed(self, key: JobKey) -> None:
        """All pods of the Job have succeeded."""
        for pod in self.of(self.jobs[key].job):
            del self.pods[pod.uid]
            for watch in self.watches:
                watch.pod_news.append((pod.uid, None))
        self._report(key, (JobCondition("Complete"),))

    def of(self, job: Job) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.owner_uid == job.uid]

    def _report(self, key: JobKey, conditions: tuple[JobCondition, ...] = ()) -> None:
        """The Job controller writes the status, if it changed."""
        seen = self.jobs[key]
        pods = self.of(seen.job)
        status = replace(
            seen.job, active=sum(not pod.deleting for pod in pods), terminating=sum(pod.deleting for pod in pods),
            conditions=conditions or seen.job.conditions,
        )  # fmt: skip
        if status != seen.job:
            self._put(replace(seen, job=status))

    def _put(self, seen: Seen) -> Seen:
        key = seen.job.namespace, seen.job.name
        stored = self.jobs[key] = replace(seen, job=replace(seen.job, version=self._next("")))
        for watch in self.watches:
            watch.news.append((key, stored))
        return stored

    def _put_pod(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        for watch in self.watches:
            watch.pod_news.append((pod.uid, pod))

    def _next(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"


class View:
    """What one engine knows: two watches, each of them somewhere behind."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.jobs, self.pods = dict(cluster.jobs), dict(cluster.pods)
        self._records: dict[str, Resize] = {}
        self.news: deque[tuple[JobKey, Seen | None]] = deque()
        self.pod_news: deque[tuple[str, Pod | None]] = deque()
        cluster.watches = [self]

    def catch_up(self, jobs: int | None = None, pods: int | None = None) -> None:
        """Hear of so many changes; of all if nothing is said."""
        for _ in range(len(self.news) if jobs is None else min(jobs, len(self.news))):
            key, seen = self.news.popleft()
            if seen is None:
                self.jobs.pop(key, None)
            else:
                self.take(seen)
        for _ in range(len(self.pod_news) if pods is None else min(pods, len(self.pod_news))):
            uid, pod = self.pod_news.popleft()
            if pod is None:
                self.pods.pop(uid, None)
            else:
                self.pods[uid] = pod

    def take(self, seen: Seen) -> None:
        """News of a Job; old news is none."""
        key = seen.job.namespace, seen.job.name
        known = self.jobs.get(key)
        if known is None or int(known.job.version) <= int(seen.job.version):
            self.jobs[key] = seen
            if seen.record is not None:
                self._records[seen.job.uid] = seen.record

    def managed(self) -> Mapping[JobKey, Managed]:
        by_owner: dict[str, list[Pod]] = {}
        for pod in self.pods.values():
            by_owner.setdefault(pod.owner_uid, []).append(pod)
        return {
            key: Managed(
                job=seen.job, spec=spec(seen.job, dropped=_dropped(seen.job)),
                pods=tuple(by_owner.get(seen.job.uid, ())), record=self._record(seen), past=seen.past,
                lost=self._record(seen) is not seen.record,
            )
            for key, seen in self.jobs.items()
        }  # fmt: skip

    def _record(self, seen: Seen) -> Resize | None:
        """The record of the Job, the one that was seen on it before, or the one in its status."""
        found = (seen.record, self._records.get(seen.job.uid), seen.past)
        return max((each for each in found if each is not None), key=lambda each: each.gen, default=None)

    def trial(self) -> "CardTrial":
        return CardTrial(self)


class CardTrial:
    """The cards that nobody holds, expects or was promised, as one view has it."""

    def __init__(self, view: View) -> None:
        now = view.cluster.now
        held = _held(view.pods.values())
        self._promised: dict[str, JobKey] = {}
        for seen in view.jobs.values():
            self._promised |= _promises(seen, view.jobs, view.pods.values(), now)
        self._free = [card for card in view.cluster.cards if card not in held]
        for key, managed in view.managed().items():
            job = managed.job
            width = 0 if job.suspend or job.ended else job.parallelism
            expected = max(width, job.active + job.terminating) - sum(bool(pod.node) for pod in managed.pods)
            for _ in range(expected):
                self._expect(key)

    def _expect(self, key: JobKey) -> None:
        """A replica that was started and is not seen to be bound will take a card, whether one is left or not."""
        card = self._card(key)
        self._free.remove(card) if card is not None else self._free[:] and self._free.pop()

    def _card(self, key: JobKey) -> str | None:
        allowed = [card for card in self._free if self._promised.get(card, key) == key]
        return min(allowed, key=lambda card: card not in self._promised) if allowed else None

    def take(self, wanted: Mapping[JobKey, int]) -> bool:
        taken: list[str] = []
        for job in (job for job, count in wanted.items() for _ in range(count)):
            card = self._card(job)
            if card is None:
                self._free += taken
                return False
            self._free.remove(card)
            taken.append(card)
        return True

    def may_fit(self, job: JobKey, count: int) -> bool:
        free = list(self._free)
        found = self.take({job: count})
        self._free = free
        return found


class Engine:
    """One engine without memory: it looks, writes until nothing is due, and may die before any write."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.view = View(cluster)

    def turn(self, plan: Plan, writes: int | None = None, refused: Iterable[JobKey] = ()) -> bool:
        """Carry a plan out; false if it was killed because it had sent `writes` already.

        It has read that pods of the `refused` Jobs are refused, of which it may see all by now.
        """
        refusals = dict.fromkeys(refused, "exceeded quota: team")
        sent = 0
        for _ in range(10):
            jobs = {
                key: replace(each, refusal=refusals.get(key, "")) for key, each in self.view.managed().items()
            }
            due = Executor(self.cluster.now, jobs, self.view.trial()).due(plan)
            plan = Plan()
            if not due:
                return True
            for write in due:
                if sent == writes:
                    return False
                try:
                    self.view.take(self.cluster.patch(write))
                except (ConflictError, GoneError):
                    return True
                sent += 1
        raise AssertionError(
            f"it never comes to rest: {[_told(write) for write in self.cluster.writes[-20:]]}"
        )


def grant(pod: str, card: str) -> Grant:
    """A whole card."""
    return Grant(pod, "n1", {"main": (Slice(card, CARD_MIB, (0,)),)})


def _stored(record: Resize) -> Resize:
    return Resize.decode(record.encode())


def _dropped(job: Job) -> int:
    return int(job.annotations.get(annotations.RESIZE_DROP, "0"))


def _told(write: Write) -> str:
    return f"{write.action.value} {write.key[1]} {write.width} {write.record}"


def _held(pods: Iterable[Pod]) -> set[str]:
    """The cards that pods hold."""
    return {s.card for pod in pods if (made := pod.grant()) is not None for s in made.slices()}


def _promises(seen: Seen, jobs: Mapping[JobKey, Seen], pods: Iterable[Pod], now: float) -> dict[str, JobKey]:
    """By card: for which job a record keeps it, until as many of its pods are bound."""
    record = seen.record
    if record is None or record.beneficiary is None or now >= record.until or record.beneficiary not in jobs:
        return {}
    uid = jobs[record.beneficiary].job.uid
    if sum(bool(pod.node) for pod in pods if pod.owner_uid == uid) >= record.replicas > 0:
        return {}
    return {s.card: record.beneficiary for made in record.grants for s in made.slices()}
