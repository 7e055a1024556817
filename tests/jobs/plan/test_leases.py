"""Who plans what: one planner for all, or one for each pool, shared out, and never two."""

import random

import pytest

from device_plugin.core.jobs.pools import MOST_POOLS
from device_plugin.jobs.plan.leases import LEFT_SECONDS, NOTED_SECONDS, REPLACED_SECONDS, PoolLeases
from device_plugin.kube.errors import ApiError, UnknownError
from device_plugin.kube.leases import LEASES
from tests.jobs.pools_world import LEASE
from tests.jobs.world import JobApi

POOLS = ("w", "x", "y", "z")


class Cluster:
    """Replicas that renew every 2 s."""

    def __init__(self, *names: str) -> None:
        self.now = 1000.0
        self.api = JobApi()
        self.cut: set[str] = set()
        self.replicas: dict[str, PoolLeases] = {}
        self.wanted: tuple[str, ...] | None = POOLS
        for name in names:
            self.begin(name)

    def begin(self, name: str) -> None:
        cluster = self

        class Api(JobApi):
            def get(self, *args: object) -> object:
                if name in cluster.cut:
                    raise UnknownError("cut off")
                return cluster.api.get(*args)  # type: ignore[arg-type]

        api = Api()
        api.create, api.replace = self.api.create, self.api.replace  # type: ignore[method-assign]
        self.replicas[name] = PoolLeases(
            api, LEASE, name, lambda: self.now, lambda: str(self.now), lambda: frozenset(self.replicas)  # type: ignore[arg-type]
        )  # fmt: skip

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds / 2)):
            for name, each in sorted(self.replicas.items()):
                if each.dispatches():
                    each.want(self.wanted)
                try:
                    each.renew()
                except ApiError:
                    assert name in self.cut
            self.held()
            self.now += 2.0

    def held(self) -> dict[str, list[str]]:
        """By replica: what it plans; nothing is planned twice."""
        found = {name: sorted(each.planned()) for name, each in self.replicas.items()}
        alone = [name for name, each in self.replicas.items() if each.plans_all()]
        pools = [pool for of in found.values() for pool in of]
        assert len(pools) == len(set(pools)), found
        assert len(alone) <= (0 if pools else 1), (alone, found)
        assert sum(each.dispatches() for each in self.replicas.values()) <= 1
        return {name: ["*"] if name in alone else of for name, of in found.items()}


def test_one_pool_needs_one_lease_and_no_note() -> None:
    cluster = Cluster("a", "b")
    cluster.wanted = None
    cluster.run(20)
    assert cluster.held() == {"a": ["*"], "b": []}
    assert set(cluster.api.leases) == {"vgpu-jobs"}
    assert cluster.api.leases["vgpu-jobs"].note == ""


def test_several_pools_are_shared_out() -> None:
    cluster = Cluster("a", "b")
    cluster.run(10)
    held = cluster.held()
    assert [len(of) for of in held.values()] == [2, 2]
    assert set(cluster.api.leases) == {"vgpu-jobs", *(f"vgpu-jobs-{number}" for number in range(1, 5))}
    assert cluster.replicas["b"].planners() == {pool: name for name, of in held.items() for pool in of}


@pytest.mark.parametrize("dead", ["a", "b"])
def test_the_pools_of_a_dead_replica_are_taken_over_within_15_s(dead: str) -> None:
    cluster = Cluster("a", "b")
    cluster.run(10)
    del cluster.replicas[dead]
    (left,) = cluster.replicas
    cluster.run(14)
    assert cluster.held() == {left: list(POOLS)}


def test_a_new_replica_gets_its_share_and_what_it_does_not_take_is_taken_back() -> None:
    cluster = Cluster("a")
    cluster.run(10)
    assert cluster.held() == {"a": list(POOLS)}
    cluster.begin("b")
    cluster.run(6)
    assert [len(of) for of in cluster.held().values()] == [2, 2]
    cluster.begin("c")
    cluster.cut.add("c")
    cluster.run(10 + LEFT_SECONDS)
    assert sum(len(of) for of in cluster.held().values()) == len(POOLS), "c is alive, and takes nothing"


