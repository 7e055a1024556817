"""Jobs that the engine queues, and their pods."""

from dataclasses import replace
from typing import Any

from device_plugin.core.batch import Job, JobCondition
from device_plugin.core.contract.resize import Resize
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.pods import Pod
from device_plugin.kube.api import Metadata
from device_plugin.state.managed import Managed
from tests.builders.jobs import job_spec

GRACE = 30


def job(name: str, width: int = 1, **more: object) -> Job:
    """An Indexed Job of this width that runs, with all of its pods active."""
    fields = {
        "namespace": "default", "name": name, "uid": f"uid-{name}", "version": "1",
        "labels": {"vgpu.io/queue": "default"}, "parallelism": width, "completions": width, "indexed": True,
        "replacement": "Failed", "grace_seconds": GRACE, "active": width, "ready": width, **more,
    }  # fmt: skip
    return Job(**fields)  # type: ignore[arg-type]


def queued_job(name: str, group: str = "", record: str = "", namespace: str = "default") -> Metadata:
    """The metadata of a Job with the queue label, its uid `job-NAME`."""
    labels = {"vgpu.io/queue": "default"} | ({"vgpu.io/group": group} if group else {})
    annotations = {"vgpu.io/resize": record} if record else {}
    return Metadata(name, namespace, f"job-{name}", labels=labels, annotations=annotations)


def waiting(name: str, width: int = 1, **more: object) -> Job:
    """A suspended Job."""
    return job(name, width, **{"suspend": True, "active": 0, "ready": 0, **more})


def ended(made: Job) -> Job:
    """The Job once it is complete."""
    return replace(
        made, active=0, ready=0, succeeded=made.parallelism, conditions=(JobCondition("Complete"),)
    )


def replica(of: Job, index: int, node: str = "n1", **more: object) -> Pod:
    """A running pod of a Job."""
    name = f"{of.name}-{index}"
    fields = {
        "node": node, "phase": "Running", "owner": "Job", "owner_name": of.name, "owner_uid": of.uid, "index": index,
        **more,
    }  # fmt: skip
    return Pod(of.namespace, f"{name}-x", f"uid-{name}", **fields)  # type: ignore[arg-type]


def managed(of: Job, pods: int | None = None, record: Resize | None = None, **more: object) -> Managed:
    """The Job with pods of the indexes below `pods`; as many as are active, unless told. Its record is kept."""
    held = tuple(replica(of, index) for index in range(of.active if pods is None else pods))
    fields = {"past": record.past if record is not None else None, **more}
    return Managed(job=of, spec=spec(of), pods=held, record=record, **fields)  # type: ignore[arg-type]


def spec(of: Job, **more: Any) -> JobSpec:
    """What its author asks for: one whole card for each replica."""
    return job_spec(of.name, asked=of.parallelism, most=max(8, of.parallelism), **more)


def resize(before: int, after: int, **more: object) -> Resize:
    """A record that was made at 1000 and stands until 1100."""
    fields = {"gen": 1, "before": before, "after": after, "asked": 1000.0, "until": 1100.0, **more}
    return Resize(**fields)  # type: ignore[arg-type]
