"""Creates, releases and deletes the pods of a Job."""

import copy
from contextlib import suppress
from typing import Any

from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import GoneError
from hack.embedded.jobs.sync import INDEX, TRACKING
from hack.embedded.pod_spec import ref

Object = dict[str, Any]
VARIABLE = "JOB_COMPLETION_INDEX"


def new_pod(job: Object, index: int | None) -> Object:
    """A new pod of the Job with this index; None in a Job without indexes."""
    metadata, template = job["metadata"], copy.deepcopy(job["spec"]["template"])
    spec, made = template["spec"], template.get("metadata") or {}
    name = metadata["name"]
    kept = {key: dict(made.get(key) or {}) for key in ("labels", "annotations")}
    if index is not None:
        for texts in kept.values():
            texts[INDEX] = str(index)
        spec["hostname"] = name = f"{name}-{index}"
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            _number(container)
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    own = {"generateName": f"{name}-", "ownerReferences": [owner], "finalizers": [TRACKING]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**kept, **own}, "spec": spec}


def _number(container: Object) -> None:
    """Set the environment variable with the pod's index in a container, unless the container has it."""
    variables = container.setdefault("env", [])
    if all(variable["name"] != VARIABLE for variable in variables):
        variables.append(
            {"name": VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}
        )


def release(api: Api, pod: Object) -> None:
    """Remove the finalizer that keeps the pod until its end is counted."""
    finalizers = pod["metadata"].get("finalizers") or []
    if TRACKING in finalizers:
        left = [finalizer for finalizer in finalizers if finalizer != TRACKING]
        with suppress(GoneError):
            api.patch(PODS, ref(pod), {"metadata": {"finalizers": left or None}})


def delete(api: Api, pod: Object) -> None:
    """Delete the pod with its own grace period."""
    with suppress(GoneError):
        api.delete(PODS, ref(pod))
