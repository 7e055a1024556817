"""The published replay (FGD, ATC'23): pods arrive one at a time, nothing leaves, nothing is tried again.

The list is sorted by name and shuffled with the seed, and pods drawn from it with replacement follow until 1.3 times
the capacity was asked for. "At 100 %" is the mean over the arrivals whose asked share rounds to 100.
"""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hack.bench.cluster import BenchCluster
from hack.bench.workload import BenchPod, BenchWorkload

ARRIVALS = 1.3
# In clusters with fewer cards single arrivals are more than 1 %.
SMALL = 100


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample after one arrival: the percent of the capacity that has been asked for, and that is allocated.

    `useless` is the percent that is fragmented, where that was measured.
    """

    arrived: float
    allocated: float
    useless: float | None


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """One policy on one seed. `first_failure` is the percent that had arrived when a pod first found no place."""

    samples: Sequence[Sample]
    placed: int
    first_failure: float | None
    seconds: float

    def at(self, percent: int) -> tuple[float, float]:
        """The allocated and useless percent when `percent` had arrived; for a small cluster the last sample before."""
        before = [s for s in self.samples if s.arrived < percent + 0.5] or self.samples[:1]
        there = [s for s in before if round(s.arrived) == percent] or before[-1:]
        return (
            float(np.mean([s.allocated for s in there])),
            float(np.mean([s.useless for s in there if s.useless is not None] or [np.nan])),
        )


def arrivals(workload: BenchWorkload, seed: int) -> Iterator[BenchPod]:
    """The pods in the order of their arrival; each has a name of its own."""
    rng = random.Random(seed)
    jobs = list(workload.jobs)
    rng.shuffle(jobs)
    asked, number = 0.0, 0
    while asked < ARRIVALS * workload.capacity:
        job = jobs[number] if number < len(jobs) else rng.choice(jobs)
        number += 1
        asked += workload.cards(job)
        yield job.named(number)


def replay(policy: str, seed: int, workload: BenchWorkload) -> ReplayOutcome:
    """One policy on one seed."""
    cluster = BenchCluster(workload, policy, seed)
    samples: list[Sample] = []
    placed, failed = 0, None
    asked = allocated = seconds = before = 0.0
    for job in arrivals(workload, seed):
        asked += workload.cards(job)
        cluster.learn(job)
        begin = time.perf_counter()
        grant = cluster.place(job)
        seconds += time.perf_counter() - begin
        if grant is not None:
            allocated += workload.cards(job)
            placed += 1
        elif failed is None:
            failed = 100 * asked / workload.capacity
        arrived = 100 * asked / workload.capacity
        measured = workload.capacity < SMALL or round(arrived) in (100, 130) or round(arrived) > before
        before = round(arrived)
        useless = cluster.useless() if measured else None
        samples.append(Sample(arrived, 100 * allocated / workload.capacity, useless))
    return ReplayOutcome(samples, placed, failed, seconds / len(samples))
