"""Jobs as one round sees them."""

from typing import Any

from device_plugin.core.jobs.job import JobPhase, JobSpec, JobState
from tests.builders.requests import whole_request


def job_spec(name: str, *, least: int = 1, most: int = 1, **more: Any) -> JobSpec:
    """A job whose replicas ask for one whole card each; its width asked is `most` unless it is given."""
    given: dict[str, Any] = {"asked": most, "request": whole_request("", 1)} | more
    return JobSpec(key=("default", name), uid=name, least=least, most=most, **given)


def waiting(name: str, **spec: Any) -> JobState:
    """A job that has never run."""
    return JobState(spec=job_spec(name, **spec))


def running(name: str, width: int, *, attained: float = 0.0, since: float = 0.0, **spec: Any) -> JobState:
    """A job all of whose `width` replicas have run since `since`; rigid unless its least or most is given."""
    spec = {"least": width if "most" not in spec else 1, "most": width} | spec
    return JobState(
        spec=job_spec(name, **spec), phase=JobPhase.RUNNING, width=width, since=since, resized=since,
        attained=attained,
    )  # fmt: skip


def stopped(name: str, *, since: float = 0.0, attained: float = 0.0, **spec: Any) -> JobState:
    """A job that was suspended at `since`."""
    return JobState(spec=job_spec(name, **spec), phase=JobPhase.STOPPED, since=since, attained=attained)
