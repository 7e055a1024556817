"""Whatever happens between any two writes: no job starts on cards that are not free, and all comes to rest."""

import random

import pytest

from device_plugin.core.jobs.job import JobKey
from device_plugin.core.jobs.plan import Admit, Plan, Scale, Step, Suspend
from device_plugin.jobs.stages import Stage, stage
from tests.effort import TIMES
from tests.jobs.execute.world import Cluster, Engine

CARDS, MOST, SEEDS = 8, 8, 20 * TIMES
QUIET = (Stage.NONE, Stage.OVER)


def _plan(rng: random.Random, engine: Engine) -> Plan:
    """Some steps, which may be nonsense by the time that they are carried out."""
    jobs = engine.view.managed()
    steps: dict[JobKey, Step] = {}
    waiting = [key for key, each in jobs.items() if each.waits]
    for key in rng.sample(waiting, min(len(waiting), rng.randint(0, 2))):
        steps[key] = Admit(key, rng.randint(1, 4))
    running = [key for key, each in jobs.items() if each.lives and not each.waits and key not in steps]
    for key in rng.sample(running, min(len(running), rng.randint(0, 3))):
        width = jobs[key].job.parallelism
        admitted = [step.job for step in steps.values() if isinstance(step, Admit)]
        match rng.randint(0, 2):
            case 0:
                steps[key] = Scale(key, width, rng.randint(width + 1, MOST + 1))
            case 1 if width > 1 and admitted:
                steps[key] = Scale(key, width, rng.randint(1, width - 1), rng.choice(admitted))
            case 2 if admitted:
                steps[key] = Suspend(key, rng.choice(admitted))
            case _:
                pass
    return Plan(tuple(steps.values()))


def _happen(rng: random.Random, cluster: Cluster, engine: Engine) -> Engine:
    """One thing, of anybody's doing; returns the engine that goes on."""
    what = rng.choices([_turn, _cluster, _hear, _time, _meddle], [25, 65, 25, 5, 4])[0]
    return what(rng, cluster, engine)


def _turn(rng: random.Random, cluster: Cluster, engine: Engine) -> Engine:
    """The engine carries a plan out, or dies before one of its writes, and another one takes over."""
    refused = [key for key in engine.view.managed() if rng.random() < 0.1]
    lives = engine.turn(_plan(rng, engine), rng.choice([None, None, 0, 1, 2, 3]), refused)
    return engine if lives else Engine(cluster)


def _cluster(rng: random.Random, cluster: Cluster, engine: Engine) -> Engine:
    """The Job controller, the allocator or a kubelet does something; seldom a pod fails or a Job ends."""
    jobs, pods = list(cluster.jobs), list(cluster.pods.values())
    unbound = [pod for pod in pods if not pod.node and not pod.deleting]
    ends = [pod for pod in pods if pod.deleting or rng.random() < 0.03]
    running = [key for key in jobs if not cluster.jobs[key].job.suspend and not cluster.jobs[key].job.ended]
    if jobs and rng.random() < 0.4:
        cluster.control(rng.choice(jobs))
    elif unbound and rng.random() < 0.5:
        cluster.bind(rng.choice(unbound))
    elif ends:
        cluster.end(rng.choice(ends))
    elif running and rng.random() < 0.1:
        cluster.succeed(rng.choice(running))
    return engine


def _hear(rng: random.Random, _: Cluster, engine: Engine) -> Engine:
    """Some of what has happened reaches the engine."""
    engine.view.catch_up(rng.randint(0, 9), rng.randint(0, 9))
    return engine


def _time(rng: random.Random, cluster: Cluster, engine: Engine) -> Engine:
    cluster.now += rng.choice([1.0, 10.0, 100.0])
    return engine


def _meddle(rng: random.Random, cluster: Cluster, engine: Engine) -> Engine:
    """A user creates, edits, stops or deletes a Job, or ends its record. The engine hears of it at once."""
    if len(cluster.jobs) < 5:
        cluster.create(f"job{len(cluster.writes)}-{len(cluster.jobs)}", rng.randint(1, 4))
        return engine
    key = rng.choice(list(cluster.jobs))
    match rng.randint(0, 4):
        case 0:
            width = rng.randint(1, 4)
            cluster.edit(key, parallelism=width, completions=width)
        case 1:
            cluster.edit(key, suspend=True)
        case 2:
            cluster.unrecord(key)
        case 3:
            cluster.drop(key)
        case 4:
            cluster.delete(key)
    engine.view.catch_up()
    return engine


def _settle(cluster: Cluster, engine: Engine) -> None:
    """Everybody does their part, and nobody wants anything more."""
    for _ in range(40):
        for key in list(cluster.jobs):
            cluster.control(key)
        for pod in list(cluster.pods.values()):
            if pod.deleting:
                cluster.end(pod)
            elif not pod.node:
                cluster.bind(pod)
        engine.view.catch_up()
        engine.turn(Plan())
        cluster.now += 10.0


@pytest.mark.no_cover
@pytest.mark.parametrize("block", range(3))
def test_no_job_starts_on_cards_that_are_not_free_and_all_comes_to_rest(block: int) -> None:
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        print(f"seed {seed}")
        rng = random.Random(seed)
        cluster = Cluster(CARDS)
        for number in range(4):
            cluster.create(f"first{number}", rng.randint(1, 4))
        engine = Engine(cluster)
        for _ in range(250):
            engine = _happen(rng, cluster, engine)
        _settle(cluster, engine)
        for key, seen in engine.view.managed().items():
            assert stage(seen, cluster.now) in QUIET, (key, seen)
        written = len(cluster.writes)
        _settle(cluster, engine)
        assert len(cluster.writes) == written, "at rest nothing is written"
