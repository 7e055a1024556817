"""The product's placement on a workload's nodes: it places pods, releases them, and learns the mix of requests."""

import random
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from device_plugin.core.contract.grants import Grant
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import POLICIES, Placer
from device_plugin.core.placement.fragmentation import FragmentationGauge
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.workload import TargetWorkload, Weighted
from device_plugin.core.requests import Shape
from hack.bench.workload import BenchPod, BenchWorkload

# The target workload is learnt again after 64 arrivals (FIRST_REFIT), then 128, 256, 512, then after every 1,024.
FIRST_REFIT, MOST_REFIT = 64, 1024
# Policies that get the list of pods in advance, as in the published protocol; and policies that learn the workload from
# arriving pods. The others use no workload, so the time to learn it is saved.
GIVEN = ("fgd",)
LEARNING = ("fragmentation",)


class BenchCluster:
    """One policy on a workload's nodes, in a fixed random order: the core breaks ties by name."""

    def __init__(self, workload: BenchWorkload, policy: str, seed: int) -> None:
        self._policy = policy
        self.ledger = Ledger()
        rng = random.Random(seed)
        for number, node in enumerate(rng.sample(list(workload.nodes), len(workload.nodes))):
            name = f"{number:05}"
            self.ledger.set_node(name, node.inventory, node.room)
        self.placer = Placer(self.ledger, POLICIES)
        listed = _listed(workload.jobs)
        tables = WorkloadTables(*self.placer.supply(), listed)
        self._gauge = FragmentationGauge(self.placer.table, tables.fragments)
        if policy in GIVEN:
            self.placer.learn(listed)
        self._target, self._refit = TargetWorkload(), FIRST_REFIT

    def learn(self, job: BenchPod) -> None:
        """Count an arriving pod in the mix of requests (target workload); if due, compute new tables from it."""
        if (shape := Shape.of(job.request)) is not None:
            self._target.add(shape)
        if self._policy in LEARNING and self._target.arrivals == self._refit:
            self.renew()
            self._refit += min(self._refit, MOST_REFIT)

    def renew(self) -> None:
        """Compute new tables from the mix of requests of all pods that have arrived so far."""
        self.placer.learn(self._target.frequent())

    def place(self, job: BenchPod) -> Grant | None:
        """Place a pod and hold its grant; None if it does not fit."""
        found = self.placer.place(replace(job.request, policy=self._policy))
        if not isinstance(found, Grant):
            return None
        self.ledger.hold(found, job.request.host)
        return found

    def leave(self, grant: Grant) -> None:
        """Release the grant of a pod that has ended."""
        self.ledger.release(grant.pod)

    def useless(self) -> float:
        """The percent of the cards' capacity that is idle and that no pod of the list can use."""
        self.placer.table.refresh()
        self._gauge.refresh()
        return 100 * self._gauge.ratio()


def _listed(jobs: Sequence[BenchPod]) -> Sequence[Weighted]:
    """The mix of requests (target workload) of a list of pods: each shape counts as often as it is in the list."""
    target = TargetWorkload(half_life=float("inf"))
    for job in jobs:
        if (shape := Shape.of(job.request)) is not None:
            # FGD's classes differ in CPU, share, number and model, not in memory.
            target.add(structs.replace(shape, host=structs.replace(shape.host, memory_mib=0)))
    return target.frequent(1.0)
