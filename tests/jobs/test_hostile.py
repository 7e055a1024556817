"""Whatever a tenant writes on Jobs and pods, and changes later: no round and no answer ends by an exception."""

import gc
import json
import random
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from device_plugin.adapters.kube.jobs import read_job
from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import CHECKPOINT, MAX_INT, QUEUE, RESIZE, RESIZE_DROP
from device_plugin.core.contract.checkpoint import Checkpoint
from device_plugin.core.http_values import JSON, HttpRequest
from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.job import JobKey
from device_plugin.core.jobs.progress import ProgressReport, progress_of
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.node_constraints import NodeIndex, NodeTraits
from device_plugin.core.pods import Pod
from device_plugin.jobs.execute.executor import Executor
from device_plugin.jobs.execute.new_records import MOST_ASKED
from device_plugin.jobs.plan.fork import Fork, Free
from device_plugin.jobs.plan.states import round_input
from device_plugin.jobs.show.announcer import Announcer
from device_plugin.jobs.show.explain import JobExplainer
from device_plugin.jobs.show.gauges import JobGauges
from device_plugin.kube.api import Kind, Listed, Named, Object
from device_plugin.state.managed import Managed, planned
from tests.builders.cards import FAMILY, MEM
from tests.jobs.world import ONE_CARD, World

WORLDS, TURNS, NAMES = 6, 40, 12
# Jobs that are created and deleted again; the engine remembers the names of the last thousand.
JOBS = 400
WORDS = ("", "0", "-1", "9" * 400, "8h", "ordered", "٣", "x" * 300, "\n", "{}", "master", "hygon.com/dcu/a")
KEYS: Mapping[str, tuple[str, ...]] = {
    "min-replicas": ("1", "2"), "max-replicas": ("4", "16"), "split": ("ordered", "any"),
    "samples": ("1", "1000000000000"), "epochs": ("1", "90"), "duration": ("1s", "366d"), "model": ("resnet50", "m"),
    "expected-duration": ("1s", "366d"), "checkpoint-seconds": ("1", "3600"), "barrier": ("true",),
}  # fmt: skip
LABELS: tuple[Mapping[str, str], ...] = (
    {}, {}, {}, {"group": "g"}, {"group": "g", "role": "trainer"}, {"split-of": "s", "part": "1"},
)  # fmt: skip
SIZED = ("samples", "epochs", "duration", "model")
SETS = (
    (), ("min-replicas", "max-replicas"), ("split",), SIZED, ("expected-duration",),
    ("min-replicas", "max-replicas", "checkpoint-seconds"), tuple(KEYS),
)  # fmt: skip
PLACES: tuple[Mapping[str, Any], ...] = (
    {}, {}, {}, {"nodeSelector": {"kubernetes.io/hostname": "n1"}}, {"tolerations": [{"operator": "Exists"}] * 60},
    {"affinity": {"nodeAffinity": 5}}, {"nodeSelector": {f"key{n}": "" for n in range(400)}},
)  # fmt: skip


