"""The sets of equal pods that a workload's controller makes, read from the workload by its API group and kind.

Each kind has its own place for templates and counts. The fields are those of the kinds' API references: Kubernetes,
JobSet v1alpha2, LeaderWorkerSet v1, KubeRay v1, Kubeflow's training operator v1, MPI operator v2beta1 and Trainer
v1alpha1, KServe v1beta1, Volcano v1alpha1, Argo Workflows v1alpha1.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]
# Fields of a pod's spec that some kinds have beside their containers.
_POD_FIELDS = ("affinity", "nodeSelector", "schedulerName", "serviceAccountName", "tolerations")
# The parts of an InferenceService, and the container that KServe makes of a model.
_INFERENCE, _MODEL_CONTAINER = ("predictor", "transformer", "explainer"), "kserve-container"
# The container that the runtimes of Kubeflow's Trainer have for the training program.
_TRAINER_CONTAINER = "node"


@dataclass(frozen=True, slots=True)
class PodSet:
    """`count` equal pods of `template`, which has metadata and spec; `role` is empty if the kind has only one set."""

    template: Object
    count: int = 1
    role: str = ""


Sets = Iterator[PodSet]


def pod_sets(found: Object) -> Sets:
    """The sets of pods of a workload object; a set without containers is left out.

    An object of an unknown kind is read as a Deployment is.
    """
    group, slash, _ = str(found.get("apiVersion")).partition("/")
    read = _KINDS.get((group if slash else "", str(found.get("kind"))), _deployment)
    for each in read(found):
        if isinstance(at(each.template, "spec", "containers"), list):
            yield each


def _pod(found: Object) -> Sets:
    yield PodSet(found)


def _deployment(found: Object) -> Sets:
    yield PodSet(_mapping(found, "spec", "template"), _count(found, "spec", "replicas"))


def _job(found: Object) -> Sets:
    # A Job has no more pods than it has completions left.
    at_once, completions = _count(found, "spec", "parallelism"), at(found, "spec", "completions")
    if isinstance(completions, int):
        at_once = min(at_once, _count(found, "spec", "completions"))
    yield PodSet(_mapping(found, "spec", "template"), at_once)


def _cron_job(found: Object) -> Sets:
    yield from _job(_mapping(found, "spec", "jobTemplate"))


def _job_set(found: Object) -> Sets:
    for each in _list(found, "spec", "replicatedJobs"):
        for job in _job(_mapping(each, "template")):
            yield PodSet(job.template, job.count * _count(each, "replicas"), _text(each, "name"))


def _leader_worker_set(found: Object) -> Sets:
    groups, size = _count(found, "spec", "replicas"), _count(found, "spec", "leaderWorkerTemplate", "size")
    template = _mapping(found, "spec", "leaderWorkerTemplate")
    # Without a template of its own the leader is made as a worker.
    if leader := _mapping(template, "leaderTemplate"):
        yield PodSet(leader, groups, "leader")
        size -= 1
    if size > 0:
        yield PodSet(_mapping(template, "workerTemplate"), groups * size, "worker")


def _ray_cluster(found: Object) -> Sets:
    yield from _ray(_mapping(found, "spec"))


def _ray_job(found: Object) -> Sets:
    yield from _ray(_mapping(found, "spec", "rayClusterSpec"))
    yield PodSet(_mapping(found, "spec", "submitterPodTemplate"), role="submitter")


def _ray_service(found: Object) -> Sets:
    yield from _ray(_mapping(found, "spec", "rayClusterConfig"))


def _ray(cluster: Object) -> Sets:
    yield PodSet(_mapping(cluster, "headGroupSpec", "template"), role="head")
    for each in _list(cluster, "workerGroupSpecs"):
        count = _count(each, "replicas") * _count(each, "numOfHosts")
        yield PodSet(_mapping(each, "template"), count, _text(each, "groupName"))


def _roles(field: str) -> Callable[[Object], Sets]:
    """A function that reads the pod sets of an object; each role has replicas and a template.

    It is for a kind of object whose spec has the roles at `field`.
    """

    def read(found: Object) -> Sets:
        for role, each in _mapping(found, "spec", field).items():
            yield PodSet(_mapping(each, "template"), _count(each, "replicas"), str(role).lower())

    return read


def _train_job(found: Object) -> Sets:
    """The pods of a TrainJob, as far as it describes them; its runtime, another object, completes the template."""
    trainer = _mapping(found, "spec", "trainer")
    if resources := _mapping(trainer, "resourcesPerNode"):
        container = {
            "name": _TRAINER_CONTAINER,
            "image": trainer.get("image", "unknown"),
            "resources": resources,
        }
        yield PodSet(_template(found, {}, container), _count(trainer, "numNodes"), _TRAINER_CONTAINER)


def _inference_service(found: Object) -> Sets:
    for role in _INFERENCE:
        part = _mapping(found, "spec", role)
        # At least one: a service that scales to zero needs room for its first pod.
        count = max(1, _count(part, "minReplicas"))
        if isinstance(part.get("containers"), list):
            yield PodSet({"metadata": _metadata(found), "spec": part}, count, role)
            continue
        # The model is in the field `model`, or in one with a framework's name.
        for model in part.values():
            if isinstance(model, dict) and "resources" in model:
                kept = {key: model[key] for key in ("args", "env", "resources") if key in model}
                image = model.get("image", "unknown")
                container = {"name": _MODEL_CONTAINER, "image": image, **kept}
                yield PodSet(_template(found, part, container), count, role)


def _volcano_job(found: Object) -> Sets:
    for each in _list(found, "spec", "tasks"):
        yield PodSet(_mapping(each, "template"), _count(each, "replicas"), _text(each, "name"))


def _workflow(found: Object) -> Sets:
    yield from _steps(_mapping(found, "spec"))


def _cron_workflow(found: Object) -> Sets:
    yield from _steps(_mapping(found, "spec", "workflowSpec"))


def _steps(workflow: Object) -> Sets:
    for each in _list(workflow, "templates"):
        container = _mapping(each, "container") or _mapping(each, "script")
        if container:
            template = _template(each, {**workflow, **each}, {"name": "main", **container})
            yield PodSet(template, role=_text(each, "name"))


_KINDS: Mapping[tuple[str, str], Callable[[Object], Sets]] = {
    ("", "Pod"): _pod,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    ("ray.io", "RayCluster"): _ray_cluster,
    ("ray.io", "RayJob"): _ray_job,
    ("ray.io", "RayService"): _ray_service,
    ("kubeflow.org", "PyTorchJob"): _roles("pytorchReplicaSpecs"),
    ("kubeflow.org", "TFJob"): _roles("tfReplicaSpecs"),
    ("kubeflow.org", "XGBoostJob"): _roles("xgbReplicaSpecs"),
    ("kubeflow.org", "PaddleJob"): _roles("paddleReplicaSpecs"),
    ("kubeflow.org", "MPIJob"): _roles("mpiReplicaSpecs"),
    ("trainer.kubeflow.org", "TrainJob"): _train_job,
    ("serving.kserve.io", "InferenceService"): _inference_service,
    ("batch.volcano.sh", "Job"): _volcano_job,
    ("argoproj.io", "Workflow"): _workflow,
    ("argoproj.io", "WorkflowTemplate"): _workflow,
    ("argoproj.io", "ClusterWorkflowTemplate"): _workflow,
    ("argoproj.io", "CronWorkflow"): _cron_workflow,
}


def _template(found: Object, around: Object, container: Object) -> Object:
    """A template with one container, the metadata of `found`, and the pod's fields in `around`."""
    fields = {key: around[key] for key in _POD_FIELDS if key in around}
    return {"metadata": _metadata(found), "spec": {**fields, "containers": [container]}}


def _metadata(found: Object) -> Object:
    """The labels and annotations that a controller copies from its object to its pods."""
    metadata = _mapping(found, "metadata")
    return {key: metadata[key] for key in ("labels", "annotations") if key in metadata}


def at(found: object, *path: str) -> Any:
    """The value at a path of keys; None if a part of the path is missing."""
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _mapping(found: object, *path: str) -> Object:
    value = at(found, *path)
    return value if isinstance(value, Mapping) else {}


def _list(found: object, *path: str) -> Iterator[Object]:
    value = at(found, *path)
    yield from (each for each in value if isinstance(each, Mapping)) if isinstance(value, list) else ()


def _text(found: Object, key: str) -> str:
    return str(found.get(key, ""))


def _count(found: object, *path: str) -> int:
    """A number of pods at a path of keys; 1 if no valid number is written."""
    value = at(found, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 1
