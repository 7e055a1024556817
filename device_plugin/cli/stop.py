"""`vgpu stop JOB`: stops a job, and keeps it from running until `vgpu resume`.

    vgpu stop train
    vgpu stop train --dry-run   # only prints the kubectl command

A job of a queue gets the annotation vgpu.io/hold: its program is asked for a checkpoint if the job names a time for
one, its pods end, and its cards go to others. It keeps its place by the time that it has waited before; the time for
which it is held adds nothing. A job without a queue is suspended.

It needs the rights to get and to patch the Job.
"""

import argparse
import json

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller, engine
from device_plugin.cli.access.engine import EngineError
from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import HOLD, KUEUE_QUEUE, QUEUE
from device_plugin.core.jobs.reading import CREATORS, held
from device_plugin.kube.api import JOBS, Object, Ref


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu stop`, and of `vgpu resume`."""
    engine.add_job(parser)
    parser.add_argument("--dry-run", action="store_true", help="only print the kubectl command")


def run(args: argparse.Namespace) -> int:
    """Stop the Job; with --dry-run only print the kubectl command.

    Raises ObjectNameError, EngineError, ApiError, EndpointError.
    """
    with caller.connected(args) as client:
        of = engine.job_named(args)
        if args.dry_run:
            job = changeable(engine.found(client, of))
            change = _change(job)
            print(as_kubectl(args, job, change) if change else _was_stopped(job))
            return 0
        print(stopped(client, of))
    return 0


def stopped(client: KubeClient, of: Ref) -> str:
    """Stop the Job of this name; returns what was done, as text. Raises EngineError, ApiError."""
    job = changeable(engine.found(client, of))
    change = _change(job)
    if not change:
        return _was_stopped(job)
    client.patch(JOBS, Ref(job.name, job.namespace, job.uid), change)
    how = "held" if QUEUE in job.labels else "suspended"
    what = "its pods end" if job.active else "it does not start"
    return f"{job.namespace}/{job.name} is {how}: {what}, and `vgpu resume {job.name}` lets it go on"


def _change(job: Job) -> Object:
    """Returns the change that stops the Job; empty if it was stopped before."""
    if QUEUE in job.labels:
        return {} if held(job) else {"metadata": {"annotations": {HOLD: "true"}}}
    return {} if job.suspend else {"spec": {"suspend": True}}


def _was_stopped(job: Job) -> str:
    return f"{job.namespace}/{job.name} was stopped before: `vgpu resume {job.name}` lets it go on"


def changeable(job: Job) -> Job:
    """Returns the Job. Raises EngineError if it has ended, or another controller decides whether it runs."""
    name = f"{job.namespace}/{job.name}"
    if job.ended or job.deleting:
        raise EngineError(f"job {name} has ended: create it again to run it again")
    if KUEUE_QUEUE in job.labels:
        raise EngineError(f"job {name} is Kueue's: write `active` in the spec of its Workload, false or true")
    if QUEUE not in job.labels and job.owner not in CREATORS:
        raise EngineError(
            f"job {name} belongs to {job.owner} {job.owner_name}: suspend or resume that in its place"
        )
    return job


def as_kubectl(args: argparse.Namespace, job: Job, change: Object) -> str:
    """Returns the kubectl command that makes this change of the Job."""
    words = "patch", "job", job.name, "--type=merge", f"--patch={json.dumps(change)}"
    return caller.kubectl_line(args, job.namespace, *words)
