"""A planner for each pool: jobs go to one pool each, and replicas may die at any time."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import POOL, RESTRICTED_POOL
from device_plugin.core.contract.resize import api_time
from device_plugin.core.jobs import pools
from device_plugin.core.node_constraints import NodeConstraints, Operator, Requirement
from device_plugin.jobs.pools.dispatcher import QUIET_SECONDS, SETTLED_SECONDS
from tests.jobs.pools.world import PoolsWorld
from tests.jobs.world import World

FOUR = {"n1": "w", "n2": "x", "n3": "y", "n4": "z"}
TWO = {"n1": "w", "n2": "x"}
FAMILY = "hygon.com/dcu"
# The first letter of jobs that fit all pools.
ANY = "j"


def only(pool: str, key: str = POOL) -> NodeConstraints:
    return NodeConstraints((Requirement(key, Operator.IN, (pool,)),))


def settle(world: PoolsWorld, turns: int = 12) -> None:
    for _ in range(turns):
        world.turn()


def nodes(world: PoolsWorld, name: str) -> set[str]:
    return {pod.node for pod in world.of(world.job(name))}


def test_each_pool_starts_its_own_jobs_without_further_writes() -> None:
    world = PoolsWorld(FOUR)
    for pool in "wxyz":
        world.queue(f"job-{pool}", 3, nodes=only(pool))
    settle(world)
    assert [len(each.leases.planned()) for each in world.replicas.values()] == [2, 2]
    assert [nodes(world, f"job-{pool}") for pool in "wxyz"] == [{"n1"}, {"n2"}, {"n3"}, {"n4"}]
    assert len(world.api.patches) == 4
    assert not any("template" in patch["spec"] for _, patch in world.api.patches), "they say where they go"


def test_what_fits_several_pools_is_given_to_one_and_stays_on_its_nodes() -> None:
    world = PoolsWorld(TWO)
    world.queue("a", 3, nodes=only("w"))
    settle(world)
    world.queue("b", 3)
    world.queue("c", 2)
    settle(world)
    assert nodes(world, "b") == {"n2"}
    assert world.job("b").annotations[POOL] == f"{FAMILY}/x"
    assert world.job("b").nodes == only("x")
    assert not nodes(world, "c"), "no pool has two cards, though both together have"
    assert world.unbound() == 0


def test_a_job_moves_to_the_pool_that_could_start_it() -> None:
    world = PoolsWorld(TWO)
    world.queue("a", 4, nodes=only("w"))
    world.queue("b", 3, nodes=only("x"))
    settle(world)
    world.queue("c", 3)
    settle(world)
    first = world.job("c").annotations[POOL]
    freed = "b" if first.endswith("w") else "a"
    world.finish(freed)
    settle(world, int(SETTLED_SECONDS) + 12)
    assert nodes(world, "c") == {"n2" if freed == "b" else "n1"}
    assert world.job("c").annotations[POOL] != first


def test_a_kubelet_joins_no_pool_where_the_label_that_it_may_not_write_counts() -> None:
    world = PoolsWorld({"n1": "w", "n2": "x"})
    for node, pool in (("n1", "w"), ("n2", "x")):
        world.label(node, pool, RESTRICTED_POOL)
    world.label("n2", "w")
    world.queue("a", 3, nodes=only("w", RESTRICTED_POOL))
    settle(world)
    world.queue("b", 3)
    settle(world)
    assert (nodes(world, "a"), nodes(world, "b")) == ({"n1"}, {"n2"})
    assert world.job("b").nodes == only("x", RESTRICTED_POOL), "its pods are bound by that label"
    world.label("n2", "")
    world.queue("c", 1, nodes=only("w", RESTRICTED_POOL))
    settle(world)
    assert nodes(world, "c") == {"n1"}
    assert sorted(map(len, (each.leases.planned() for each in world.replicas.values()))) == [1, 1]


def lying_in_two_pools(nodes: str) -> PoolsWorld:
    """A Job as wide as there are cards, which started when node n2 had no label yet: it is of pool w."""
    world = PoolsWorld({name: "" if name == "n2" else "w" for name in nodes.split()})
    width = 4 * len(world.nodes)
    world.queue("wide", width, 1, width)
    settle(world)
    world.label("n2", "x")
    settle(world, 60)
    found = {pod.index: pod.node for pod in world.of(world.job("wide"))}
    assert [found[index] for index in range(width)] == [name for name in nodes.split() for _ in range(4)]
    return world


def test_a_job_in_two_pools_is_not_shrunk_where_its_last_pods_lie_in_the_other() -> None:
    world = lying_in_two_pools("n1 n2")
    world.queue("a", 1, nodes=only("w"))
    for _ in range(90):
        world.turn(10.0)
    assert world.job("wide").parallelism == 8
    assert not any(
        "parallelism" in patch.get("spec", {}) for name, patch in world.api.patches if name == "wide"
    )


def test_a_job_in_two_pools_gives_the_last_pods_of_its_own() -> None:
    world = lying_in_two_pools("n1 n2 n3")
    world.queue("a", 1, nodes=only("w"))
    settle(world, 120)
    assert nodes(world, "a") == {"n3"}
    assert 8 <= world.job("wide").parallelism < 12


def test_a_pool_with_open_cards_is_chosen_before_one_whose_cards_are_closed() -> None:
    world = PoolsWorld(TWO)
    world.nodes["n1"] = replace(world.nodes["n1"], cordoned="n1-0,n1-1")
    for engine in world.replicas.values():
        engine.see_node(world.nodes["n1"])
    world.queue("a", 4, nodes=only("x"))
    settle(world)
    world.queue("b", 4)
    settle(world)
    assert world.job("b").annotations[POOL] == f"{FAMILY}/x"
    assert world.job("b").suspend


def test_a_group_is_given_to_one_pool_with_one_write() -> None:
    world = PoolsWorld(TWO)
    labels = {"vgpu.io/queue": "default", "vgpu.io/group": "g"}
    for role in ("master", "trainer"):
        world.queue(role, 2, labels={**labels, "vgpu.io/role": role}, annotations={"vgpu.io/group-jobs": "2"})
    settle(world)
    assert len(nodes(world, "master") | nodes(world, "trainer")) == 1
    assert sum(POOL in world.job(name).annotations for name in ("master", "trainer")) == 1
    assert len(world.api.patches) == 3


def test_a_pool_is_chosen_anew_where_somebody_removes_it() -> None:
    world = PoolsWorld(TWO)
    for name in "wx":
        world.queue(name, 4, nodes=only(name))
    settle(world)
    world.queue("a", 3)
    settle(world)
    job = world.job("a")
    world.api.put(replace(job, annotations={}))
    settle(world)
    assert POOL in world.job("a").annotations


def test_r6_planners_come_with_jobs_and_go_after_quiet_minutes() -> None:
    world = PoolsWorld(TWO)
    settle(world)
    assert not world.planners()
    world.queue("a", 1, nodes=only("w"))
    settle(world, 4)
    assert set(world.planners()) == {f"{FAMILY}/w"}
    assert nodes(world, "a") == {"n1"}
    world.finish("a")
    settle(world, int(QUIET_SECONDS) - 30)
    assert world.planners()
    settle(world, 60)
    assert not world.planners()


def test_one_pool_is_planned_as_before() -> None:
    world = PoolsWorld({"n1": "", "n2": "w"})
    world.queue("a", 6)
    settle(world)
    assert list(world.planners()) == ["*"]
    assert nodes(world, "a") == {"n1", "n2"}
    assert set(world.api.leases) == {"vgpu-jobs"}
    assert len(world.api.patches) == 1


def test_labels_come_and_go_under_way() -> None:
    world = PoolsWorld({"n1": "", "n2": ""})
    world.queue("a", 3)
    settle(world)
    for node, pool in TWO.items():
        world.label(node, pool)
    world.queue("b", 4)
    world.queue("c", 1)
    settle(world, 20)
    assert len(nodes(world, "b")) == 1
    assert len(nodes(world, "c")) == 1
    assert f"{FAMILY}/w" in world.planners()
    world.label("n2", "")
    world.finish("b")
    world.queue("d", 4, least=2)
    settle(world, 8)
    assert not world.planners(), "those who have not heard of it may still act"
    settle(world, 30)
    assert list(world.planners()) == ["*"]
    assert len(world.of(world.job("d"))) == 4
    assert world.unbound() == 0


def test_a_job_that_was_stopped_before_there_were_pools_is_given_to_one() -> None:
    world = PoolsWorld({"n1": "", "n2": ""})
    world.queue("a", 3)
    settle(world)
    world.label("n1", "w")
    world.api.put(replace(world.job("a"), suspend=True))
    world.label("n2", "x")
    settle(world, 20)
    assert len(nodes(world, "a")) == 1
    assert POOL in world.job("a").annotations


def test_kueues_jobs_are_planned_where_kueue_started_them() -> None:
    world = PoolsWorld(TWO)
    job = world.queue("a", 2)
    world.api.put(replace(job, labels={**job.labels, "kueue.x-k8s.io/queue-name": "theirs"}))
    settle(world)
    assert not world.api.patches
    world.api.put(replace(world.job("a"), suspend=False))
    settle(world)
    assert len(nodes(world, "a")) == 1
    assert not world.api.patches


@pytest.mark.parametrize("killed", ["a", "b"])
def test_the_pools_of_a_killed_replica_are_planned_again_within_15_s(killed: str) -> None:
    world = PoolsWorld(FOUR)
    for pool in "wxyz":
        world.queue(f"first-{pool}", 2, nodes=only(pool))
    settle(world)
    world.kill(killed)
    for pool in "wxyz":
        world.queue(f"second-{pool}", 2, nodes=only(pool))
    settle(world, 15)
    assert all(nodes(world, f"second-{pool}") for pool in "wxyz")
    assert world.unbound() == 0


class Load:
    """Jobs that come as fast as others start: for each pool, and for any pool, some always wait."""

    def __init__(self, world: PoolsWorld, seed: int, waiting: int = 3) -> None:
        self.world = world
        self.seed = seed
        self.waiting = waiting
        self.ends: dict[str, float] = {}
        self.numbers = Counter[str]()

    def turn(self, seconds: float = 1.0) -> None:
        world, ended = self.world, list[Job]()
        waits = Counter(job.name[0] for job in world.api.jobs.values() if job.suspend)
        for pool in ANY, *FOUR.values():
            for _ in range(self.waiting - waits[pool]):
                self._queue(pool)
        for job in world.api.jobs.values():
            if not job.suspend:
                ends = self.ends.setdefault(job.name, world.now + self._rng(job.name).randint(60, 900))
                if world.now >= ends:
                    ended.append(job)
        for job in ended:
            world.finish(job.name)
            del world.api.jobs[job.namespace, job.name]
            for engine in world.api.engines:
                engine.known.gone(job.uid)
        world.turn(seconds)

    def allocation(self, turns: int = 400, counted: int = 300) -> float:
        """The share of the cards that was in use, after the first turns."""
        used = list[int]()
        for _ in range(turns):
            self.turn(5.0)
            used.append(self.world.used())
        return sum(used[-counted:]) / (counted * len(self.world.cards))

    def _rng(self, name: str) -> random.Random:
        """What a job is and does depends on its name alone, not on when it starts."""
        return random.Random(f"{self.seed} {name}")

    def _queue(self, pool: str) -> None:
        self.numbers[pool] += 1
        name = f"{pool}{self.numbers[pool]}"
        # One pool could not run the wide ones across what are pools to several planners.
        width = 1 if pool == ANY else self._rng(f"{name} asks").choice((1, 1, 1, 1, 2, 2, 4))
        places: dict[str, Any] = {} if pool == ANY else {"nodes": only(pool)}
        self.world.queue(name, width, created=api_time(self.world.now), **places)


@pytest.mark.no_cover
def test_planners_use_as_many_cards_as_one_planner_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 0.1 point; `ANY` jobs are given to pools by the dispatcher."""
    used = Load(PoolsWorld(FOUR), 1).allocation(110, 80)
    monkeypatch.setattr(pools, "MOST_POOLS", 1)
    alone = PoolsWorld(FOUR)
    assert used >= Load(alone, 1).allocation(110, 80) - 0.001
    assert set(alone.planners()) == {"*"}


