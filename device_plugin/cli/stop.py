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
    """Stop the Job. Raises ObjectNameError, EngineError, ApiError, EndpointError."""
    with caller.connected(args) as client:
        job = changeable(engine.found(client, engine.job_named(args)))
        queued, name = QUEUE in job.labels, f"{job.namespace}/{job.name}"
        if held(job) if queued else job.suspend:
            print(f"{name} was stopped before: `vgpu resume {job.name}` lets it go on")
            return 0
        change = {"metadata": {"annotations": {HOLD: "true"}}} if queued else {"spec": {"suspend": True}}
        if args.dry_run:
            print(as_kubectl(args, job, change))
            return 0
        client.patch(JOBS, Ref(job.name, job.namespace, job.uid), change)
    what = "its pods end" if job.active else "it does not start"
    print(
        f"{name} is {'held' if queued else 'suspended'}: {what}, and `vgpu resume {job.name}` lets it go on"
    )
    return 0


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
