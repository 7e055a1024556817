"""Jobs as values: one elastic Job that is right, and changes to it."""

from collections.abc import Mapping
from typing import Any

from device_plugin.core.batch import Job
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.reading import job_spec
from device_plugin.core.jobs.spec import PriorityClass
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.core.requests import DEFAULT_PREFIXES
from tests.builders import objects
from tests.builders.cards import FAMILY

ELASTIC: Mapping[str, str] = {"min-replicas": "2", "max-replicas": "8"}
CLASSES = {"": PriorityClass(), "high": PriorityClass(1000), "polite": PriorityClass(500, preempts=False)}


def template(limits: Mapping[str, str] | None = None, **written: Mapping[str, str]) -> Pod:
    """The pod that a Job makes, asking for a whole card; `labels` and `annotations` below vgpu.io/."""
    container = Container("main", ContainerKind.MAIN, {FAMILY: "1"} if limits is None else limits)
    kept: dict[str, Any] = {place: _ours(keys) for place, keys in written.items()}
    return Pod("ns", "", "", containers=(container,), **kept)


def job(
    labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = ELASTIC, **fields: Any
) -> Job:
    """A Job of 4 pods in the queue `default`, elastic from 2 to 8; keys below vgpu.io/ are written without it."""
    made: dict[str, Any] = {
        "parallelism": 4, "completions": 4, "indexed": True, "replacement": "Failed", "restart_policy": "Never",
        "template": template(),
    }  # fmt: skip
    written = _ours({"queue": "default"} if labels is None else labels)
    return Job(
        "ns",
        fields.pop("name", "train"),
        "uid",
        labels=written,
        annotations=_ours(annotations or {}),
        **(made | fields),
    )


def spec(*args: Any, **fields: Any) -> JobSpec:
    """What is read of such a Job."""
    return read(job(*args, **fields))


def read(written: Job) -> JobSpec:
    """What is read of a Job with the queue label; a slice counts a quarter of a card."""
    return job_spec(written, DEFAULT_PREFIXES, CLASSES, lambda _: 0.25)


def as_object(written: Job) -> dict[str, Any]:
    """The Job as its author would write it, for the API server."""
    asked = written.template
    pods: dict[str, Any] = {
        "restartPolicy": written.restart_policy,
        "containers": [objects.container(each.name, each.limits) for each in asked.containers],
    }
    spec: dict[str, Any] = {
        "parallelism": written.parallelism,
        "completions": written.completions,
        "completionMode": "Indexed" if written.indexed else "NonIndexed",
        "podReplacementPolicy": written.replacement,
        "suspend": True,
        "template": {
            "metadata": {"labels": dict(asked.labels or {}), "annotations": dict(asked.annotations or {})},
            "spec": pods,
        },
    }
    if written.success_policy:
        spec["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    if written.backoff_limit_per_index is not None:
        spec["backoffLimitPerIndex"] = written.backoff_limit_per_index
    if written.managed_by:
        spec["managedBy"] = written.managed_by
    metadata = {
        "name": written.name,
        "labels": dict(written.labels),
        "annotations": dict(written.annotations),
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _ours(keys: Mapping[str, str]) -> dict[str, str]:
    return {key if "/" in key else f"vgpu.io/{key}": text for key, text in keys.items()}