class Tenant:
    """Writes on the Jobs of a namespace whatever the API server takes, in an order that a seed decides."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.acts: tuple[Callable[[Job], object], ...] = (
            self.create, self.create, self.toggle, self.resize, self.succeed, self.remove_record, self.drop_record,
            self.leave_queue, self.invent_pod, self.delete_pods,
        )  # fmt: skip

    def act(self) -> None:
        name = f"j{self.rng.randrange(NAMES)}"
        job = self.world.api.jobs.get(("default", name))
        if job is None:
            self.world.api.put(self.written(name, self.world.api.uid(name)))
        else:
            self.rng.choice(self.acts)(job)
        told = progress_of(b"%d %d\n" % (self.rng.randrange(9), self.rng.choice((0, 8, 10**15))))
        self.world.tell(
            name, ProgressReport(told, self.rng.choice((0, 1, 10**15))), self.rng.choice((0, 0, 1))
        )

    def written(self, name: str, uid: str) -> Job:
        """A Job as the decoder reads it from JSON."""
        rng = self.rng
        asked = rng.choice(SETS)
        annotations = {f"vgpu.io/{key}": rng.choice(KEYS[key]) for key in asked}
        labels = {f"vgpu.io/{key}": text for key, text in rng.choice(LABELS).items()}
        if rng.random() < 0.1:
            rng.choice((annotations, labels))[f"vgpu.io/{rng.choice((*KEYS, 'pool', 'colour'))}"] = (
                rng.choice(WORDS)
            )
        # A Job that is to be sized is refused unless all of this is right.
        sized = asked == SIZED
        width = 1 if sized else rng.choice((0, 1, 1, 2, 4, 8, 2**31 - 1))
        completions = rng.choice((width, width, 40)) if width <= 8 else 3
        limits = (
            {FAMILY: 1} if sized else rng.choice(({FAMILY: 1}, {FAMILY: 1}, {MEM: "4"}, {}, {FAMILY: "-1"}))
        )
        pods = {
            "containers": [{"name": "main", "resources": {"limits": limits}}], "restartPolicy": "Never",
            "terminationGracePeriodSeconds": rng.choice((0, 30, 2**62)), **rng.choice(PLACES),
        }  # fmt: skip
        spec = {
            "suspend": rng.random() < 0.8, "parallelism": width, "completions": completions,
            "completionMode": "Indexed", "podReplacementPolicy": rng.choice(("Failed", "TerminatingOrFailed")),
            "template": {"spec": pods},
        }  # fmt: skip
        metadata = {
            "name": name, "namespace": "default", "uid": uid, "creationTimestamp": "2027-01-15T07:00:00Z",
            "labels": {QUEUE: rng.choice("ab"), **labels}, "annotations": annotations,
        }  # fmt: skip
        return read_job(json.dumps({"metadata": metadata, "spec": spec}).encode())

    def create(self, job: Job) -> None:
        """Write all of the Job anew, but for its record, which admission protects."""
        new = self.written(job.name, job.uid)
        record = {RESIZE: job.annotations[RESIZE]} if RESIZE in job.annotations else {}
        self.world.api.put(replace(new, annotations={**new.annotations, **record}))

    def toggle(self, job: Job) -> None:
        self.world.api.put(replace(job, suspend=not job.suspend))

    def resize(self, job: Job) -> None:
        width = self.rng.choice((0, 1, 2, 4))
        completions = self.rng.choice((width, job.completions))
        more = self.rng.choice((width, width, 2**31 - 1))
        self.world.api.put(replace(job, parallelism=more, completions=completions))

    def succeed(self, job: Job) -> None:
        self.world.api.put(replace(job, succeeded=self.rng.choice((0, 1, 2**31 - 1))))

    def remove_record(self, job: Job) -> None:
        kept = {key: text for key, text in job.annotations.items() if key != RESIZE}
        self.world.api.put(replace(job, annotations=kept))

    def drop_record(self, job: Job) -> None:
        number = str(self.rng.randrange(1, 9))
        self.world.api.put(replace(job, annotations={**job.annotations, RESIZE_DROP: number}))

    def leave_queue(self, job: Job) -> None:
        self.world.api.put(replace(job, labels={}))

    def invent_pod(self, job: Job) -> None:
        uid, index = self.world.api.uid("invented"), self.rng.choice((0, 0, None, 99_999))
        pod = Pod(
            "default", uid, uid, owner="Job", owner_name=job.name, owner_uid=job.uid, index=index,
            containers=ONE_CARD, created="2027-01-15T07:59:00Z",
        )  # fmt: skip
        self.world.api.put_pod(pod)

    def delete_pods(self, job: Job) -> None:
        ends = self.rng.choice(("2027-01-15T08:00:00Z", "11535-01-15T08:00:00Z"))
        for pod in self.world.of(job):
            self.world.api.put_pod(structs.replace(pod, deleting=True, ends=ends))


def hostile_worlds(rng: random.Random) -> Iterator[World]:
    """Worlds in which a tenant writes, after each turn."""
    for _ in range(WORLDS):
        rules = Rules(
            young_s=rng.choice((0, 600)),
            resumable=rng.random() < 0.5,
            quantum_s=rng.choice((60, 3600)),
            age_s=rng.choice((30, 3600)),
            use=rng.choice((0.8, 1.0)),
        )
        world = World(rng.choice((1, 4)), rules=rules, rates="resnet50 Z100 390")
        tenant = Tenant(world, rng)
        for _ in range(TURNS):
            for _ in range(rng.randrange(4)):
                tenant.act()
            world.lingers = rng.random() < 0.3
            world.quotas = {"default": 3} if rng.random() < 1 / 3 else {}
            world.now += rng.choice((0, 60, 400, 4000))
            if rng.random() < 0.05:
                world.restart()
            world.turn()
            yield world


def test_a_pod_that_never_finds_a_node_keeps_no_cards_from_others() -> None:
    """Its author may see to that, by an affinity or a volume: the Job would be about to start for ever."""
    world = World(4)
    world.queue("greedy", 4, 1, 4)
    world.kept_back = {"greedy-3"}
    world.settle(30)
    world.queue("other", 3)
    world.settle(120)
    assert (world.job("greedy").parallelism, world.job("other").suspend) == (1, False)


def test_an_index_that_succeeds_keeps_no_cards_from_others() -> None:
    """Its author may let it end at once: the Job keeps its width from then on, but not its cards."""
    world = World(4, rules=Rules(young_s=0.0, quantum_s=60, resumable=True))
    world.queue("greedy", 4, 1, 4)
    world.settle(2)
    world.succeed("greedy", 3)
    world.queue("small", 1)
    world.settle(3)
    assert not world.job("small").suspend, "the card of the index that ended is free"
    world.queue("other", 3)
    world.settle(30)
    assert (world.job("greedy").suspend, world.job("other").suspend) == (True, False)
    world.finish("other")
    world.finish("small")
    world.settle(3)
    greedy = world.job("greedy")
    assert (greedy.suspend, greedy.parallelism, greedy.completions) == (False, 4, 4)


def test_a_width_that_an_author_writes_and_whose_pods_never_come_keeps_no_cards_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The events that say why they do not come are never read, as where he has thousands of such Jobs."""
    world = World(cards=8)
    world.quotas["evil"] = 1
    evil = world.queue("evil", 1, 1, 64, namespace="evil", suspend=False)
    world.settle(4)
    world.queue("good", 2)
    world.api.put(replace(evil, parallelism=64, completions=64))
    monkeypatch.setattr(world.api, "list", lambda *_: Listed([]))
    world.settle(4)
    assert len(world.of(world.job("good"))) == 2


