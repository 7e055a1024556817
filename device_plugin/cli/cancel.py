"""`vgpu cancel JOB`: deletes a job, with its pods and all else that belongs to it.

    vgpu cancel train             # asks first, on a terminal
    vgpu cancel train --yes
    vgpu cancel train --dry-run   # only prints the kubectl command

It needs the rights to get and to delete the Job.
"""

import argparse
import sys

from device_plugin.cli.access import caller, engine
from device_plugin.core.batch import Job
from device_plugin.core.jobs.job import pods
from device_plugin.kube.api import JOBS, Ref
from device_plugin.kube.errors import GoneError

KEPT = 1
"""The exit status if the user does not agree."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu cancel`."""
    engine.add_job(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only print the kubectl command")


def run(args: argparse.Namespace) -> int:
    """Delete the Job, after a question on a terminal; with --dry-run only print the kubectl command.

    Returns KEPT if the user does not agree, else 0. Raises ObjectNameError, EngineError, ApiError, EndpointError.
    """
    of = engine.job_named(args)
    name = f"{of.namespace}/{of.name}"
    if args.dry_run:
        print(caller.kubectl_line(args, of.namespace, "delete", "job", of.name))
        return 0
    with caller.connected(args) as client:
        job = engine.found(client, of)
        if not args.yes and sys.stdin.isatty() and not _agreed(job):
            print(f"job {name} stays", file=sys.stderr)
            return KEPT
        try:
            client.delete(JOBS, Ref(of.name, of.namespace, job.uid))
        except GoneError:
            print(f"job {name} was deleted before")
            return 0
    print(f"job {name} is deleted, and its pods end")
    return 0


def _agreed(job: Job) -> bool:
    """Ask the user whether the Job is to be deleted; returns the answer."""
    state = (
        "which has ended" if job.ended else f"which has {pods(job.active)}" if job.active else "which waits"
    )
    print(f"delete job {job.namespace}/{job.name}, {state}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
