"""`vgpu logs JOB`: the output of a job's pods, also of pods that have ended.

    vgpu logs train                # all of it until now, one pod after the other
    vgpu logs train -f --tail 10   # the last lines, and those that come, until the job has ended
    vgpu logs train --index 0      # only of the pod with this index
    vgpu logs train --prefix       # each line begins with the index of its pod

The lines are the programs' own bytes, as kubectl prints them. On a terminal the lines of a job with several pods have
the prefix anyway. You need kubectl, and the rights to get the Job, to list its pods, and to get their logs. -v prints
each call of kubectl.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from math import inf

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller, engine
from device_plugin.cli.run.console import Console
from device_plugin.cli.run.kubectl import Kubectl
from device_plugin.cli.run.logs import RARER, Logs
from device_plugin.cli.run.pods import JOB_PODS, JobPod, of_job
from device_plugin.core.batch import COMPLETION_INDEX, JOB_NAME, Job
from device_plugin.core.exit_status import UNREAD
from device_plugin.kube.api import JOBS, Where
from device_plugin.kube.errors import GoneError, UnknownError

# The least seconds between two looks at the pods.
LOOK_SECONDS = 1.0
# Seconds to wait for the last output after the Job's end.
OUTPUT_SECONDS = 30.0
Pods = Callable[[], Sequence[JobPod]]


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
    """Add the option --index."""
    parser.add_argument("--index", type=_number, metavar="N", help="only the pod with this index")


def _number(text: str) -> int:
    """Returns a number of 0 or more. Raises ArgumentTypeError for another text."""
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no number: write 0 or more")
    return int(text)


def where(job: Job, index: int | None) -> Where:
    """Returns the selection of a Job's pods; with an index, of the pods that have it."""
    labels = f"{JOB_NAME}={job.name}"
    return Where(job.namespace, labels if index is None else f"{labels},{COMPLETION_INDEX}={index}")


def run(args: argparse.Namespace) -> int:
    """Print the output of a Job's pods; returns UNREAD if the reader of stdout is gone, else 0.

    Raises ObjectNameError, EngineError, ApiError, EndpointError.
    """
    of = engine.job_named(args)
    with caller.connected(args) as client:
        job = engine.found(client, of)
        console = Console(sys.stdout.buffer, sys.stderr)
        selected = where(job, args.index)

        def pods() -> Sequence[JobPod]:
            return of_job(client.list(JOB_PODS, selected).items, job.uid)

        found = pods()
        several = len(found) > 1 or (job.width > 1 and args.index is None)
        logs = Logs(
            Kubectl(caller.kubeconfig(args), of.namespace, caller.kubectl_words(args)), console,
            labelled=args.prefix or (sys.stdout.isatty() and several), tail=args.tail, follow=args.follow,
        )  # fmt: skip
        if not any(pod.has_run for pod in found):
            which = "pod" if args.index is None else f"pod with index {args.index}"
            console.say(
                f"no {which} of {of.namespace}/{of.name} has run: `vgpu why job/{of.name}` says what it waits for"
            )
        try:
            logs.look(found)
            if args.follow:
                _follow(client, job, logs, console, pods)
            if not logs.print_rest(pods, OUTPUT_SECONDS if args.follow else inf) and not console.closed:
                console.say("not all output is printed: write the command again without -f")
        finally:
            logs.stop()
    return UNREAD if console.closed else 0


def _follow(client: KubeClient, job: Job, logs: Logs, console: Console, pods: Pods) -> None:
    """Read the output of the pods that come, until the Job has ended or nobody reads the output. Raises ApiError."""
    while not console.closed:
        began = time.monotonic()
        try:
            now = client.get(JOBS, job)
            logs.look(pods())
        except GoneError:
            return
        except UnknownError as error:
            console.say(f"the API server does not answer: {error}")
        else:
            if now.ended or now.uid != job.uid:
                return
        time.sleep(max(LOOK_SECONDS, RARER * (time.monotonic() - began)))