@pytest.mark.parametrize("written", ["note", "vgpu.io/expected-duration"])
def test_who_writes_his_job_all_the_time_keeps_nobody_waiting(written: str) -> None:
    """Whether a plan depends on what is written or not: every write of the engine meets another one."""
    world = World(4)
    world.queue("a", 1)
    world.queue("b", 1)

    def patch(kind: Kind[Any], of: Named, change: Object) -> Any:
        if of.name == "a":
            hours = f"{1 + int(world.now) % 90}h"
            world.api.put(replace(world.job("a"), annotations={**world.job("a").annotations, written: hours}))
        return world.api.land(kind, of, change)

    world.api.on_patch = patch
    world.settle(20)
    assert (world.job("a").suspend, world.job("b").suspend) == (True, False)


@pytest.mark.parametrize("gen", [1, 2, 3, 4, MOST_ASKED, MOST_ASKED + 1, MAX_INT])
@pytest.mark.parametrize("saves", [False, True])
def test_who_invents_a_request_for_a_checkpoint_gives_his_cards_all_the_same(gen: int, saves: bool) -> None:
    world = World(4)
    seconds = {"vgpu.io/checkpoint-seconds": "600"} if saves else {}
    bounds = {"vgpu.io/min-replicas": "1", "vgpu.io/max-replicas": "4"}
    world.queue("a", 4, annotations={**bounds, **seconds})
    world.settle(60)
    (pod,) = (pod for pod in world.of(world.job("a")) if pod.index == 0)
    invented = Checkpoint(gen, MAX_INT, 0).encode()
    world.api.put_pod(structs.replace(pod, annotations={**(pod.annotations or {}), CHECKPOINT: invented}))
    world.queue("b", 3)
    world.settle(120)
    assert (world.job("a").parallelism, world.job("b").suspend) == (1, False)


def test_who_gives_a_request_for_a_checkpoint_no_end_is_not_waited_for() -> None:
    world = World(4)
    bounds = {"vgpu.io/min-replicas": "1", "vgpu.io/max-replicas": "4", "vgpu.io/checkpoint-seconds": "600"}
    world.queue("a", 4, annotations=bounds)
    world.settle(60)

    def patch(kind: Kind[Any], of: Named, change: Object) -> Any:
        answer = world.api.land(kind, of, change)
        if of.name == "a" and not world.record("a").applied:
            first = next(pod for pod in world.of(world.job("a")) if pod.index == 0)
            endless = Checkpoint(world.record("a").gen, MAX_INT, 0).encode()
            world.api.put_pod(
                structs.replace(first, annotations={**(first.annotations or {}), CHECKPOINT: endless})
            )
        return answer

    world.api.on_patch = patch
    world.queue("b", 3)
    world.settle(90)
    assert world.job("a").parallelism == 4, "its program has the time that it needs"
    world.settle(30)
    assert (world.job("a").parallelism, world.job("b").suspend) == (1, False)


