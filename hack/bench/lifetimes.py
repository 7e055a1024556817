"""A simulation of pods that end after a lifetime, and that wait when they do not fit.

Lifetimes are drawn from a list. Arrivals are random, at a rate that asks for a given share of the capacity. The cluster
starts with the average number of pods, each at a random moment of its lifetime: in an empty cluster the few pods that
stay very long would be missing at first. Whenever a pod ends, the waiting pods are tried again, the longest waiting
first.
"""

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count

import numpy as np

from device_plugin.core.contract.grants import Grant
from device_plugin.core.hosts import NOTHING
from device_plugin.core.placement.fit import fit
from hack.bench.cluster import BenchCluster
from hack.bench.workload import BenchPod, BenchWorkload

# The begin and the end of the measured period, in mean lifetimes after the start.
FROM, UNTIL = 0.5, 2.0


@dataclass(frozen=True, slots=True)
class Steady:
    """The mean allocated percent of the capacity, and the seconds that each pod waited, in the measured period.

    Pods that came before the period and pods that still wait at its end count too: without them a policy that starves
    pods would look better.
    """

    allocated: float
    waits: Sequence[float]
    arrived: int

    @property
    def wait(self) -> float:
        """The mean wait in seconds, by Little's law: the sum of all waits divided by the number of arrived pods."""
        return sum(self.waits) / max(1, self.arrived)


class WaitingJobs:
    """Waiting pods by request: if one does not fit, no other with an equal request does."""

    def __init__(self) -> None:
        self._queues: dict[object, deque[tuple[float, int, BenchPod]]] = {}
        self._numbers = count()

    def add(self, since: float, job: BenchPod) -> None:
        """Add a pod behind all others; it has waited since `since`."""
        self._queues.setdefault(_kind(job), deque()).append((since, next(self._numbers), job))

    def blocked(self, job: BenchPod) -> bool:
        """True if a pod with an equal request waits already."""
        return bool(self._queues.get(_kind(job)))

    def tried(self) -> Iterator[tuple[float, BenchPod]]:
        """Yield the waiting pods, the longest waiting first; if a pod is not taken, its equals are skipped."""
        # Numbers are unique, so that the elements after them are never compared.
        heads = [(*queue[0][:2], queue) for queue in self._queues.values() if queue]
        heapify(heads)
        while heads:
            since, number, queue = heappop(heads)
            yield since, queue[0][2]
            if (
                queue and queue[0][1] != number
            ):  # the pod was taken: the next pod with its request may fit too
                heappush(heads, (*queue[0][:2], queue))

    def take(self, job: BenchPod) -> None:
        """Remove the first waiting pod with this pod's request."""
        self._queues[_kind(job)].popleft()

    def left(self) -> Iterator[float]:
        """The time at which each waiting pod began to wait."""
        return (since for queue in self._queues.values() for since, _, _ in queue)


def simulate(
    policy: str, seed: int, workload: BenchWorkload, lifetimes: Sequence[float], offered: float
) -> Steady:
    """Simulate one policy with one seed; arriving pods ask for `offered` percent of the capacity.

    Times inside are in mean lifetimes.
    """
    cluster, rng = BenchCluster(workload, policy, seed), random.Random(seed)
    waiting, numbers = WaitingJobs(), count()
    ends: list[tuple[float, int, BenchPod, Grant]] = []
    mean = float(np.mean(lifetimes))
    lives = [life / mean for life in lifetimes]
    size = float(np.mean([workload.cards(job) for job in workload.jobs]))
    rate = offered / 100 * workload.capacity / size
    area = held = last = 0.0
    waits: list[float] = []
    arrived = 0
    left: dict[str, float] = {}

    def start(job: BenchPod, grant: Grant, now: float, since: float) -> None:
        nonlocal held
        held += workload.cards(job)
        heappush(ends, (now + left.pop(job.name), next(numbers), job, grant))
        if now >= FROM:
            waits.append(now - max(since, FROM))

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
            arrived += now >= FROM
            arrive(now, rng.choice(lives))
            arrival = now + rng.expovariate(rate)
            continue
        _, _, job, grant = heappop(ends)
        cluster.leave(grant)
        held -= workload.cards(job)
        freed = Freed(cluster, grant.node)
        for since, other in waiting.tried():
            found = cluster.place(other) if freed.could(other) else None
            if found is not None:
                waiting.take(other)
                start(other, found, now, since)
                freed = Freed(cluster, grant.node)
    area += held * max(0.0, UNTIL - max(last, FROM))
    waits += [UNTIL - max(since, FROM) for since in waiting.left()]
    allocated = 100 * area / (UNTIL - FROM) / workload.capacity
    return Steady(allocated, [mean * wait for wait in waits], arrived)


class Freed:
    """The node where a pod has just ended: only this node has more room than when the waiting pods were last tried."""

    def __init__(self, cluster: BenchCluster, node: str) -> None:
        state = cluster.ledger.node(node)
        self._cards = state.cards if state is not None else ()
        self._left = state.left if state is not None else NOTHING

    def could(self, job: BenchPod) -> bool:
        """True if the node may have room for the pod."""
        left, host, request = self._left, job.request.host, job.request
        if left.cpu_milli < host.cpu_milli or left.memory_mib < host.memory_mib:
            return False
        if not request.containers:
            return True
        asked = request.containers[0][1]
        cards = (card for card in self._cards if request.models.accepts_model(card.card.model))
        return sum(fit(card, asked) is not None for card in cards) >= asked.cards


def _kind(job: BenchPod) -> object:
    request = job.request
    return request.containers, request.models, request.host
