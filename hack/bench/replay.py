"""The published replay (FGD, ATC'23): pods arrive one at a time, nothing leaves, nothing is tried again.

The list of pods is sorted by name and shuffled with the seed. After its last pod, pods are drawn from it at random (one
pod may be drawn several times) until 1.3 times the capacity was asked for. "At 100 %" is the mean over the arrivals
whose asked share rounds to 100.
"""

import hashlib
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hack.bench.cluster import BenchCluster
from hack.bench.workload import BenchPod, BenchWorkload

ARRIVALS = 1.3
# In clusters with fewer cards than this, one arrival can be more than 1 % of the capacity.
SMALL = 100


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample after one arrival: the percent of the capacity that was asked for, and the percent that is allocated.

    `useless` is the fragmented percent; None if it was not measured.
    """

    arrived: float
    allocated: float
    useless: float | None


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """The result of one policy with one seed.

    `first_failure` is the percent of the capacity for which pods had asked when one first did not fit.
    `digest` is the SHA-256 of the texts of all grants, in the order of the arrivals: equal digests are equal decisions.
    """

    samples: Sequence[Sample]
    placed: int
    first_failure: float | None
    seconds: float
    digest: bytes

    def at(self, percent: int) -> tuple[float, float]:
        """The allocated and useless percent when `percent` was asked for; if missing, of the last sample before."""
        before = [s for s in self.samples if s.arrived < percent + 0.5] or self.samples[:1]
        there = [s for s in before if round(s.arrived) == percent] or before[-1:]
        return (
            float(np.mean([s.allocated for s in there])),
            float(np.mean([s.useless for s in there if s.useless is not None] or [np.nan])),
        )


def arrivals(workload: BenchWorkload, seed: int) -> Iterator[BenchPod]:
    """The pods in the order of their arrival; each has a different name."""
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
    """Replay all arrivals with one policy and one seed."""
    cluster = BenchCluster(workload, policy, seed)
    samples: list[Sample] = []
    placed, failed, digest = 0, None, hashlib.sha256()
    asked = allocated = seconds = before = 0.0
    for job in arrivals(workload, seed):
        asked += workload.cards(job)
        cluster.learn(job)
        begin = time.perf_counter()
        grant = cluster.place(job)
        seconds += time.perf_counter() - begin
        digest.update(b"-" if grant is None else grant.encode().encode())
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
    return ReplayOutcome(samples, placed, failed, seconds / len(samples), digest.digest())