@pytest.mark.parametrize("how", ["removes", "drops", "resizes"])
def test_who_ends_what_is_under_way_again_and_again_gets_no_more_time(how: str) -> None:
    """He removes the record, ends it, or sets another width, while his program is waited for."""
    world = World(4)
    bounds = {"vgpu.io/min-replicas": "1", "vgpu.io/max-replicas": "4", "vgpu.io/checkpoint-seconds": "600"}
    world.queue("a", 4, annotations=bounds)
    world.settle(60)
    world.queue("b", 3)
    for turn in range(180):
        world.tell("a", ProgressReport())
        job = world.job("a")
        if turn % 4 == 3 and RESIZE in job.annotations and not world.record("a").applied:
            dropped = {**job.annotations, RESIZE_DROP: str(world.record("a").gen)}
            kept = {"removes": bounds, "drops": dropped}.get(how, job.annotations)
            now = {4: 3, 3: 4}[job.parallelism] if how == "resizes" else 4
            world.api.put(replace(job, annotations=kept, parallelism=now, completions=now))
        world.turn()
    assert (world.job("a").parallelism, world.job("b").suspend) == (1, False)


def test_who_writes_his_job_often_gives_its_cards_all_the_same() -> None:
    world = World(4)
    world.queue("a", 4, 1)
    world.settle(60)
    writes = 0

    def patch(kind: Kind[Any], of: Named, change: Object) -> Any:
        nonlocal writes
        writes += 1
        if of.name == "a" and writes % 3:
            world.api.put(world.job("a"))
        return world.api.land(kind, of, change)

    world.api.on_patch = patch
    world.queue("b", 3)
    world.settle(3)
    assert (world.job("a").parallelism, world.job("b").suspend) == (1, False)


@pytest.mark.no_cover
def test_jobs_that_come_and_go_leave_nothing_behind() -> None:
    """Each has constraints of its own, which differ from those of all Jobs before it, and as many as are looked at."""
    known, index = World(4).engine.known, NodeIndex([NodeTraits("n1", {"zone": "b"})])
    tracemalloc.start()
    for number in range(JOBS):
        if number == JOBS // 2:
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
        absent = [{"key": f"key-{number}-{each}", "operator": "DoesNotExist"} for each in range(200)]
        terms = {"nodeSelectorTerms": [{"matchExpressions": absent}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        metadata = {"name": "a", "namespace": "default", "uid": f"{number}", "labels": {QUEUE: "a"}}
        pods = {"containers": [], "affinity": affinity}
        known.see(read_job(json.dumps({"metadata": metadata, "spec": {"template": {"spec": pods}}}).encode()))
        assert index.allowed(known.managed()["default", "a"].spec.nodes) is None
        known.gone(f"{number}")
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / (JOBS / 2) < 1024, "bytes for each Job"


def test_no_round_and_no_answer_ends_by_an_exception(rng: random.Random) -> None:
    for number, world in enumerate(hostile_worlds(rng), 1):
        engine = world.engine
        # The events of each round are prepared by the thread that plans.
        wall = partial(getattr, world, "now")
        announcer = Announcer(world.api, engine.known, wall)  # type: ignore[arg-type]
        announcer.planned([engine.rounds], dispatches=True)
        assert list(JobGauges(engine.known, engine.planners, lambda: True, wall)())
        if number % TURNS:
            continue
        explain = JobExplainer(world.engine.known, world.engine.planners)
        for query in ("", *(f"job={'/'.join(key)}" for key in world.api.jobs)):
            for accepted in (JSON, "text/plain"):
                asked = HttpRequest("GET", "/explain", query, {"accept": accepted})
                assert explain(asked).status in (200, 404)


@pytest.mark.no_cover
def test_a_plan_depends_on_no_part_of_a_job_that_counts_as_no_change(rng: random.Random) -> None:
    for world in hostile_worlds(rng):
        jobs = world.engine.known.managed()
        bare = {key: replace(managed, job=planned(managed.job)) for key, managed in jobs.items()}
        assert decided(world, jobs) == decided(world, bare)


def decided(world: World, jobs: Mapping[JobKey, Managed]) -> object:
    """A round's results for the Jobs: their states, the plan and the first writes."""
    fork = Fork(world.engine.held)
    seen = round_input(world.now, jobs, fork)
    plan = plan_round(world.now, seen.states, seen.room, world.rules)
    due = Executor(world.now, jobs, Free(fork, jobs, world.now)).due(plan)
    return seen.states, plan, [(each.action, each.key, each.record, each.width) for each in due]
