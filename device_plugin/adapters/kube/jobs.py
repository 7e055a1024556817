"""Decodes batch/v1 Jobs. A tenant's texts are cut to the length that is needed."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypedDict

from device_plugin.adapters.kube import structs
from device_plugin.adapters.kube.constraints import node_constraints
from device_plugin.adapters.kube.pods import Resources, template_pod
from device_plugin.adapters.kube.structs import (
    MAX_NAME,
    MAX_OWNER,
    PREFIX,
    SAID,
    SHOWN,
    Text,
    controller,
    decoder,
    ours,
)
from device_plugin.core.batch import Job, JobCondition
from device_plugin.core.contract import annotations
from device_plugin.core.requests import MAX_LIST, MAX_WORD

# Kueue's labels and annotations are decoded too. Each text is cut one character beyond the longest that is accepted.
KUEUE_PREFIX = "kueue.x-k8s.io/"
_LONG = {annotations.CARD_MODEL: MAX_LIST + 1, annotations.RESIZE: annotations.MAX_BYTES + 1}
# Most characters of a Job's indexes, most of its conditions, and most characters of the engine's own condition.
_INDEXES, _CONDITIONS, _KEPT = 32 * 1024, 8, 4096
# Longest grace period in seconds: Kubernetes accepts any number, and a record holds a time that is computed from it.
MAX_GRACE = 366 * 86_400
_decoded = decoder(structs.RawJob)


class JobMetadata(TypedDict):
    """The fields of the core type Job that come from a Job's metadata."""

    namespace: str
    name: str
    uid: str
    version: str
    created: str
    deleting: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner: str
    owner_name: str
    owner_uid: str


def read_job(text: Text, resources: Resources = None) -> Job:
    """Returns the Job in the JSON text of a batch/v1 Job. Raises DecodeError."""
    raw = _decoded(text)
    spec, status = raw.spec, raw.status
    template = template_pod(raw.metadata.namespace, spec.template, resources)
    asked = sorted({name for container in template.containers for name in container.limits})
    return Job(
        **of_metadata(raw.metadata),
        suspend=bool(spec.suspend),
        parallelism=_number(spec.parallelism, 1),
        completions=spec.completions,
        indexed=spec.completion_mode == "Indexed",
        replacement=spec.pod_replacement_policy or "",
        backoff_limit=_number(spec.backoff_limit, 6),
        backoff_limit_per_index=spec.backoff_limit_per_index,
        success_policy=spec.success_policy is not None,
        managed_by=(spec.managed_by or "")[:MAX_OWNER],
        restart_policy=spec.template.spec.restart_policy,
        grace_seconds=min(_number(spec.template.spec.termination_grace_period_seconds, 30), MAX_GRACE),
        priority_class=spec.template.spec.priority_class_name[:MAX_NAME],
        template=template,
        nodes=node_constraints(spec.template.spec, asked),
        started=status.start_time or "",
        active=status.active,
        ready=status.ready or 0,
        succeeded=status.succeeded,
        failed=status.failed,
        terminating=status.terminating or 0,
        completed_indexes=_indexes(status.completed_indexes),
        conditions=tuple(islice(_conditions(status), _CONDITIONS)),
        kept=_kept(status),
    )


def of_metadata(meta: structs.Meta) -> JobMetadata:
    """Returns the fields of a Job, or of another workload, that are in its metadata."""
    owner = controller(meta)
    return JobMetadata(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        created=meta.creation_timestamp or "",
        deleting=meta.deletion_timestamp is not None,
        labels=_of_job(meta.labels),
        annotations=_of_job(meta.annotations),
        owner=owner.kind[:MAX_OWNER],
        owner_name=owner.name[:MAX_NAME],
        owner_uid=owner.uid[:MAX_OWNER],
    )


def _number(written: int | None, default: int) -> int:
    return default if written is None else written


def _of_job(kept: Mapping[str, str] | None) -> Mapping[str, str]:
    """Returns the labels or annotations of a Job with our prefix or Kueue's, each cut."""
    return {key: text[: _LONG.get(key, MAX_WORD + 1)] for key, text in ours(kept, PREFIX, KUEUE_PREFIX)}


def _indexes(text: str) -> str:
    """Returns the text of a list of indexes (`1,3-5`), cut at a comma if it is longer than _INDEXES characters."""
    return text if len(text) <= _INDEXES else text[:_INDEXES].rpartition(",")[0]


def _conditions(status: structs.RawJobStatus) -> Iterator[JobCondition]:
    for raw in status.conditions or ():
        if raw.status == "True" and raw.type != annotations.RESIZE:
            since = raw.last_transition_time or ""
            yield JobCondition(raw.type[:MAX_OWNER], raw.reason[:SHOWN], raw.message[:SAID], since)


def _kept(status: structs.RawJobStatus) -> str:
    """Returns the message of the condition that the job engine itself keeps in the Job's status; empty without it."""
    found = (raw.message for raw in status.conditions or () if raw.type == annotations.RESIZE)
    return next(found, "")[: _KEPT + 1]
