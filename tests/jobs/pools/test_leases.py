"""Who plans what: one planner for all, or one for each pool, shared out, and never two."""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any

import pytest

from device_plugin.core.jobs.pools import MOST_POOLS
from device_plugin.jobs.pools.leases import (
    FENCE_SECONDS,
    LEASE_SECONDS,
    LEFT_SECONDS,
    NOTED_SECONDS,
    RENEW_SECONDS,
    REPLACED_SECONDS,
    PoolLeases,
)
from device_plugin.kube.api import Kind, Named, Object
from device_plugin.kube.errors import UnknownError
from device_plugin.kube.leases import LEASES, Lease
from tests.jobs.pools.world import LEASE
from tests.jobs.world import JobApi

POOLS = ("w", "x", "y", "z")
# The longest that a request of ours takes.
REQUEST_SECONDS = 3.0


class Cluster:
    """Replicas with a loop and a watch each, on one clock that goes from event to event.

    `lag` gives the seconds after which a watch tells a change, `latency` those that a write takes. Replicas in `cut`
    get no answers and no news, those in `blind` no news.
    """

    def __init__(
        self, *names: str, lag: Callable[[], float] = lambda: 0.0, latency: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.now = 1000.0
        self.api = JobApi()
        self.cut: set[str] = set()
        self.blind: set[str] = set()
        self.replicas: dict[str, PoolLeases] = {}
        self.wanted: tuple[str, ...] | None = POOLS
        self.sent: dict[str, float] = {}
        """By Lease: when its present holder sent its last write."""
        self.writes: list[str] = []
        self._lag = lag
        self._latency = latency
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._counted = count()
        for name in names:
            self.begin(name)

    def begin(self, name: str, after: float = 0.0) -> None:
        """Start a replica, which has its first turn `after` seconds from now."""
        leases = self.replicas[name] = PoolLeases(
            Connection(self, name), LEASE, name, lambda: self.now, lambda: str(self.now),  # type: ignore[arg-type]
            lambda: frozenset(self.replicas),
        )  # fmt: skip
        self._at(after, lambda: self._turn(name, leases))

    def run(self, seconds: float) -> None:
        """Carry out the events of the next `seconds`."""
        end = self.now + seconds
        while self._events[0][0] < end:
            at, _, event = heappop(self._events)
            self.now = max(self.now, at)
            event()
        self.now = max(self.now, end)

    def write(self, name: str, by: str, write: Callable[[], object]) -> None:
        """A replica writes this Lease."""
        before, sent = self.api.leases.get(name), self.now
        self.now += self._latency()
        write()
        lease = self.api.leases[name]
        if before is not None and before.holder not in ("", by):
            assert self.now >= self.sent[name] + FENCE_SECONDS + REQUEST_SECONDS, "a write may be under way"
        self.sent[name] = sent
        self.writes.append(name)
        for replica in self.replicas:
            self._at(self._lag(), partial(self._tell, replica, lease))

    def _turn(self, name: str, leases: PoolLeases) -> None:
        if self.replicas.get(name) is not leases:
            return
        if leases.dispatches():
            leases.want(self.wanted)
        pause = leases.keep()
        assert bool(leases.problem) == (name in self.cut)
        self.held()
        self._at(pause, lambda: self._turn(name, leases))

    def _tell(self, name: str, lease: Lease) -> None:
        if name in self.replicas and name not in self.cut | self.blind:
            self.replicas[name].see(lease)

    def _at(self, seconds: float, event: Callable[[], None]) -> None:
        heappush(self._events, (self.now + seconds, next(self._counted), event))

    def held(self) -> dict[str, list[str]]:
        """By replica: what it plans; nothing is planned twice."""
        found = {name: sorted(each.planned()) for name, each in self.replicas.items()}
        alone = [name for name, each in self.replicas.items() if each.plans_all()]
        pools = [pool for of in found.values() for pool in of]
        assert len(pools) == len(set(pools)), found
        assert len(alone) <= (0 if pools else 1), (alone, found)
        assert sum(each.dispatches() for each in self.replicas.values()) <= 1
        return {name: ["*"] if name in alone else of for name, of in found.items()}


class Connection(JobApi):
    """The API as one replica reaches it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__()
        self._cluster = cluster
        self._name = name

    def get(self, *args: object) -> object:
        if self._name in self._cluster.cut:
            raise UnknownError("cut off")
        return self._cluster.api.get(*args)  # type: ignore[arg-type]

    def create(self, kind: Kind[Any], body: Object, namespace: str = "") -> None:
        name = body["metadata"]["name"]
        self._cluster.write(name, self._name, lambda: self._cluster.api.create(kind, body, namespace))

    def replace(self, kind: Kind[Any], of: Named, body: Object, *, subresource: str = "") -> None:
        assert not subresource
        self._cluster.write(of.name, self._name, lambda: self._cluster.api.replace(kind, of, body))


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
def test_the_pools_of_a_dead_replica_are_taken_over_within_one_lease(dead: str, rng: random.Random) -> None:
    """Of the Lease of the dispatcher too. The watch tells a change within 0.2 s; a write takes up to 20 ms."""
    for _ in range(50):
        cluster = Cluster(lag=lambda: rng.uniform(0.0, 0.2), latency=lambda: rng.uniform(0.0, 0.02))
        cluster.begin("a")
        cluster.begin("b", 0.5 + rng.uniform(0.0, RENEW_SECONDS))
        cluster.run(20 + rng.uniform(0.0, RENEW_SECONDS))
        assert [len(of) for of in cluster.held().values()] == [2, 2]
        del cluster.replicas[dead]
        (left,) = cluster.replicas
        cluster.run(LEASE_SECONDS)
        assert cluster.held() == {left: list(POOLS)}
        assert cluster.replicas[left].dispatches()


def test_without_the_watch_they_are_taken_over_one_turn_later(rng: random.Random) -> None:
    for _ in range(50):
        cluster = Cluster("a")
        cluster.begin("b", 0.5 + rng.uniform(0.0, RENEW_SECONDS))
        cluster.blind.add("b")
        cluster.run(20 + rng.uniform(0.0, RENEW_SECONDS))
        del cluster.replicas["a"]
        cluster.run(LEASE_SECONDS + RENEW_SECONDS)
        assert cluster.held() == {"b": list(POOLS)}


def test_nothing_is_written_beside_the_renewals() -> None:
    cluster = Cluster("a", "b")
    cluster.run(20)
    before = len(cluster.writes)
    cluster.run(20)
    assert Counter(cluster.writes[before:]) == dict.fromkeys(cluster.api.leases, 20 / RENEW_SECONDS)


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
    assert cluster.replicas["a"].numbers() == {3: "y", 4: "z", 5: "v"}
    cluster.wanted = ()
    cluster.run(4)
    assert cluster.held() == {"a": []}
    assert {lease.holder for name, lease in cluster.api.leases.items() if name != LEASE.name} == {""}


def test_a_pool_that_comes_back_has_the_number_that_a_replica_may_still_plan_it_by() -> None:
    cluster = Cluster("a", "b")
    cluster.run(10)
    pool = cluster.held()["b"][0]
    before = cluster.replicas["a"].numbers()
    cluster.cut.add("b")
    cluster.wanted = tuple(name for name in POOLS if name != pool)
    cluster.run(2)
    assert pool in cluster.replicas["b"].planned(), "it does not know yet"
    cluster.wanted = ("v", *cluster.wanted)
    cluster.run(2)
    cluster.wanted = ("v", *POOLS)
    cluster.run(2)
    assert cluster.replicas["a"].numbers() == {**before, 5: "v"}
    cluster.wanted = ()
    cluster.run(2 + REPLACED_SECONDS)
    cluster.wanted = ("u",)
    cluster.run(4)
    assert cluster.replicas["a"].numbers() == {1: "u"}


def test_a_new_dispatcher_gives_no_number_that_it_has_not_seen_free_for_long() -> None:
    cluster = Cluster("a", "b")
    cluster.run(10)
    cluster.wanted = POOLS[:3]
    cluster.run(2)
    cluster.replicas.pop("a").release()
    cluster.wanted = ("v", *POOLS[:3])
    cluster.run(4)
    assert cluster.replicas["b"].dispatches()
    assert set(cluster.replicas["b"].numbers().values()) == set(POOLS[:3])
    cluster.run(REPLACED_SECONDS)
    assert cluster.replicas["b"].numbers()[4] == "v"


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


@pytest.mark.no_cover
def test_nothing_is_ever_planned_twice(rng: random.Random) -> None:
    """Replicas die, begin and are cut off, watches lag and break, writes are slow, and pools come and go.

    All is checked after each turn of a replica, and no Lease is taken while a write of its holder may be under way.
    """
    for _ in range(20):
        cluster = Cluster(
            "a", "b", lag=lambda: rng.uniform(0.0, 5.0),
            latency=lambda: rng.uniform(0.0, REQUEST_SECONDS) if rng.random() < 0.1 else 0.0,
        )  # fmt: skip
        born = 0
        for _ in range(60):
            match rng.randrange(9):
                case 0 if len(cluster.replicas) > 1:
                    cluster.replicas.pop(rng.choice(sorted(cluster.replicas)))
                case 1:
                    born += 1
                    cluster.begin(f"r{born}", rng.uniform(0.0, RENEW_SECONDS))
                case 2:
                    cluster.cut ^= {rng.choice(sorted(cluster.replicas))}
                case 3:
                    cluster.wanted = None
                case 4:
                    cluster.wanted = tuple(rng.sample((*POOLS, "u", "v"), rng.randint(0, 6)))
                case 5:
                    cluster.blind ^= {rng.choice(sorted(cluster.replicas))}
            cluster.run(rng.uniform(0.0, 16.0))
        cluster.cut.clear()
        cluster.wanted = POOLS
        cluster.run(60)
        assert sorted(pool for of in cluster.held().values() for pool in of) == list(POOLS)
