"""Decodes JobSets, RayJobs and the other kinds of core/workload_kinds into the form of Jobs.

Their templates and counts are read by core/pod_sets, which `vgpu fit` uses too. A tenant's texts are cut to the length
that is needed, and of the sets of pods MOST_SETS are read.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from device_plugin.adapters.kube import structs
from device_plugin.adapters.kube.jobs import MAX_GRACE, of_metadata
from device_plugin.adapters.kube.pods import Resources
from device_plugin.adapters.kube.structs import (
    MAX_NAME,
    SAID,
    SHOWN,
    DecodeError,
    Text,
    decoder,
)
from device_plugin.adapters.kube.templates import read_template
from device_plugin.core.batch import Job, JobCondition, WorkloadPods
from device_plugin.core.pod_sets import Object, PodSet, at, pod_sets
from device_plugin.core.pods import Pod
from device_plugin.core.workload_kinds import (
    JOB_SET,
    MPI_JOB,
    MPI_JOB_V1,
    RAY_CLUSTER,
    RAY_JOB,
    TRAIN_JOB,
    WorkloadKind,
)

# Most sets of pods of one workload, and most of its conditions that are looked at.
MOST_SETS, _CONDITIONS = 64, 32
_decoded, _read_meta = decoder(dict[str, Any]), decoder(structs.Owned)
# The values of managedBy that name the kind's own controller.
_OWN_CONTROLLERS = frozenset((
    "jobset.sigs.k8s.io/jobset-controller", "ray.io/kuberay-operator", "trainer.kubeflow.org/trainjob-controller",
    "kubeflow.org/training-operator", "kubeflow.org/mpi-operator",
))  # fmt: skip
# The field that names the pods that are deleted when an MPIJob ends; kubeflow.org/v1 has it in `spec` too.
_CLEAN = "cleanPodPolicy"
_ENDS = {"Complete": "Complete", "Failed": "Failed", "ValidationFailed": "Failed"}
_SUSPENDED = {"Suspended": "Suspended", "RayClusterSuspended": "Suspended"}


def read_workload(kind: WorkloadKind, text: Text, resources: Resources = None) -> Job:
    """Returns the workload in the JSON text of an object of this kind. Raises DecodeError."""
    meta = _read_meta(text).metadata
    # The items of a list have no apiVersion and kind of their own.
    found = {**_decoded(text), "apiVersion": f"{kind.group}/{kind.version}", "kind": kind.name}
    # One more than is allowed, to notice that there are too many.
    written, sets = [*islice(pod_sets(found), MOST_SETS + 1)], list[WorkloadPods]()
    problem = _problem(kind, found, len(written))
    try:
        sets += _sets(written[:MOST_SETS], meta.namespace, resources)
    except DecodeError as error:
        problem = f"its pods cannot be read: {str(error)[:SAID]}"
    width = sum(each.count for each in sets)
    return Job(
        **of_metadata(meta),
        suspend=at(found, "spec", *kind.suspend) is True,
        parallelism=width,
        completions=width,
        grace_seconds=_grace(written[:MOST_SETS]),
        priority_class=sets[0].priority_class if sets else "",
        template=sets[0].template if sets else Pod(meta.namespace, "", ""),
        conditions=tuple(_conditions(kind, found)),
        kind=kind,
        sets=tuple(sets),
        pods_label=_pods_label(kind, found, meta.name),
        together=_together(kind, found),
        problem=problem,
    )


def _sets(written: Sequence[PodSet], namespace: str, resources: Resources) -> Sequence[WorkloadPods]:
    """Returns the sets of pods that wait for each other: those that ask for cards, or all if none asks.

    Pods without cards do not wait: a launcher or a submitter may come later than the others. Raises DecodeError.
    """
    read = list[WorkloadPods]()
    for each in written:
        made = read_template(dict(each.template), namespace, resources)
        name = _cut(each.template, MAX_NAME, "spec", "priorityClassName")
        if each.count:
            read.append(WorkloadPods(made.pod, made.nodes, each.count, name))
    return [each for each in read if each.template.containers] or read


def _problem(kind: WorkloadKind, found: Object, sets: int) -> str:
    """Returns the text on why the job engine cannot start the workload, and what to write; empty if it can.

    `sets` is the number of the workload's sets of pods.
    """
    manager = _cut(found, SHOWN, "spec", "managedBy") or _cut(found, SHOWN, "spec", "runPolicy", "managedBy")
    if manager and manager not in _OWN_CONTROLLERS:
        return (
            f"managedBy is {manager}, a controller that decides by itself when it runs: leave out"
            " managedBy, or the label vgpu.io/queue"
        )
    if at(_ray_spec(kind, found), "enableInTreeAutoscaling") is True:
        return "enableInTreeAutoscaling changes its width while it runs: leave it out, or the label vgpu.io/queue"
    if kind is RAY_JOB and at(found, "spec", "clusterSelector"):
        return (
            "clusterSelector names a RayCluster that runs already: leave out the label vgpu.io/queue here, and write it"
            " on the RayCluster"
        )
    if kept := _kept_after_its_end(kind, found):
        return kept
    if not sets and kind is TRAIN_JOB:
        return (
            "it does not say what its pods ask for: write spec.trainer.numNodes and spec.trainer.resourcesPerNode, with"
            " the cards in limits"
        )
    if sets > MOST_SETS:
        return f"it has more than {MOST_SETS} sets of pods: write fewer"
    return "" if sets else "it has no pods: write their templates"


def _kept_after_its_end(kind: WorkloadKind, found: Object) -> str:
    """Returns the text on why the workload would keep its cards after its end, and what to write; empty if not."""
    if kind is RAY_JOB and at(found, "spec", "shutdownAfterJobFinishes") is not True:
        return (
            "without shutdownAfterJobFinishes its RayCluster keeps the cards after the end, and KubeRay refuses a"
            " suspended RayJob: write shutdownAfterJobFinishes: true in spec"
        )
    cleaned = _cut(found, SHOWN, "spec", "runPolicy", _CLEAN) or _cut(found, SHOWN, "spec", _CLEAN)
    if kind in (MPI_JOB, MPI_JOB_V1) and cleaned not in ("Running", "All"):
        return (
            "the workers of an MPIJob run on after its launcher has ended, and keep the cards: write cleanPodPolicy:"
            " Running in spec.runPolicy"
        )
    return ""


def _ray_spec(kind: WorkloadKind, found: Object) -> object:
    """Returns the specification of the RayCluster; None for other kinds."""
    if kind is RAY_CLUSTER:
        return at(found, "spec")
    return at(found, "spec", "rayClusterSpec") if kind is RAY_JOB else None


def _together(kind: WorkloadKind, found: Object) -> bool:
    """Returns true if the controller makes all pods at once, so that all can be placed together."""
    if kind is JOB_SET:
        replicated = at(found, "spec", "replicatedJobs")
        waits = isinstance(replicated, list) and any(at(each, "dependsOn") for each in replicated)
        return not waits and _cut(found, SHOWN, "spec", "startupPolicy", "startupPolicyOrder") != "InOrder"
    if kind in (MPI_JOB, MPI_JOB_V1):
        return _cut(found, SHOWN, "spec", "launcherCreationPolicy") != "WaitForWorkersReady"
    return True


def _pods_label(kind: WorkloadKind, found: Object, name: str) -> str:
    """Returns the label of the pods, as `key=value`; empty while its value is not known.

    The pods of a RayJob name the RayCluster that its controller has made.
    """
    value = at(found, "status", "rayClusterName") if kind is RAY_JOB else name
    return f"{kind.pod_label}={value}"[:MAX_NAME] if isinstance(value, str) and value else ""


def _grace(written: Sequence[PodSet]) -> int:
    """Returns the longest grace period of the pods in seconds, at least Kubernetes' default of 30."""
    times = (at(each.template, "spec", "terminationGracePeriodSeconds") for each in written)
    return max([30, *(min(each, MAX_GRACE) for each in times if isinstance(each, int))])


def _conditions(kind: WorkloadKind, found: Object) -> Iterator[JobCondition]:
    """Yields the conditions that show the workload's end or its suspension, under the names that Jobs have for them."""
    if kind is RAY_JOB:
        state = _cut(found, SHOWN, "status", "jobDeploymentStatus")
        if state in _ENDS:
            message, since = _cut(found, SAID, "status", "message"), _cut(found, SHOWN, "status", "endTime")
            yield JobCondition(_ENDS[state], state, message, since)
        return
    written, names = at(found, "status", "conditions"), _SUSPENDED
    if kind is not RAY_CLUSTER:
        names = {**names, kind.complete: "Complete", kind.failed: "Failed"}
    for each in islice(written, _CONDITIONS) if isinstance(written, list) else ():
        name = names.get(_cut(each, SHOWN, "type"))
        if name is not None and at(each, "status") == "True":
            reason, message = _cut(each, SHOWN, "reason"), _cut(each, SAID, "message")
            yield JobCondition(name, reason, message, _cut(each, SHOWN, "lastTransitionTime"))


def _cut(found: object, most: int, *path: str) -> str:
    """Returns the text at a path, cut to `most` characters; empty if there is none."""
    text = at(found, *path)
    return text[:most] if isinstance(text, str) else ""