def test_a_pool_keeps_its_number_and_one_that_goes_gives_its_lease_up() -> None:
    cluster = Cluster("a")
    cluster.run(4)
    assert cluster.replicas["a"].numbers() == {1: "w", 2: "x", 3: "y", 4: "z"}
    cluster.wanted = ("v", "y", "z")
    cluster.run(4)
    assert cluster.replicas["a"].numbers() == {1: "v", 3: "y", 4: "z"}
    cluster.wanted = ()
    cluster.run(4)
    assert cluster.held() == {"a": []}
    assert {lease.holder for name, lease in cluster.api.leases.items() if name != LEASE.name} == {""}


def test_more_pools_than_leases_are_not_all_planned() -> None:
    cluster = Cluster("a")
    cluster.wanted = tuple(f"p{number:02}" for number in range(MOST_POOLS + 3))
    cluster.run(4)
    assert len(cluster.held()["a"]) == MOST_POOLS


def test_one_planner_for_all_waits_until_no_other_acts() -> None:
    cluster = Cluster("a", "b")
    cluster.run(10)
    cluster.cut.add("b")
    cluster.wanted = None
    cluster.run(4)
    assert cluster.replicas["b"].planned(), "it does not know yet"
    cluster.run(NOTED_SECONDS)
    assert not cluster.replicas["b"].planned()
    assert not cluster.replicas["a"].plans_all()
    cluster.run(REPLACED_SECONDS)
    assert cluster.held() == {"a": ["*"], "b": []}


def test_a_dispatcher_that_takes_over_keeps_the_note_until_it_has_decided() -> None:
    cluster = Cluster("a", "b")
    cluster.run(10)
    del cluster.replicas["a"]
    late = cluster.replicas["b"]
    for _ in range(12):
        late.renew()
        cluster.now += 2.0
    assert late.dispatches()
    assert set(late.planned()) == set(POOLS)


def test_a_note_that_nobody_can_read_is_replaced() -> None:
    cluster = Cluster("a")
    cluster.run(4)
    lease = cluster.api.leases[LEASE.name]
    for note in ("[]", "{", '{"pools": 3}', '{"pools": {"x": "w", "0": "w", "17": "w", "1": 5}}'):
        metadata = {
            "name": LEASE.name, "resourceVersion": cluster.api.leases[LEASE.name].version,
            "annotations": {"vgpu.io/note": note},
        }  # fmt: skip
        spec = {"holderIdentity": lease.holder, "renewTime": "x", "leaseDurationSeconds": 15}
        cluster.api.replace(LEASES, LEASE, {"metadata": metadata, "spec": spec})
        cluster.run(4)
        assert set(cluster.held()["a"]) == set(POOLS)


def test_nothing_is_ever_planned_twice(rng: random.Random) -> None:
    """Replicas die, begin and are cut off, and pools come and go, while all is checked every 2 s."""
    for _ in range(20):
        cluster, born = Cluster("a", "b"), 0
        for _ in range(60):
            match rng.randrange(8):
                case 0 if len(cluster.replicas) > 1:
                    cluster.replicas.pop(rng.choice(sorted(cluster.replicas)))
                case 1:
                    born += 1
                    cluster.begin(f"r{born}")
                case 2:
                    cluster.cut ^= {rng.choice(sorted(cluster.replicas))}
                case 3:
                    cluster.wanted = None
                case 4:
                    cluster.wanted = tuple(rng.sample(POOLS, rng.randint(0, 4)))
            cluster.run(2.0 * rng.randint(1, 8))
        cluster.cut.clear()
        cluster.wanted = POOLS
        cluster.run(60)
        assert sorted(pool for of in cluster.held().values() for pool in of) == list(POOLS)
