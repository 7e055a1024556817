"""`vgpu logs JOB`: the output of a job's pods, also of pods that have ended.

    vgpu logs train                # all of it until now, one pod after the other
    vgpu logs train -f --tail 10   # the last lines, and those that come, until the job has ended
    vgpu logs train --index 0      # only of the pod with this index
    vgpu logs train --prefix       # each line begins with the index of its pod
    vgpu logs jobset/pretrain      # of another kind of workload that a queue starts, such as rayjob/tune

The lines are the programs' own bytes, as kubectl prints them. On a terminal the lines of a job with several pods have
the prefix anyway. You need kubectl, and the rights to get the Job, to list its pods, and to get their logs. -v prints
each call of kubectl.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller, engine
from device_plugin.cli.access.engine import EngineError, typed
from device_plugin.cli.run.console import Console
from device_plugin.cli.run.kubectl import Kubectl
from device_plugin.cli.run.logs import RARER, Logs
from device_plugin.cli.run.pods import JOB_PODS, JobPod, of_job
from device_plugin.core.batch import COMPLETION_INDEX, JOB_NAME, Job
from device_plugin.core.exit_status import UNREAD
from device_plugin.core.workload_kinds import JOB, RAY_JOB
from device_plugin.kube.api import WORKLOADS, Where
from device_plugin.kube.errors import GoneError, UnknownError

# The least seconds between two looks at the pods.
LOOK_SECONDS = 1.0
# Seconds to wait for the last output after the Job's end.
OUTPUT_SECONDS = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu logs`."""
    engine.add_job(parser)
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on with what comes, until the job has ended"
    )
    parser.add_argument("--tail", type=_number, metavar="LINES", help="only the last lines of each pod")
    parser.add_argument(
        "--prefix", action="store_true", help="begin each line with the index of its pod, or its name"
    )
    add_index(parser)


def add_index(parser: argparse.ArgumentParser) -> None:
    """Add the option --index, which chooses the pod of a job with this index."""
    parser.add_argument("--index", type=_number, metavar="N", help="only the pod with this index")


def _number(text: str) -> int:
    """Returns a number of 0 or more. Raises ArgumentTypeError for another text."""
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no number: write 0 or more")
    return int(text)


def pods_of(client: KubeClient, job: Job, index: int | None) -> Sequence[JobPod]:
    """Returns the pods of a job; if `index` is given, only the pods with this index.

    The pods of a workload of another kind than Job are found by the label of its controller. They have no index, so
    an `index` raises EngineError. Raises ApiError.
    """
    if job.kind is JOB:
        labels = f"{JOB_NAME}={job.name}"
        labels = labels if index is None else f"{labels},{COMPLETION_INDEX}={index}"
        return of_job(client.list(JOB_PODS, Where(job.namespace, labels)).items, job.uid)
    if index is not None:
        raise EngineError(f"the pods of a {job.kind.name} have no index: leave --index out")
    # The program of a RayJob prints in a pod of the Job by which KubeRay submits it, which has the RayJob's name.
    selected = [job.pods_label, f"{JOB_NAME}={job.name}" if job.kind is RAY_JOB else ""]
    listed = (client.list(JOB_PODS, Where(job.namespace, labels)).items for labels in selected if labels)
    return [replace(pod, index="") for pods in listed for pod in pods if pod.owner]


class _Pods:
    """A callable that reads the pods of a job at each call. `job` is the job as it was read last."""

    def __init__(self, client: KubeClient, job: Job, index: int | None) -> None:
        self.job = job
        self._client = client
        self._index = index

    def __call__(self) -> Sequence[JobPod]:
        return pods_of(self._client, self.job, self._index)


def run(args: argparse.Namespace) -> int:
    """Print the output of a Job's pods; returns UNREAD if the reader of stdout is gone, else 0.

    Raises ObjectNameError, EngineError, ApiError, EndpointError.
    """
    with caller.connected(args) as client:
        job = engine.found(client, engine.job_named(args))
        console = Console(sys.stdout.buffer, sys.stderr)
        pods = _Pods(client, job, args.index)
        found = pods()
        several = len(found) > 1 or (job.width > 1 and args.index is None)
        logs = Logs(
            Kubectl(caller.kubeconfig(args), job.namespace, caller.kubectl_words(args)), console,
            labelled=args.prefix or (sys.stdout.isatty() and several), tail=args.tail, follow=args.follow,
        )  # fmt: skip
        if not any(pod.has_run for pod in found):
            which = "pod" if args.index is None else f"pod with index {args.index}"
            console.say(
                f"no {which} of {'/'.join(job.key)} has run: `vgpu why {typed(job)}` says what it waits for"
            )
        try:
            logs.look(found)
            if args.follow:
                _follow(client, logs, console, pods)
            if not logs.print_rest(pods, OUTPUT_SECONDS if args.follow else inf) and not console.closed:
                console.say("not all output is printed: write the command again without -f")
        finally:
            logs.stop()
    return UNREAD if console.closed else 0


def _follow(client: KubeClient, logs: Logs, console: Console, pods: _Pods) -> None:
    """Print the output of pods as it appears, until the Job has ended or stdout is closed. Raises ApiError."""
    while not console.closed:
        began = time.monotonic()
        try:
            now = client.get(WORKLOADS[pods.job.kind], pods.job)
            gone = now.uid != pods.job.uid
            pods.job = pods.job if gone else now
            logs.look(pods())
        except GoneError:
            return
        except UnknownError as error:
            console.say(f"the API server does not answer: {error}")
        else:
            if now.ended or gone:
                return
        time.sleep(max(LOOK_SECONDS, RARER * (time.monotonic() - began)))
