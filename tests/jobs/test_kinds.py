"""JobSets, RayJobs and the other kinds in one queue with Jobs: they start whole, in order, and stop as Jobs do."""

import random
from dataclasses import replace

import pytest
from msgspec import structs

from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import HOLD, RESIZE
from device_plugin.core.contract.resize import Resize, api_time
from device_plugin.core.jobs.plan import Refuse
from device_plugin.core.jobs.spec import PriorityClass
from device_plugin.core.workload_kinds import (
    JOB,
    JOB_SET,
    MPI_JOB,
    PYTORCH_JOB,
    RAY_CLUSTER,
    RAY_JOB,
    TRAIN_JOB,
    WorkloadKind,
)
from tests.builders.workloads import DIFFERING, KINDS, workload
from tests.effort import SEED, TIMES
from tests.jobs.kinds_world import KindsWorld

# `VGPU_TEST_TIMES=5` makes 200 mixes, which take about 15 s; `hack/nightly random` makes 400.
MIXES, TURNS = 40 * TIMES, 16


def record(job: Job) -> Resize:
    return Resize.decode(job.annotations[RESIZE])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_it_starts_whole_by_its_suspend_alone(kind: WorkloadKind) -> None:
    world = KindsWorld()
    job = world.submit(kind, "a", ((3, 2),))
    world.settle()
    started = world.found(kind, "a")
    assert (started.suspend, world.bound(started), record(started).after) == (False, 3, 3)
    ((name, change),) = [each for each in world.api.patches if each[0] == job.name]
    wanted: object = False
    for field in reversed(kind.suspend):
        wanted = {field: wanted}
    assert (name, change["spec"]) == ("a", wanted)
    assert change["metadata"].keys() == {"resourceVersion", "annotations"}


@pytest.mark.parametrize("kind", DIFFERING, ids=lambda kind: kind.name)
def test_it_waits_until_there_is_room_for_all_of_its_different_pods(kind: WorkloadKind) -> None:
    world = KindsWorld()
    first = world.queue("first", 8)
    world.settle()
    # Two pods of a card fit beside the Job, the third one of three cards does not.
    world.submit(kind, "a", ((2, 1), (1, 3)))
    world.settle()
    assert world.found(kind, "a").suspend
    world.finish(first.name)
    world.settle()
    started = world.found(kind, "a")
    assert not started.suspend
    assert world.bound(started) == 3


def test_room_on_several_nodes_is_no_room_for_a_pod_of_many_cards() -> None:
    world = KindsWorld(cards=2)
    world.submit(JOB_SET, "wide", ((1, 1), (1, 3)))
    world.settle()
    assert world.found(JOB_SET, "wide").suspend
    assert [step.job for step in world.engine.rounds.last.plan.steps] == [("default", "jobset/wide")]
    assert isinstance(world.engine.rounds.last.plan.steps[0], Refuse)


def test_kinds_and_jobs_take_their_turns_in_one_queue() -> None:
    world = KindsWorld()
    world.submit(RAY_JOB, "one", ((3, 4),))
    world.settle()
    names = [(PYTORCH_JOB, "two"), (JOB, "three"), (JOB_SET, "four"), (MPI_JOB, "five")]
    for kind, name in names:
        world.now += 1
        if kind is JOB:
            world.queue(name, 12, created=api_time(world.now))
        else:
            world.submit(kind, name, ((3, 4),))
    world.settle(3)
    order = []
    for _ in names:
        for job in [each for each in world.api.jobs.values() if not each.suspend and not each.ended]:
            world.end(job)
        world.settle(4)
        order += [job.key[1] for job in world.api.jobs.values() if not job.suspend and not job.ended]
    assert order == ["pytorchjob/two", "three", "jobset/four", "mpijob/five"]


def test_a_job_and_a_jobset_of_one_name_are_two() -> None:
    world = KindsWorld()
    world.queue("a", 2)
    world.submit(JOB_SET, "a", ((2, 2),))
    world.settle()
    assert not world.job("a").suspend
    assert not world.found(JOB_SET, "a").suspend


def test_it_stops_for_a_higher_priority_and_goes_on_later() -> None:
    world = KindsWorld()
    world.priorities["high"] = PriorityClass(1000)
    world.submit(JOB_SET, "low", ((2, 4), (2, 2)))
    world.settle()
    assert world.bound(world.found(JOB_SET, "low")) == 4
    high = world.submit(RAY_CLUSTER, "high", ((3, 4),), priorityClassName="high")
    world.settle(30)
    assert world.found(JOB_SET, "low").suspend
    assert record(world.found(JOB_SET, "low")).beneficiary == ("default", "raycluster/high")
    assert world.bound(world.found(RAY_CLUSTER, "high")) == 3
    world.api.jobs.pop(high.key)
    for pod in world.of(high):
        world.api.remove_pod(pod)
    world.engine.known.gone(high.uid)
    world.settle(30)
    again = world.found(JOB_SET, "low")
    assert (again.suspend, world.bound(again)) == (False, 4)
    assert record(again).attained > 0


