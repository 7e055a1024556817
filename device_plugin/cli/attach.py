"""`vgpu attach JOB`: a shell in a running pod of a job.

    vgpu attach train                                # in the pod of index 0, else in the first one that runs
    vgpu attach train --index 3
    vgpu attach pytorchjob/tune                      # another kind of workload that a queue starts
    vgpu attach train -- /usr/local/vgpu/vgpu-smi    # a program in place of the shell
    vgpu attach train --dry-run                      # only prints the kubectl command

It ends with the exit code of the shell or program. You need kubectl, and the rights to get the Job, to list its pods,
and to create pods/exec.
"""

import argparse
import sys
from collections.abc import Sequence

from device_plugin.cli.access import caller, engine
from device_plugin.cli.access.engine import typed
from device_plugin.cli.logs import add_index, pods_of
from device_plugin.cli.run.kubectl import Kubectl
from device_plugin.cli.run.pods import JobPod
from device_plugin.core.batch import Job
from device_plugin.core.errors import VgpuError

# bash where the image has it.
_SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")


class AttachError(VgpuError):
    """No pod of the Job runs; the text says what to do."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu attach`."""
    parser.usage = "%(prog)s JOB [OPTION]... [-- PROGRAM [ARGUMENT]...]"
    engine.add_job(parser)
    add_index(parser)
    parser.add_argument("--dry-run", action="store_true", help="only print the kubectl command")
    parser.set_defaults(program=())


def run(args: argparse.Namespace) -> int:
    """Run a shell or the given program in a running pod of the Job; returns its exit status.

    With --dry-run it only prints the kubectl command, and returns 0. Raises ObjectNameError, AttachError, EngineError,
    RunError, ApiError, EndpointError.
    """
    with caller.connected(args) as client:
        job = engine.found(client, engine.job_named(args))
        pod = _chosen(job, pods_of(client, job, args.index))
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    options = ("--stdin", "--tty") if terminal else ("--stdin",)
    words = ("exec", *options, pod.name, f"--container={pod.container}", "--", *(args.program or _SHELL))
    if args.dry_run:
        print(caller.kubectl_line(args, job.namespace, *words))
        return 0
    return Kubectl(caller.kubeconfig(args), job.namespace, caller.kubectl_words(args)).attached(*words)


def _chosen(job: Job, pods: Sequence[JobPod]) -> JobPod:
    """Returns the running pod with the least index; without indexes, the oldest. Raises AttachError if no pod runs."""
    running = [pod for pod in pods if pod.running and not pod.ended]
    if not running:
        raise AttachError(
            f"no pod of {'/'.join(job.key)} runs now: see what it waits for with `vgpu why {typed(job)}`"
            if not job.ended
            else f"{'/'.join(job.key)} has ended: see its output with `vgpu logs {job.key[1]}`"
        )
    return min(
        running, key=lambda pod: (int(pod.index) if pod.index.isdecimal() else 0, pod.created, pod.name)
    )
