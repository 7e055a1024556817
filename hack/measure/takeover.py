"""Trial: the job engine's replica that plans a pool (part of the cards) is killed (-9); the other takes it over.

    hack/takeover --kills 20

Two replicas share two pools of cards, in which more Jobs wait than fit; all the time Jobs end and others are started.
The replica that holds the Lease of a pool is killed at a random moment. It starts again once the other replica has
taken the Lease and started a Job there. Exits non-zero if that took longer than the Lease lasts, or if Jobs were
started on cards that were not free.
"""

import argparse
import json
import random
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.core.batch import JOB_NAME, Job
from device_plugin.core.contract.annotations import POOL
from device_plugin.jobs.pools.leases import RENEW_SECONDS
from device_plugin.kube.api import JOBS, NODES, PODS, Change, Ref, Where
from device_plugin.kube.leases import LEASES, Lease
from hack.embedded.apiserver.admission import ADMIN
from hack.embedded.cluster import EmbeddedCluster, Options
from hack.embedded.person import NAMESPACE, PATIENCE_SECONDS, Person, phase
from hack.embedded.services import ServiceProcess
from hack.measure.engine_footprint import queued
from hack.measure.one_machine import one_machine
from vgpu_runtime import sim

# The cards of each pool; the number of Jobs that fit on them, and the number of Jobs in each pool.
CARDS = "version: v1\ncards:\n  - {preset: hygon-60cu-16gib, count: 2}\n"
FIT, JOBS_OF_POOL = 8, 16
POOLS = ("a", "b")
SYSTEM, LEASE = "vgpu-system", "vgpu-jobs"
# Seconds between the ends of two Jobs.
END_SECONDS = 0.5
LOOK_SECONDS = 0.01


class Admitted:
    """The existing Jobs that the engine has started, as a watch shows them."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = defaultdict(set)
        self.last = dict.fromkeys(POOLS, 0.0)
        """By pool: the time of the last start of a Job, by time.monotonic."""
        self.count = 0
        self.beyond: list[str] = []
        """Names of Jobs that were started while FIT Jobs of their pool ran."""

    def sync(self, jobs: Sequence[Job]) -> None:
        """Record all Jobs of a list."""
        for job in jobs:
            self.see(Change.MODIFIED, job)

    def see(self, change: Change, job: Job) -> None:
        """Record a changed Job."""
        pool = job.name.partition("-")[0]
        names = self._names[pool]
        if change is Change.DELETED or job.deleting:
            names.discard(job.name)
        elif not job.suspend and job.name not in names:
            names.add(job.name)
            self.count += 1
            self.last[pool] = time.monotonic()
            if len(names) > FIT:
                self.beyond.append(job.name)

    def oldest(self, pool: str) -> str:
        """The started Job of this pool (part of the cards) that was created first; empty if there is none."""
        return min(self._names[pool], default="")


class JobLoad(threading.Thread):
    """Deletes a running Job of each pool (part of the cards) every END_SECONDS, and queues a new one."""

    def __init__(self, person: Person, admitted: Admitted) -> None:
        super().__init__(name="load")
        self._person = person
        self._admitted = admitted
        self._number = 0
        self.ended = threading.Event()

    def queue(self, pool: str) -> None:
        """Create one more Job of this pool (part of the cards)."""
        self._number += 1
        self._person.create(queued(f"{pool}-{self._number:06}", **{POOL: pool}))

    def run(self) -> None:
        """Delete and queue a Job of each pool (part of the cards) every END_SECONDS, until the load is ended."""
        while not self.ended.wait(END_SECONDS):
            for pool in POOLS:
                if name := self._admitted.oldest(pool):
                    self._person.delete(name, kind="Job")
                    self.queue(pool)


class Engines:
    """The replicas of the engine, and their pods, as a Deployment would have them."""

    def __init__(self, cluster: EmbeddedCluster, person: Person) -> None:
        self._services = {service.name: service for service in cluster.engines}
        self._person = person
        for name in self._services:
            self._begin(name)

    def lease(self, name: str) -> Lease:
        """The Lease of this name."""
        return self._person.api.get(LEASES, Ref(name, SYSTEM))

    def shared_out(self) -> dict[str, str] | None:
        """The name of the Lease of each pool (part of the cards); None unless every replica holds at least one.

        The names are by pool.
        """
        note = self.lease(LEASE).note
        numbers = json.loads(note)["pools"] if note else {}
        leases = {pool.rpartition("/")[2]: f"{LEASE}-{number}" for number, pool in numbers.items()}
        held = {lease.name: lease.holder for lease in self._person.api.list(LEASES, Where(SYSTEM)).items}
        return leases if {held.get(name) for name in leases.values()} == set(self._services) else None

    def kill(self, name: str) -> float:
        """Kill a replica and delete its pod; returns the time of the kill, by time.monotonic."""
        at = time.monotonic()
        self._services[name].kill()
        self._person.api.delete(PODS, Ref(name, SYSTEM), grace_seconds=0)
        return at

    def start(self, name: str) -> None:
        """Start a killed replica again, and wait until it serves."""
        service: ServiceProcess = self._services[name]
        service.start()
        service.wait()
        self._begin(name)

    def _begin(self, name: str) -> None:
        owner = {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": LEASE, "uid": LEASE, "controller": True,
        }  # fmt: skip
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"schedulerName": "none", "containers": [{"name": "jobs", "image": "none"}]},
        }
        self._person.api.create(PODS.json, pod, SYSTEM)
        running = {"status": {"phase": "Running"}}
        self._person.api.patch(PODS, Ref(name, SYSTEM), running, subresource="status")


@dataclass
class Takeovers:
    """Seconds from each kill until the other replica held the pool's Lease, and until it started a Job there."""

    lease_seconds: int = 0
    held: list[float] = field(default_factory=list)
    started: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        """The figures of all kills."""
        held, started = (
            f"median {median(each):.1f}, worst {max(each):.1f}" for each in (self.held, self.started)
        )
        return f"seconds until the Lease was taken: {held}; until a Job was started: {started}"


