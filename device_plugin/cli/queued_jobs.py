"""Reads the jobs of queues from the job engine, else from the API server, where a tenant may list Jobs.

Each job becomes a row with the keys of the engine's answer. A row from the API server has no place in the queue, no
forecast and no progress of its program; its reason for waiting is the engine's latest event about the Job.
"""

import argparse
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, NamedTuple

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import engine
from device_plugin.cli.access.engine import EngineError
from device_plugin.cli.access.port_forward import ForwardError
from device_plugin.cli.printing.follow import ListForbiddenError, list_allowed
from device_plugin.cli.reading.cluster import MissingRight
from device_plugin.cli.reading.prefixes import KNOWN
from device_plugin.core.batch import Job, JobCondition
from device_plugin.core.contract.annotations import KUEUE_QUEUE, POOL, QUEUE
from device_plugin.core.contract.events import WHY_A_JOB_WAITS
from device_plugin.core.errors import RequestError
from device_plugin.core.jobs.job import HELD, JobPhase, JobSpec
from device_plugin.core.jobs.reading import has_run, job_spec
from device_plugin.core.jobs.workload_reading import workload_spec
from device_plugin.core.printable import one_line
from device_plugin.core.timestamps import seconds
from device_plugin.core.workload_kinds import JOB
from device_plugin.kube.api import EVENTS, JOBS, WORKLOADS, Where
from device_plugin.kube.errors import ApiError, GoneError

Row = Mapping[str, Any]
# Phases of Jobs that have ended, by the type of their condition. The job engine knows no such Jobs.
ENDS: Mapping[str, str] = {"Complete": "complete", "Failed": "failed"}
# Most characters of a text that others wrote: a message of a condition has up to 32 KiB.
MOST_TEXT = 500
_OF_JOBS = "involvedObject.kind=Job,reportingComponent=vgpu-jobs"


class JobsReading(NamedTuple):
    """The rows of jobs as read at one time, the rights that the caller lacks, and sentences on what is not known."""

    rows: Sequence[Row]
    missing: Sequence[MissingRight] = ()
    notes: Sequence[str] = ()


class JobsReader:
    """Reads the jobs of queues in one namespace, or in all namespaces.

    --selector chooses among the jobs, and --all adds jobs that have ended. With `names` it reads only jobs of these
    names, ended or not. If the job engine cannot be asked at the first reading, all readings are from the API server.
    """

    def __init__(
        self, client: KubeClient, args: argparse.Namespace, namespace: str, names: Collection[str] = ()
    ) -> None:
        self._client = client
        self._args = args
        self._namespace = namespace
        self._names = names
        self._all = args.all or bool(names)
        self._asked = False
        self._unasked = ""

    def read(self) -> JobsReading:
        """Returns the jobs of queues as they are now; if names are given, only the jobs of these names.

        Raises EngineError, ForwardError, ListForbiddenError, ApiError.
        """
        found = self._read()
        return found._replace(
            rows=[row for row in found.rows if not self._names or row["name"] in self._names]
        )

    def _read(self) -> JobsReading:
        told = self._told()
        if told is None:
            return self._of_api_server()
        missing: Sequence[MissingRight] = ()
        if self._args.selector:
            where = Where(self._namespace, self._args.selector)
            found, _, missing = list_allowed(self._args, self._client, JOBS.metadata, where)
            names = {(job.namespace, job.name) for job in found.items}
            told = [row for row in told if (row["namespace"], row["name"]) in names]
        if not self._all:
            return JobsReading(told, missing)
        try:
            ended, missing = self._jobs()
        except ListForbiddenError as error:
            return JobsReading(told, missing, [f"jobs that ended are not known: {error}"])
        return JobsReading([*told, *_ended(ended)], missing)

    def _told(self) -> Sequence[Row] | None:
        """Returns the job engine's rows of jobs, sorted by queue; None if the first question to the engine has failed.

        Raises EngineError or ForwardError if the engine has answered before, but not now. Raises ApiError.
        """
        if self._unasked:
            return None
        try:
            rows = engine.jobs(self._client, self._args)
        except (EngineError, ForwardError) as error:
            if self._asked:
                raise
            self._unasked = str(error)
            return None
        self._asked = True
        return in_order(row for row in rows if self._namespace in ("", row["namespace"]))

    def _of_api_server(self) -> JobsReading:
        """Returns what the API server's Jobs say, without the job engine: rows, missing rights and a note.

        Raises ListForbiddenError if the caller may not list Jobs; ApiError.
        """
        jobs, missing = self._jobs()
        live = [job for job in jobs if not (job.ended or job.deleting)]
        why = self._reasons() if any(job.suspend for job in live) else {}
        rows = in_order(job_row(job, why.get(job.uid, "")) for job in live)
        note = f"places and forecasts are not known, only what the Jobs say: {self._unasked}"
        return JobsReading([*rows, *(_ended(jobs) if self._all else ())], missing, [note])

    def _jobs(self) -> tuple[Sequence[Job], Sequence[MissingRight]]:
        """Returns the Jobs of queues, and the rights that the caller lacks.

        Workloads of another kind are among the Jobs if the user has named one of that kind, such as `rayjob/tune`.
        """
        labels = ",".join(filter(None, (QUEUE, self._args.selector)))
        jobs, missing = list[Job](), list[MissingRight]()
        words = {name.partition("/")[0] for name in self._names if "/" in name}
        for kind in (JOB, *(kind for word in sorted(words) for kind in engine.kinds(word))):
            # A kind that is not installed has no objects.
            with suppress(GoneError):
                where = Where(self._namespace, labels)
                found, _, lacks = list_allowed(self._args, self._client, WORKLOADS[kind], where)
                jobs += found.items
                missing += lacks
        return jobs, missing

    def _reasons(self) -> Mapping[str, str]:
        """Returns for each Job, by its UID, the latest reason why it waits. Empty if the caller may not read events."""
        with suppress(ApiError):
            events = self._client.list(EVENTS, Where(self._namespace, fields=_OF_JOBS)).items
            return {
                str(event["involvedObject"].get("uid")): one_line(str(event.get("message") or "")[:MOST_TEXT])
                for event in sorted(events, key=_time)
                if event.get("reason") in WHY_A_JOB_WAITS
            }
        return {}


