"""Asks the job engine through a port-forward to the replica that plans.

Its /explain listens on the pod's loopback address only, because it reports the jobs of all namespaces. So you need
kubectl, and in the engine's namespace the rights of the Role ask-job-engine.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller
from device_plugin.cli.access.caller import NAMESPACE
from device_plugin.cli.access.leader import LedService, leader
from device_plugin.cli.access.names import Named, named
from device_plugin.cli.access.port_forward import Answered, PodPort, get
from device_plugin.core import pages
from device_plugin.core.batch import Job
from device_plugin.core.errors import VgpuError
from device_plugin.core.http_values import JSON, PLANNER
from device_plugin.core.jobs.job import UNKNOWN
from device_plugin.core.workload_kinds import JOB, WORKLOAD_KINDS, WorkloadKind
from device_plugin.kube.api import WORKLOADS, Ref
from device_plugin.kube.errors import GoneError

LEASE, PORT = "vgpu-jobs", 9404
ROLE = f"ask-job-engine ({pages.JOBS})"
_ANSWER = {"problem", "jobs", "planners"}
ADMIT = "admit"
"""The word that starts a job by hand: `vgpu queue admit JOB`."""
JOB_WORDS = {"job": "job", "jobs": "job"}
WORKLOAD_WORDS = {
    word: kind.name.lower() for kind in WORKLOAD_KINDS for word in (kind.name.lower(), kind.plural)
}
"""The other kinds that a queue starts, by the words that name them: `jobset` and `jobsets`."""


class EngineError(VgpuError):
    """The job engine cannot be asked, or knows nothing of the job; the text says what to do.

    Cure: see the log of the job engine, and use the vgpu command of its version.
    """


class NoEngineError(EngineError):
    """No job engine is installed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option --engine-namespace, and the options for the cluster and the user."""
    parser.add_argument(
        "--engine-namespace", metavar="NAMESPACE", help=f"where the job engine runs (default: {NAMESPACE})"
    )
    caller.add_arguments(parser)


def add_job(parser: argparse.ArgumentParser) -> None:
    """Add the argument JOB, the option --namespace, and the options for the cluster and the user."""
    parser.add_argument(
        "job", metavar="JOB", help="name of the Job, or NAMESPACE/NAME; another kind of workload: jobset/NAME"
    )
    caller.add_namespace(parser)
    caller.add_arguments(parser)


def job_named(args: argparse.Namespace) -> Named:
    """Returns the job that the argument JOB names: `train`, `team-a/train`, or `jobset/train` for a JobSet.

    In `job/train`, `job` is a namespace: the kind Job has no word here, since a name without a kind means a Job. Raises
    ObjectNameError, EndpointError.
    """
    return named(args.job, WORKLOAD_WORDS, lambda: caller.namespace(args))


def kinds(word: str) -> Sequence[WorkloadKind]:
    """Returns the kinds of workloads that `word`, such as `jobset`, names: one kind for each API version.

    The empty word stands for Job.
    """
    return [kind for kind in WORKLOAD_KINDS if kind.name.lower() == word] or [JOB]


def found(client: KubeClient, of: Named) -> Job:
    """Returns the job of this name, read from the API server.

    Raises EngineError if there is no such job, and ApiError.
    """
    for kind in kinds(of.kind):
        with suppress(GoneError):
            return client.get(WORKLOADS[kind], of.ref)
    resource = kind.resource if of.kind else kind.plural
    raise EngineError(
        f"there is no {of.kind or 'job'} {of.ref.namespace}/{of.ref.name}: see `kubectl get {resource} -A`"
    )


def typed(job: Job) -> str:
    """Returns the name by which `vgpu why` takes the job: `job/train`, `jobset/train`."""
    return f"{job.kind.name.lower()}/{job.name}"


def ask(client: KubeClient, args: argparse.Namespace, accept: str, **query: str) -> tuple[int, str]:
    """Returns the HTTP status and the body of the job engine's answer to /explain with this `query`.

    The leading replica answers; if another replica plans the job that `query` names, that replica answers. `accept` is
    the media type of the answer. Raises EngineError, ForwardError, ApiError.
    """
    leader_port = _leader(client, args.engine_namespace or NAMESPACE)
    answer = _asked(args, leader_port, accept, query)
    if (planner := answer.headers.get(PLANNER.lower(), "")) not in ("", leader_port.pod):
        answer = _asked(args, leader_port._replace(pod=planner), accept, query)
    return answer.status, answer.text


def jobs(client: KubeClient, args: argparse.Namespace) -> Sequence[Mapping[str, Any]]:
    """Returns the job engine's answers about all jobs, one for each job, from the replica that plans the job.

    Raises EngineError, ForwardError, ApiError.
    """
    leader_port = _leader(client, args.engine_namespace or NAMESPACE)
    first = _listed(args, leader_port)
    found = {(job["namespace"], job["name"]): job for job in first["jobs"]}
    for other in sorted({*first["planners"].values()} - {"", leader_port.pod}):
        known = [
            job for job in _listed(args, leader_port._replace(pod=other))["jobs"] if job["phase"] != UNKNOWN
        ]
        found |= {(job["namespace"], job["name"]): job for job in known}
    return list(found.values())


def _listed(args: argparse.Namespace, replica: PodPort) -> Mapping[str, Any]:
    """Returns one replica's answer about all jobs. Raises EngineError, ForwardError."""
    answer = _asked(args, replica, JSON, {})
    if answer.status != HTTPStatus.OK:
        raise EngineError(f"the job engine answers {answer.status}: {answer.text.strip()}")
    return answered(answer.text)


def answered(text: str) -> Mapping[str, Any]:
    """Returns the JSON of a replica's answer. Raises EngineError if it is malformed or the replica cannot plan yet."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.keys() >= _ANSWER:
        raise EngineError("the job engine's answer cannot be read: use the vgpu command of its version")
    if found["problem"]:
        raise EngineError(f"the job engine does not plan yet: {found['problem']}: try again")
    return found


def _asked(args: argparse.Namespace, replica: PodPort, accept: str, query: Mapping[str, str]) -> Answered:
    """Returns one replica's answer to /explain with this query. Raises ForwardError."""
    return get(args, replica, f"/explain?{urlencode(query)}", accept)


def _leader(client: KubeClient, namespace: str) -> PodPort:
    """Returns the port of the job engine's leading replica. Raises NoEngineError, ForwardError, ApiError."""
    service = LedService("the job engine", namespace, "jobs", Ref(LEASE, namespace), PORT, ROLE)
    try:
        return leader(client, service)
    except GoneError:
        raise NoEngineError(
            f"no job engine is installed in namespace {namespace}: add manifests/components/jobs to your overlay, or"
            " name its namespace with --engine-namespace"
        ) from None