@pytest.mark.no_cover
def test_replicas_die_and_come_and_no_card_is_given_twice(rng: random.Random) -> None:
    world, born = PoolsWorld(FOUR, cards=8), 0
    load = Load(world, rng.randrange(1 << 32))
    for _ in range(12):
        for _ in range(rng.randint(3, 25)):
            load.turn()
            world.planners()
            assert world.unbound() == 0, "started on cards that were not free"
        if rng.random() < 0.7 and len(world.replicas) > 1:
            world.kill(rng.choice(sorted(world.replicas)))
        elif len(world.replicas) < 3:
            born += 1
            world.begin(f"r{born}")
    for _ in range(20):
        load.turn()
    assert sorted(world.planners()) == [f"{FAMILY}/{pool}" for pool in "wxyz"]


@pytest.mark.no_cover
def test_planners_rest_for_as_long_as_they_have_worked(rng: random.Random) -> None:
    """A tenant writes all the time: half of the time is left to others, and after a rest nothing waits."""
    world = World()
    world.settle(2)
    engine, tick = world.engine, 0.25
    planned = engine.rounds.step
    rounds, cost = list[float](), 0.0

    def step() -> None:
        before = engine.rounds.last
        planned()
        if engine.rounds.last is not before:
            rounds.append(world.now)
            engine.worked += cost
            world.now += cost

    engine.rounds.step = step  # type: ignore[method-assign]
    began, number = world.now, 0
    while world.now < began + 300:
        cost = rng.choice((0.01, 0.3, 1.0, 4.0))
        number += 1
        world.queue(f"j{number % 50}", 1 + number % 7)
        engine.planners.step()
        world.now += tick
    assert len(rounds) > 50
    assert engine.worked <= (world.now - began + 4.0) / 2
    world.now += 10
    world.queue("first", 1)
    engine.planners.step()
    assert rounds[-1] >= world.now - cost, "a single change is answered at once"


def test_metadata_that_a_tenant_writes_in_a_loop_starts_no_rounds_and_stops_no_write() -> None:
    world = PoolsWorld(TWO)
    world.queue("a", 4, nodes=only("w"))
    world.queue("b", 4, nodes=only("x"))
    settle(world)
    world.queue("c", 3)
    settle(world, 60)

    def write(turn: int) -> None:
        noise = {"kueue.x-k8s.io/colour": str(turn)}
        world.api.put(replace(world.job("c"), annotations={**world.job("c").annotations, **noise}))
        world.turn(0.25)

    planners = [planner for each in world.replicas.values() for planner in each.planners.all()]
    last = [planner.rounds.last for planner in planners]
    for turn in range(8):
        write(turn)
    assert [planner.rounds.last for planner in planners] == last
    reads = world.api.reads
    world.finish("b" if world.job("c").annotations[POOL].endswith("w") else "a")
    for turn in range(60):
        write(turn)
    assert nodes(world, "c")
    assert world.api.reads == reads, "no write met an older version"
