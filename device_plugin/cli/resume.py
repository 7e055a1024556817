"""`vgpu resume JOB`: lets a job go on that `vgpu stop` has stopped.

    vgpu resume train
    vgpu resume train --dry-run   # only prints the kubectl command

A job of a queue loses the annotation vgpu.io/hold, and waits for cards again. A job without a queue runs at once.

It needs the rights to get and to patch the Job.
"""

import argparse

from device_plugin.cli.access import caller, engine
from device_plugin.cli.stop import add_arguments, as_kubectl, changeable
from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import HOLD, QUEUE
from device_plugin.core.jobs.reading import held
from device_plugin.kube.api import JOBS, Ref

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """Let the Job go on. Raises ObjectNameError, EngineError, ApiError, EndpointError."""
    with caller.connected(args) as client:
        job = changeable(engine.found(client, engine.job_named(args)))
        queued = QUEUE in job.labels
        if not (held(job) if queued else job.suspend):
            print(_was_not_stopped(job))
            return 0
        change = {"metadata": {"annotations": {HOLD: None}}} if queued else {"spec": {"suspend": False}}
        if args.dry_run:
            print(as_kubectl(args, job, change))
            return 0
        client.patch(JOBS, Ref(job.name, job.namespace, job.uid), change)
    what = "starts" if not queued else "waits for cards again" if job.suspend else "goes on"
    print(f"{job.namespace}/{job.name} {what}")
    return 0


def _was_not_stopped(job: Job) -> str:
    name = f"{job.namespace}/{job.name}"
    if not job.suspend:
        return f"{name} was not stopped"
    return f"{name} is not held, and waits in its queue: `vgpu why job/{job.name}` says for what"
