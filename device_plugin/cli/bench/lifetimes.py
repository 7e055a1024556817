"""Pods that leave again, and wait when they do not fit.

Lifetimes are drawn from a list, arrivals come at random so often that a given share of the capacity is asked for. The
cluster does not start empty, for then the few pods that stay very long would be missing for as long: it starts with as
many pods as are there on average, each somewhere within its life, long lives being met more often. Whenever a pod
leaves, those that wait are tried again, the longest waiting first.
"""

import heapq
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from device_plugin.cli.bench.cluster import Cluster
from device_plugin.cli.bench.workload import Job, Workload
from device_plugin.core.grants import Grant, Slice
from device_plugin.core.placement.fit import fit

# What is measured, in mean lifetimes after the start.
FROM, UNTIL = 0.5, 2.0


@dataclass(frozen=True, slots=True)
class Steady:
    """Mean percent of the capacity that was allocated, and for how many seconds pods waited.

    The wait of a pod that waits still counts as far as it goes.
    """

    allocated: float
    waits: Sequence[float]


class Waiting:
    """Pods that wait, by what they ask: where one does not fit, the others of its kind do not either."""

    def __init__(self) -> None:
        self._queues: dict[object, deque[tuple[float, Job]]] = {}

    def add(self, since: float, job: Job) -> None:
        """A pod waits, behind all others of its kind."""
        self._queues.setdefault(_kind(job), deque()).append((since, job))

    def blocked(self, job: Job) -> bool:
        """True if another of its kind waits already."""
        return bool(self._queues.get(_kind(job)))

    def tried(self) -> Iterator[tuple[float, Job]]:
        """The first of each kind, longest waiting first; one that is taken is followed by the next of its kind."""
        heads = [
            (queue[0][0], number, kind) for number, (kind, queue) in enumerate(self._queues.items()) if queue
        ]
        for _, _, kind in sorted(heads, key=lambda head: head[:2]):
            queue = self._queues[kind]
            while queue:
                first = queue[0]
                yield first
                if queue and queue[0] is first:  # not taken
                    break

    def take(self, job: Job) -> None:
        """The first of its kind waits no longer."""
        self._queues[_kind(job)].popleft()

    def left(self) -> Iterator[float]:
        """Since when each of those that wait still does."""
        return (since for queue in self._queues.values() for since, _ in queue)


def simulate(
    policy: str, seed: int, workload: Workload, lifetimes: Sequence[float], offered: float
) -> Steady:
    """One policy on one seed, with so many percent of the capacity `offered`. Time is in mean lifetimes."""
    cluster, rng = Cluster(workload, policy, seed), random.Random(seed)
    waiting, numbers = Waiting(), count()
    ends: list[tuple[float, int, Job, Grant]] = []
    mean = float(np.mean(lifetimes))
    lives = [life / mean for life in lifetimes]
    size = float(np.mean([workload.cards(job) for job in workload.jobs]))
    rate = offered / 100 * workload.capacity / size
    area = held = last = 0.0
    waits: list[float] = []
    left: dict[str, float] = {}

    def start(job: Job, grant: Grant, now: float, since: float) -> None:
        nonlocal held
        held += workload.cards(job)
        heapq.heappush(ends, (now + left.pop(job.name), next(numbers), job, grant))
        if since >= FROM:
            waits.append(now - since)

    def arrive(now: float, life: float) -> None:
        job = rng.choice(workload.jobs).named(next(numbers))
        left[job.name] = life
        cluster.learn(job)
        grant = None if waiting.blocked(job) else cluster.place(job)
        if grant is None:
            waiting.add(now, job)
        else:
            start(job, grant, now, now)

    for life in rng.choices(lives, lives, k=round(rate)):
        arrive(0.0, life * rng.random())
    arrival = rng.expovariate(rate)
    while (now := min(arrival, ends[0][0] if ends else arrival)) < UNTIL:
        area += held * max(0.0, now - max(last, FROM))
        last = now
        if now == arrival:
            arrive(now, rng.choice(lives))
            arrival = now + rng.expovariate(rate)
            continue
        _, _, job, grant = heapq.heappop(ends)
        cluster.leave(grant)
        held -= workload.cards(job)
        for since, other in waiting.tried():
            found = cluster.place(other) if _could(cluster, grant.node, other) else None
            if found is not None:
                waiting.take(other)
                start(other, found, now, since)
    area += held * max(0.0, UNTIL - max(last, FROM))
    waits += [UNTIL - since for since in waiting.left() if since >= FROM]
    return Steady(100 * area / (UNTIL - FROM) / workload.capacity, [mean * wait for wait in waits])


def _could(cluster: Cluster, node: str, job: Job) -> bool:
    """Whether the node where something was just given back may have room: nowhere else has more than before."""
    state, room, request = cluster.ledger.node(node), cluster.hosts.room(node), job.request
    if state is None or room.cpu_milli < request.host.cpu_milli or room.memory_mib < request.host.memory_mib:
        return False
    if not request.containers:
        return True
    asked = request.containers[0][1]
    return sum(isinstance(fit(card, asked), Slice) for card in state.cards) >= max(1, asked.whole)


def _kind(job: Job) -> object:
    request = job.request
    return request.containers, request.models, request.host
