"""A World with workloads beside Jobs: their controllers make pods once they are not suspended, all of each at once."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from device_plugin.core.batch import Job, JobCondition
from device_plugin.core.contract.annotations import GRANT
from device_plugin.core.contract.resize import api_time
from device_plugin.core.gang import Member, place_all
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.pods import Pod
from device_plugin.core.requests import DEFAULT_PREFIXES, pod_request
from device_plugin.core.workload_kinds import JOB, RAY_JOB, WorkloadKind
from tests.builders.workloads import Sets, workload
from tests.jobs.world import World


class KindsWorld(World):
    """Three nodes of four cards, unless others are given. The pods of a workload are bound together or not at all."""

    def __init__(self, cards: int = 4, nodes: Sequence[str] = ("n1", "n2", "n3"), **more: Any) -> None:
        super().__init__(cards, nodes=nodes, **more)
        self.makes = True
        """False while no controller of these kinds runs."""
        self.cut = False
        """True while nothing is bound, as while the allocator is away."""

    def submit(self, kind: WorkloadKind, name: str, sets: Sets = ((1, 1),), **more: Any) -> Job:
        """Somebody creates a suspended workload of the queue `default`."""
        return self.api.put(replace(workload(kind, name, sets, **more), created=api_time(self.now)))

    def found(self, kind: WorkloadKind, name: str) -> Job:
        return self.api.jobs["default", kind.prefix + name]

    def bound(self, job: Job) -> int:
        """The number of the workload's pods that are bound."""
        return sum(bool(pod.node) for pod in self.of(job))

    def of(self, job: Job) -> list[Pod]:
        if job.kind is JOB:
            return super().of(job)
        return [pod for pod in self.api.pods.values() if job.pods_label and pod.workload == job.pods_label]

    def end(self, job: Job) -> None:
        """The workload completes, and its pods go."""
        for pod in self.of(job):
            self.api.remove_pod(pod)
        self.api.put(replace(self.api.jobs[job.key], conditions=(JobCondition("Complete"),)))

    def cluster(self) -> None:
        super().cluster()
        for job in [each for each in self.api.jobs.values() if each.kind is not JOB and not self.cut]:
            self._bind_together(job)

    def _control(self, job: Job) -> None:
        if job.kind is JOB:
            super()._control(job)
            return
        runs = not (job.suspend or job.ended or job.deleting)
        if job.kind is RAY_JOB and bool(job.pods_label) is not runs:
            # The name of its RayCluster is in its status while there is one.
            for pod in self.of(job):
                self.api.remove_pod(pod)
            job = self.api.put(replace(job, pods_label=f"ray.io/cluster={job.name}-x" if runs else ""))
        if not runs:
            for pod in self.of(job):
                self.api.remove_pod(pod)
            return
        if not self.makes:
            return
        there = {pod.name for pod in self.of(job)}
        for number, each in enumerate(job.sets):
            for index in range(each.count):
                name = f"{job.kind.plural}-{job.name}-{number}-{index}"
                if name not in there:
                    self.api.put_pod(structs.replace(
                        each.template, name=name, uid=self.api.uid(name), workload=job.pods_label,
                        created=api_time(self.now),
                    ))  # fmt: skip

    def _bind(self, pod: Pod) -> None:
        if not pod.workload and not self.cut:
            self._place([pod])

    def _bind_together(self, job: Job) -> None:
        self._place([pod for pod in self.of(job) if not pod.node and pod.name not in self.kept_back])

    def _place(self, pods: Sequence[Pod]) -> None:
        """Bind all of these pods, as the allocator places a gang, or none of them."""
        if not pods:
            return
        ledger = Ledger()
        ledger.restore(self.engine.view.snapshot())
        requests = [pod_request(pod, DEFAULT_PREFIXES) for pod in pods]
        members = [Member(request) for request in requests if request is not None]
        answer = place_all(members, Placer(ledger), ledger)
        for grant in () if isinstance(answer, Refusal) else answer:
            pod = self.api.pods[grant.pod]
            kept = {**(pod.annotations or {}), GRANT: grant.encode()}
            self.api.put_pod(structs.replace(pod, node=grant.node, phase="Running", annotations=kept))
