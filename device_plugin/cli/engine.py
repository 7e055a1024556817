"""Asks the job engine through a port-forward to the replica that plans.

Its /explain listens on the pod's loopback address only, because it tells of the jobs of all namespaces. So you need
kubectl, and in the engine's namespace the rights of the Role ask-job-engine of docs/jobs.md.
"""

import argparse
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from tempfile import TemporaryFile
from threading import Timer
from typing import Any, NamedTuple
from urllib.parse import urlencode

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import caller
from device_plugin.core.batch import Job
from device_plugin.core.errors import VgpuError
from device_plugin.core.http_values import JSON, PLANNER
from device_plugin.core.jobs.job import UNKNOWN
from device_plugin.kube.api import JOBS, Ref
from device_plugin.kube.errors import GoneError, RefusedError
from device_plugin.kube.leases import LEASES

NAMESPACE, LEASE, PORT = "vgpu-system", "vgpu-jobs", 9404
TIMEOUT_SECONDS = 30.0
ASK_FOR = "have an administrator bind the Role ask-job-engine of docs/jobs.md to you"


class EngineError(VgpuError):
    """The job engine cannot be asked, or knows nothing of the job; the text says what to do."""


class NoEngineError(EngineError):
    """No job engine is installed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option --engine-namespace, and those of the caller."""
    parser.add_argument(
        "--engine-namespace", metavar="NAMESPACE", help=f"where the job engine runs (default: {NAMESPACE})"
    )
    caller.add_arguments(parser)


def named(args: argparse.Namespace) -> Ref:
    """The job that the command names, `train` or `team-a/train`. Raises EndpointError."""
    namespace, _, name = args.job.rpartition("/")
    return Ref(name, namespace or caller.namespace(args))


def found(client: KubeClient, of: Ref) -> Job:
    """The job. Raises EngineError if there is none; ApiError."""
    try:
        return client.get(JOBS, of)
    except GoneError:
        raise EngineError(f"there is no job {of.namespace}/{of.name}: see `kubectl get jobs -A`") from None


def ask(client: KubeClient, args: argparse.Namespace, accept: str, **query: str) -> tuple[int, str]:
    """Status and body of /explain of the replica that plans: of one job, that which plans it.

    Raises EngineError, ApiError.
    """
    pod = _leader(client, args.engine_namespace or NAMESPACE)
    answer = _asked(args, pod, accept, query)
    if answer.planner not in ("", pod):
        answer = _asked(args, answer.planner, accept, query)
    return answer.status, answer.text


def jobs(client: KubeClient, args: argparse.Namespace) -> Sequence[Mapping[str, Any]]:
    """The answers about all jobs of the replicas that plan them. Raises EngineError, ApiError."""
    pod = _leader(client, args.engine_namespace or NAMESPACE)
    first = _listed(args, pod)
    found = {(job["namespace"], job["name"]): job for job in first["jobs"]}
    for other in sorted({*first["planners"].values()} - {"", pod}):
        known = [job for job in _listed(args, other)["jobs"] if job["phase"] != UNKNOWN]
        found |= {(job["namespace"], job["name"]): job for job in known}
    return list(found.values())


def _listed(args: argparse.Namespace, pod: str) -> Mapping[str, Any]:
    answer = _asked(args, pod, JSON, {})
    if answer.status != HTTPStatus.OK:
        raise EngineError(f"the job engine answers {answer.status}: {answer.text.strip()}")
    return answered(answer.text)


def answered(text: str) -> Mapping[str, Any]:
    """What /explain of one replica says as JSON. Raises EngineError while it does not plan."""
    found: Mapping[str, Any] = json.loads(text)
    if found["problem"]:
        raise EngineError(f"the job engine does not plan yet: {found['problem']}: try again")
    return found


class _Answer(NamedTuple):
    """Status and body, and the replica that knows more of the job that was asked for."""

    status: int
    text: str
    planner: str


def _asked(args: argparse.Namespace, pod: str, accept: str, query: Mapping[str, str]) -> _Answer:
    """What one replica answers. Raises EngineError."""
    namespace = args.engine_namespace or NAMESPACE
    with _forwarded(args, namespace, pod) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("GET", f"/explain?{urlencode(query)}", headers={"Accept": accept})
            answer = connection.getresponse()
            return _Answer(answer.status, answer.read().decode(), answer.getheader(PLANNER) or "")
        except (OSError, HTTPException) as error:
            raise EngineError(
                f"the job engine in {namespace} does not answer ({error}): try again"
            ) from error
        finally:
            connection.close()


def _leader(client: KubeClient, namespace: str) -> str:
    """The pod of the replica that plans."""
    try:
        holder = client.get(LEASES, Ref(LEASE, namespace)).holder
    except GoneError:
        raise NoEngineError(
            f"no job engine is installed in namespace {namespace}: add manifests/components/jobs to your overlay, or"
            " name its namespace with --engine-namespace"
        ) from None
    except RefusedError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        raise EngineError(f"{error}: {ASK_FOR}") from error
    if not holder:
        raise EngineError(
            f"no replica of the job engine plans now: see `kubectl -n {namespace} get pods -l"
            " app.kubernetes.io/component=jobs`"
        )
    return holder


@contextmanager
def _forwarded(args: argparse.Namespace, namespace: str, pod: str) -> Iterator[int]:
    """A port of this machine that kubectl forwards to the engine's /explain. Raises EngineError."""
    words = [
        "kubectl",
        *caller.kubectl_words(args),
        f"--namespace={namespace}",
        "port-forward",
        "--address=127.0.0.1",
        f"pod/{pod}",
        f":{PORT}",
    ]
    with TemporaryFile("w+") as said:
        try:
            process = subprocess.Popen(
                words, env={**os.environ, "KUBECONFIG": caller.kubeconfig(args)}, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise EngineError(
                f"kubectl, by which the job engine is asked, cannot be run ({error.strerror}): install it into a folder"
                " of $PATH"
            ) from error
        with process:
            try:
                port = _port(process)
                if port:
                    yield port
            finally:
                _end(process)
        if not port:
            said.seek(0)
            why = " ".join(said.read().split()) or f"nothing within {TIMEOUT_SECONDS:g} s"
            if "forbidden" in why:
                why += f": {ASK_FOR}"
            raise EngineError(f"kubectl cannot forward a port to pod {namespace}/{pod}: it says {why}")


def _port(process: subprocess.Popen[str]) -> int:
    """The port that kubectl says it listens on; 0 if it ends, or says nothing in time."""
    limit = Timer(TIMEOUT_SECONDS, _end, (process,))
    limit.start()
    try:
        # "Forwarding from 127.0.0.1:40001 -> 9404"
        found = re.search(r"127\.0\.0\.1:([0-9]+) ", next(iter(process.stdout or ()), ""))
    finally:
        limit.cancel()
    return int(found[1]) if found else 0


def _end(process: subprocess.Popen[str]) -> None:
    """End kubectl, and the kubectl that it runs where it only chooses a version."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