@contextmanager
def watched(person: Person) -> Iterator[Admitted]:
    """Watch the Jobs until the context ends; yields the record of started Jobs."""
    admitted, stop = Admitted(), threading.Event()
    watch = ListWatch(person.api, JOBS, Where(NAMESPACE))
    watching = threading.Thread(target=watch.run, args=(admitted.sync, admitted.see, stop))
    watching.start()
    try:
        yield admitted
    finally:
        stop.set()
        watch.interrupt()
        watching.join()


@contextmanager
def loaded(person: Person, admitted: Admitted) -> Iterator[None]:
    """Run a JobLoad until the context ends; in each pool FIT Jobs run and FIT more wait."""
    load = JobLoad(person, admitted)
    for _ in range(JOBS_OF_POOL):
        for pool in POOLS:
            load.queue(pool)
    load.start()
    try:
        yield
    finally:
        load.ended.set()
        load.join()


def run(kills: int, seed: int) -> bool:
    """Kill a replica `kills` times; true if each takeover was in time and no Job was started without free cards."""
    rng, taken = random.Random(seed), Takeovers()
    cards = {f"node-{pool}": sim.parse(CARDS, machine=number) for number, pool in enumerate(POOLS)}
    options = Options(engines=2, seed=seed, on_start=lambda *_: None)
    with one_machine(cards, options, ADMIN) as (cluster, person):
        for pool in POOLS:
            person.api.patch(NODES, Ref(f"node-{pool}"), {"metadata": {"labels": {POOL: pool}}})
        engines = Engines(cluster, person)
        with watched(person) as admitted:
            with loaded(person, admitted):
                for number in range(1, kills + 1):
                    print(f"kill {number}: {_kill(engines, person, admitted, rng, taken)}", flush=True)
            person.until("all Jobs that were started to run", lambda: _all_run(person), PATIENCE_SECONDS)
    print(f"{kills} kills, seed {seed}, a Lease of {taken.lease_seconds} s; {taken}")
    print(f"{admitted.count} Jobs started, of them on cards that were not free: {len(admitted.beyond)}")
    return max(taken.held) <= taken.lease_seconds and not admitted.beyond


def _kill(engines: Engines, person: Person, admitted: Admitted, rng: random.Random, taken: Takeovers) -> str:
    """Kill the replica that plans a random pool, wait for the takeover, and start it again; returns a text about it."""
    leases = person.until("each replica to plan a pool", engines.shared_out, PATIENCE_SECONDS)
    pool = rng.choice(POOLS)
    name = leases[pool]
    time.sleep(rng.uniform(0.0, RENEW_SECONDS))
    killed = engines.lease(name).holder
    at = engines.kill(killed)
    while (lease := engines.lease(name)).holder == killed:
        taken.lease_seconds = lease.seconds
        time.sleep(LOOK_SECONDS)
    held = time.monotonic()
    person.until(f"a Job of pool {pool} to be started", lambda: admitted.last[pool] > held, PATIENCE_SECONDS)
    taken.held.append(held - at)
    taken.started.append(admitted.last[pool] - at)
    engines.start(killed)
    return f"{killed} planned pool {pool}; {lease.holder} held its Lease {held - at:.1f} s later"


def _all_run(person: Person) -> bool:
    jobs = person.api.list(JOBS, Where(NAMESPACE)).items
    running = {pod["metadata"]["labels"][JOB_NAME] for pod in person.pods() if phase(pod) == "Running"}
    return {job.name for job in jobs if not job.suspend} == running


def main(argv: Sequence[str] | None = None) -> int:
    """Run hack/takeover with these arguments; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hack/takeover", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="how often to kill a planner")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    if args.kills < 1:
        parser.error("write --kills of at least 1")
    return 0 if run(args.kills, args.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