def test_a_new_engine_goes_on_from_the_objects_alone() -> None:
    world = KindsWorld()
    world.submit(JOB_SET, "a", ((2, 4),))
    world.cut = True
    world.settle(2)
    assert not world.found(JOB_SET, "a").suspend
    world.restart()
    # Its pods hold nothing yet, and their cards are not given to another.
    world.submit(PYTORCH_JOB, "b", ((2, 4),))
    world.settle(3)
    assert world.found(PYTORCH_JOB, "b").suspend
    world.cut = False
    world.settle(3)
    assert world.bound(world.found(JOB_SET, "a")) == 2


def test_pods_that_have_succeeded_are_not_expected_again() -> None:
    world = KindsWorld()
    job = world.submit(JOB_SET, "a", ((3, 4),))
    world.settle()
    done = next(iter(world.of(job)))
    world.api.put_pod(structs.replace(done, phase="Succeeded"))
    world.submit(TRAIN_JOB, "b", ((1, 4),))
    world.settle()
    assert not world.found(TRAIN_JOB, "b").suspend


def test_its_author_holds_it_and_lets_it_go_on() -> None:
    world = KindsWorld()
    world.submit(RAY_CLUSTER, "a", ((2, 2),))
    world.settle()
    job = world.found(RAY_CLUSTER, "a")
    world.api.put(replace(job, annotations={**job.annotations, HOLD: "true"}))
    world.settle(4)
    held = world.found(RAY_CLUSTER, "a")
    assert held.suspend
    world.api.put(replace(held, annotations={**held.annotations, HOLD: "false"}))
    world.settle()
    assert world.bound(world.found(RAY_CLUSTER, "a")) == 2


def test_a_workload_whose_controller_makes_no_pods_gives_its_cards_back() -> None:
    world = KindsWorld()
    world.makes = False
    world.submit(JOB_SET, "a", ((3, 4),))
    world.settle(3)
    assert not world.found(JOB_SET, "a").suspend
    waits = world.queue("b", 12, created=api_time(world.now))
    world.settle(4)
    assert world.job(waits.name).suspend
    world.settle(14)
    stopped = world.found(JOB_SET, "a")
    assert stopped.suspend
    assert "its controller has made 0 of 3 in 60 s" in record(stopped).refusal
    assert not world.job(waits.name).suspend


def test_a_child_of_a_queued_workload_is_not_managed_twice() -> None:
    world = KindsWorld()
    parent = world.submit(TRAIN_JOB, "a", ((2, 2),))
    child = replace(
        workload(JOB_SET, "a", ((2, 2),), suspend=False), owner="TrainJob", owner_name="a", owner_uid=parent.uid,
        uid="uid-child",
    )  # fmt: skip
    world.api.put(child)
    assert world.engine.known.managed().keys() == {("default", "trainjob/a")}


def test_nothing_is_half_started_in_random_mixes() -> None:
    """A started workload has all of its pods bound; if there is no room for all, it is not started."""
    for seed in range(MIXES):
        _Mix(seed).run()


class _Mix:
    """A queue of workloads of random kinds, sizes and priorities, whose ends, deletions and engines are random too."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"{SEED}{seed}")
        self.seed = seed
        self.world = KindsWorld()
        self.world.priorities |= {"high": PriorityClass(10), "low": PriorityClass(-10)}
        self.names = 0

    def run(self) -> None:
        for _ in range(TURNS):
            self._something()
            self.world.turn(self.chance.choice((1.0, 6.0, 70.0)))
            self.world.cluster()
            self._check()
        # Every workload that ever fits runs in the end.
        for _ in range(24):
            for job in [each for each in self.world.api.jobs.values() if not (each.suspend or each.ended)]:
                self.world.end(job)
            self.world.turn(30.0)
            self.world.cluster()
            self._check()
        waiting = [job.key for job in self.world.api.jobs.values() if job.suspend and not job.ended]
        assert not waiting, f"mix {self.seed}: {waiting} never started"

    def _something(self) -> None:
        running = [each for each in self.world.api.jobs.values() if not (each.suspend or each.ended)]
        do = self.chance.random()
        if do < 0.5:
            self._submit()
        elif do < 0.75 and running:
            self.world.end(self.chance.choice(running))
        elif do < 0.8 and running:
            # Its author stops it.
            self.world.api.put(replace(self.chance.choice(running), suspend=True))
        elif do < 0.9:
            self.world.restart()

    def _submit(self) -> None:
        self.names += 1
        kind = self.chance.choice((JOB, *KINDS))
        if kind is JOB:
            self.world.queue(f"w{self.names}", self.chance.randint(1, 6))
            return
        count = 1 if kind is TRAIN_JOB else self.chance.randint(1, 3)
        sets = [(self.chance.randint(1, 2), self.chance.randint(1, 2)) for _ in range(count)]
        priority = {"priorityClassName": self.chance.choice(("high", "low", "low", ""))}
        more = {} if kind is TRAIN_JOB or not priority["priorityClassName"] else priority
        self.world.submit(kind, f"w{self.names}", sets, **more)

    def _check(self) -> None:
        held = [s.card for pod in self.world.api.pods.values() if (g := pod.grant()) for s in g.slices()]
        assert len(held) == len(set(held))
        for job in self.world.api.jobs.values():
            if job.kind is not JOB and not job.ended:
                bound = self.world.bound(job)
                whole = 0 if job.suspend else job.width
                assert bound == whole, f"mix {self.seed}: {bound} of {job.width} pods of {job.key} run"
