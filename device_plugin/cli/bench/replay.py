"""The published replay (FGD, ATC'23): pods arrive one at a time, nothing leaves, nothing is tried again.

The list is sorted by name and shuffled with the seed, and pods drawn from it with replacement follow until 1.3 times
the capacity was asked for. "At 100 %" is the mean over the arrivals whose asked share rounds to 100.
"""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from device_plugin.cli.bench.workload import Job, Node, Workload
from device_plugin.core.grants import Grant
from device_plugin.core.hosts import Hosts
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import POLICIES, Placer
from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.fragments import Fragments
from device_plugin.core.placement.index import View
from device_plugin.core.placement.tables import Tables
from device_plugin.core.placement.target import Target

ARRIVALS = 1.3
# The learnt target is renewed after so many arrivals, twice as many each time, and then after each MOST_REFIT.
FIRST_REFIT, MOST_REFIT = 64, 1024
# Of clusters with fewer cards single arrivals are more than a percent.
SMALL = 100
# Policies that the published protocol gives the list of pods to.
GIVEN = ("fgd",)


@dataclass(frozen=True, slots=True)
class Sample:
    """After one arrival: percent of the capacity that was asked for, and that is allocated.

    `useless` is the percent that is idle and of no use, where that was measured.
    """

    arrived: float
    allocated: float
    useless: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One policy on one seed. `first_failure` is the percent that had arrived when a pod first found no place."""

    samples: Sequence[Sample]
    placed: int
    first_failure: float | None
    seconds: float

    def at(self, percent: int) -> tuple[float, float]:
        """Allocated and useless percent while so much had arrived; of a small cluster, just before."""
        before = [s for s in self.samples if s.arrived < percent + 0.5] or self.samples[:1]
        there = [s for s in before if round(s.arrived) == percent] or before[-1:]
        return (
            float(np.mean([s.allocated for s in there])),
            float(np.mean([s.useless for s in there if s.useless is not None] or [np.nan])),
        )


class Cluster:
    """The real core, with the nodes in a fixed random order: it breaks ties by name."""

    def __init__(self, nodes: Sequence[Node], rng: random.Random) -> None:
        self.ledger, self.hosts = Ledger(), Hosts()
        for number, node in enumerate(rng.sample(list(nodes), len(nodes))):
            name = f"{number:05}"
            self.ledger.set_node(name, node.inventory)
            self.hosts.set(name, node.room)
        self.placer = Placer(self.ledger, self.hosts, POLICIES)

    def place(self, job: Job, policy: str) -> Grant | None:
        """Place and hold; None if it does not fit."""
        found = self.placer.place(replace(job.request, policy=policy))
        if not isinstance(found, Grant):
            return None
        self.ledger.hold(found)
        self.hosts.take(found.node, job.request.host)
        return found

    def leave(self, job: Job, grant: Grant) -> None:
        """The pod has ended."""
        self.ledger.release(grant.pod)
        self.hosts.give(grant.node, job.request.host)


def arrivals(workload: Workload, seed: int) -> Iterator[Job]:
    """The pods in the order of their arrival; each has a name of its own."""
    rng = random.Random(seed)
    jobs = list(workload.jobs)
    rng.shuffle(jobs)
    asked, number = 0.0, 0
    while asked < ARRIVALS * workload.capacity:
        job = jobs[number] if number < len(jobs) else rng.choice(jobs)
        number += 1
        asked += workload.cards(job)
        yield replace(job, name=f"{number}", request=replace(job.request, pod=f"{number}"))


def given(cluster: Cluster, workload: Workload) -> Tables:
    """Tables of the list itself, every ask counted as often as it stands there."""
    target = Target(half_life=1e18)
    for job in workload.jobs:
        if (ask := Ask.of(job.request)) is not None:
            # FGD tells classes apart by cpu, share, number and model, not by memory.
            target.add(replace(ask, host=replace(ask.host, memory_mib=0)))
    cluster.placer.index.refresh()
    return cluster.placer.tables(target.frequent(1.0))


def replay(workload: Workload, policy: str, seed: int) -> Outcome:
    """One policy on one seed."""
    cluster = Cluster(workload.nodes, random.Random(seed))
    tables = given(cluster, workload)
    if policy in GIVEN:
        cluster.placer.adopt(tables)
    target, refit = Target(), FIRST_REFIT
    samples, placed, failed = [], 0, None
    asked = allocated = seconds = 0.0
    for job in arrivals(workload, seed):
        asked += workload.cards(job)
        target.add(Ask.of(job.request) or Ask(job.request.containers[0][1]))
        begin = time.perf_counter()
        grant = cluster.place(job, policy)
        seconds += time.perf_counter() - begin
        if grant is not None:
            allocated += workload.cards(job)
            placed += 1
        elif failed is None:
            failed = 100 * asked / workload.capacity
        if policy not in GIVEN and target.arrivals == refit:
            cluster.placer.adopt(cluster.placer.tables(target.frequent()))
            refit += min(refit, MOST_REFIT)
        arrived = 100 * asked / workload.capacity
        useless = None
        if workload.capacity < SMALL or round(arrived) in (100, 130):
            useless = _useless(cluster, tables.fragments, workload)
        samples.append(Sample(arrived, 100 * allocated / workload.capacity, useless))
    return Outcome(samples, placed, failed, seconds / len(samples))


def _useless(cluster: Cluster, fragments: Fragments, workload: Workload) -> float:
    index = cluster.placer.index
    index.refresh()
    view = View(index, np.arange(len(index.nodes)))
    return 100 * float(fragments.of(view).sum()) / workload.capacity