def _time(event: Mapping[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Returns the rows sorted by queue.

    In each queue, rows with a place come first, in the order of their places; other rows follow, sorted by name.
    """
    return sorted(
        rows,
        key=lambda row: (
            row["queue"],
            row["place"] is None,
            row["place"] or 0,
            row["namespace"],
            row["name"],
        ),
    )


def _ended(jobs: Sequence[Job]) -> list[Row]:
    """Returns a row for each of the Jobs that has ended, the latest end first."""
    rows = (ended_row(job, job.end) for job in jobs if job.end is not None)
    return sorted(rows, key=lambda row: row["since"], reverse=True)


def job_row(job: Job, why: str = "", prefixes: Sequence[str] = KNOWN) -> Row:
    """Returns the row of a Job that has not ended; `why` is the reason why it waits, if one is known.

    `prefixes` are the resource prefixes of cards, such as `amd.com/gpu`.
    """
    try:
        spec = _spec(job, prefixes)
    except RequestError as error:
        return _row(job, None, JobPhase.REFUSED.value, why=str(error), since=job.created)
    if not job.suspend and job.kind is not JOB:
        # The pods of other kinds are not counted.
        phase = JobPhase.STOPPING if spec.on_hold else JobPhase.RUNNING
        return _row(job, spec, phase.value, since=job.started, width=job.width)
    if not job.suspend:
        phase = JobPhase.RUNNING if 0 < job.active <= job.ready else JobPhase.STARTING
        phase = JobPhase.STOPPING if spec.on_hold else phase
        return _row(job, spec, phase.value, why=job.failing, since=job.started, width=job.active)
    if job.active or job.terminating:
        return _row(job, spec, JobPhase.STOPPING.value, since=_suspended(job), width=job.active)
    if spec.on_hold:
        return _row(job, spec, JobPhase.HELD.value, why=HELD, since=_suspended(job))
    if KUEUE_QUEUE in job.labels:
        why = "waits for Kueue, which starts it"
    phase = JobPhase.STOPPED if has_run(job) else JobPhase.WAITING
    return _row(job, spec, phase.value, why=why, since=_suspended(job))


def ended_row(job: Job, end: JobCondition) -> Row:
    """Returns the row of a Job that has ended; `end` is the condition that says so, `Complete` or `Failed`."""
    why = ": ".join(filter(None, (end.reason, end.message))) if end.type == "Failed" else ""
    try:
        spec = _spec(job, KNOWN) if QUEUE in job.labels else None
    except RequestError:  # its labels were changed after its end
        spec = None
    return _row(job, spec, ENDS[end.type], why=one_line(why[:MOST_TEXT]), since=end.since)


def _spec(job: Job, prefixes: Sequence[str]) -> JobSpec:
    """Returns the checked specification of the Job. Raises RequestError if it is malformed."""
    if job.kind is not JOB:
        return workload_spec(job, prefixes, {}, lambda _: 1.0)
    return job_spec(job, prefixes, {}, lambda _: 1.0, inf)


def _suspended(job: Job) -> str:
    return next((condition.since for condition in job.suspension), job.created)


def _row(job: Job, spec: JobSpec | None, phase: str, *, since: str, width: int = 0, why: str = "") -> Row:
    parts = spec.parts if spec is not None else 0
    return {
        "namespace": job.namespace, "name": job.key[1], "queue": job.labels.get(QUEUE, ""), "place": None,
        "phase": phase, "width": width, "min": spec.least if spec is not None else None,
        "max": spec.most if spec is not None else None, "widths": [*spec.widths] or None if spec is not None else None,
        "progress": {"done": min(job.succeeded, parts), "total": parts} if parts else None,
        "secondsLeft": None, "secondsStuck": None, "waitsFor": "", "since": int(seconds(since, 0.0)),
        "pool": job.annotations.get(POOL), "nextChange": None, "why": why,
    }  # fmt: skip
