"""`vgpu cancel JOB`: deletes a job, with its pods and all else that belongs to it.

    vgpu cancel train             # asks first, on a terminal
    vgpu cancel jobset/pretrain   # or another kind of workload that a queue starts, such as rayjob/tune
    vgpu cancel train --yes
    vgpu cancel train --dry-run   # only prints the kubectl command

It needs the rights to get and to delete the Job.
"""

import argparse
import sys

from device_plugin.cli.access import caller, engine
from device_plugin.core.batch import Job
from device_plugin.core.jobs.job import pods
from device_plugin.core.workload_kinds import JOB
from device_plugin.kube.api import WORKLOADS, Ref
from device_plugin.kube.errors import GoneError

KEPT = 1
"""The exit status if the user does not agree."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu cancel`."""
    engine.add_job(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only print the kubectl command")


def run(args: argparse.Namespace) -> int:
    """Delete the Job that the command names. On a terminal the user is asked first, except with --yes.

    With --dry-run it only prints the kubectl command. Returns the exit status: KEPT if the user does not agree, else 0.
    Raises ObjectNameError, EngineError, ApiError, EndpointError.
    """
    of = engine.job_named(args)
    if args.dry_run:
        resource = engine.kinds(of.kind)[0].resource
        print(caller.kubectl_line(args, of.ref.namespace, "delete", resource, of.ref.name))
        return 0
    with caller.connected(args) as client:
        job = engine.found(client, of)
        name = "/".join(job.key)
        if not args.yes and sys.stdin.isatty() and not _agreed(job):
            print(f"job {name} stays", file=sys.stderr)
            return KEPT
        try:
            client.delete(WORKLOADS[job.kind], Ref(job.name, job.namespace, job.uid))
        except GoneError:
            print(f"job {name} was deleted before")
            return 0
    print(f"job {name} is deleted, and its pods end")
    return 0


def _agreed(job: Job) -> bool:
    """Ask the user whether the Job is to be deleted; returns the answer."""
    # The pods of other kinds than Job are not counted.
    active = job.active if job.kind is JOB or job.suspend else job.width
    state = "which has ended" if job.ended else f"which has {pods(active)}" if active else "which waits"
    print(f"delete job {'/'.join(job.key)}, {state}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
