"""Pods that ask for slices."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.release import NAMED

IMAGE = "vgpu.io/workload:0.1.0"
PREFIX = "hygon.com/dcu"
# It ends as soon as it is told to, as one that failed: process 1 without a handler would be killed a second later,
# in nearly every test.
SLEEP = ("sh", "-c", "trap 'exit 143' TERM; sleep 100000 & wait")


def slice_of(mem: int = 0, cores: int = 0, whole: int = 0) -> dict[str, Any]:
    """The `resources` of a container."""
    limits = {PREFIX: whole, f"{PREFIX}-mem": mem, f"{PREFIX}-cores": cores}
    return {"limits": {name: str(count) for name, count in limits.items() if count}}


def container(name: str = "main", command: Sequence[str] = SLEEP, **fields: Any) -> dict[str, Any]:
    """One container of the workload image."""
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        **fields,
    }


def pod(name: str, *containers: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod of `containers` (default: one that asks for nothing); a second after it is told to end it is killed."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "containers": list(containers) or [container()],
            "terminationGracePeriodSeconds": 1,
            "tolerations": [],
            **NAMED,
            **spec,
        },
    }


def slice_pod(name: str, mem: int = 0, cores: int = 0, **spec: Any) -> dict[str, Any]:
    """A pod of one container that holds a slice and sleeps; `command` among `spec` is the container's."""
    command = spec.pop("command", SLEEP)
    return pod(name, container(command=command, resources=slice_of(mem, cores)), **spec)


def deployment(
    name: str, replicas: int, template: Mapping[str, Any], kind: str = "Deployment"
) -> dict[str, Any]:
    """A Deployment (or a StatefulSet) of pods like `template`."""
    labels = {"app": name}
    spec = {**template["spec"]}
    spec.pop("tolerations", None)
    made: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    if kind == "StatefulSet":
        made["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return made


def job(name: str, template: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A Job whose pods are not restarted in place."""
    spec = {**template["spec"], "restartPolicy": "Never"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"metadata": {"labels": {"app": name}}, "spec": spec}, **fields},
    }
