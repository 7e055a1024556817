"""JobSets, RayJobs and the other kinds that the engine starts: as people write them, and as they are decoded."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from device_plugin.adapters.kube.workloads import read_workload
from device_plugin.core.batch import Job
from device_plugin.core.requests import DEFAULT_PREFIXES, all_resource_names
from device_plugin.core.workload_kinds import (
    JOB_SET,
    MPI_JOB,
    PYTORCH_JOB,
    RAY_CLUSTER,
    RAY_JOB,
    TRAIN_JOB,
    WorkloadKind,
)
from tests.builders.cards import FAMILY

Sets = Sequence[tuple[int, int]]
"""For each set of pods: its number of pods, and the cards that each of them asks for."""
QUEUED = {"vgpu.io/queue": "default"}
# Each kind whose sets may differ, and one whose sets are alike.
DIFFERING = (JOB_SET, RAY_JOB, RAY_CLUSTER, PYTORCH_JOB, MPI_JOB)
KINDS = (*DIFFERING, TRAIN_JOB)


def template(cards: int, **more: Any) -> dict[str, Any]:
    """The template of a pod that asks for whole cards; without a resource for 0."""
    resources = {"limits": {FAMILY: str(cards)}} if cards else {}
    return {"spec": {"containers": [{"name": "main", "image": "none", "resources": resources}], **more}}


def spec_of(kind: WorkloadKind, sets: Sets, *, suspend: bool | None = True, **pod: Any) -> dict[str, Any]:
    """The spec of a workload with these sets of pods."""
    if kind is JOB_SET:
        spec: dict[str, Any] = {"replicatedJobs": [
            {"name": f"set{number}", "replicas": 1, "template": {"spec": {
                "parallelism": count, "completions": count, "template": template(cards, **pod),
            }}} for number, (count, cards) in enumerate(sets)
        ]}  # fmt: skip
    elif kind in (RAY_JOB, RAY_CLUSTER):
        cluster = {
            "headGroupSpec": {"template": template(0)},
            "workerGroupSpecs": [
                {"groupName": f"set{number}", "replicas": count, "template": template(cards, **pod)}
                for number, (count, cards) in enumerate(sets)
            ],
        }
        spec = cluster
        if kind is RAY_JOB:
            spec = {"rayClusterSpec": cluster, "shutdownAfterJobFinishes": True}
    elif kind is TRAIN_JOB:
        ((count, cards),) = sets
        limits = {"limits": {FAMILY: cards}}
        spec = {"trainer": {"numNodes": count, "resourcesPerNode": limits}, "runtimeRef": {"name": "torch"}}
    else:
        field = "pytorchReplicaSpecs" if kind is PYTORCH_JOB else "mpiReplicaSpecs"
        spec = {field: {
            f"Set{number}": {"replicas": count, "template": template(cards, **pod)}
            for number, (count, cards) in enumerate(sets)
        }}  # fmt: skip
    suspended: dict[str, Any] = {} if suspend is None else {kind.suspend[-1]: suspend}
    if kind is MPI_JOB:
        suspended["cleanPodPolicy"] = "Running"
    return spec | ({"runPolicy": suspended} if len(kind.suspend) > 1 and suspended else suspended)


def body(
    kind: WorkloadKind, name: str, sets: Sets = ((1, 1),), labels: Mapping[str, str] = QUEUED,
    annotations: Mapping[str, str] | None = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """A suspended workload as its author writes it."""
    metadata = {"name": name, "labels": dict(labels), "annotations": dict(annotations or {})}
    return {
        "apiVersion": f"{kind.group}/{kind.version}", "kind": kind.name, "metadata": metadata,
        "spec": spec_of(kind, sets, **more),
    }  # fmt: skip


def decoded(kind: WorkloadKind, found: Mapping[str, Any], **metadata: Any) -> Job:
    """The workload as it is decoded, with more metadata."""
    given = {
        "namespace": "default",
        "uid": f"uid-{kind.plural}-{found['metadata']['name']}",
        "resourceVersion": "1",
    }
    text = json.dumps({**found, "metadata": {**found["metadata"], **given, **metadata}}).encode()
    return read_workload(kind, text, all_resource_names(DEFAULT_PREFIXES))


def workload(kind: WorkloadKind, name: str, sets: Sets = ((1, 1),), **more: Any) -> Job:
    """A suspended workload as it is decoded."""
    return decoded(kind, body(kind, name, sets, **more), creationTimestamp="2027-01-15T07:00:00Z")
