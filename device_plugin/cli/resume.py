"""`vgpu resume JOB`: lets a job go on that `vgpu stop` has stopped.

    vgpu resume train
    vgpu resume train --dry-run   # only prints the kubectl command

A job of a queue loses the annotation vgpu.io/hold, and waits for cards again. A job without a queue runs at once.

It needs the rights to get and to patch the Job.
"""

import argparse

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller, engine
from device_plugin.cli.stop import add_arguments, as_kubectl, changeable
from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import HOLD, QUEUE
from device_plugin.core.jobs.reading import held
from device_plugin.kube.api import JOBS, Object, Ref

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """Let the Job go on; with --dry-run only print the kubectl command.

    Raises ObjectNameError, EngineError, ApiError, EndpointError.
    """
    with caller.connected(args) as client:
        of = engine.job_named(args)
        if args.dry_run:
            job = changeable(engine.found(client, of))
            change = _change(job)
            print(as_kubectl(args, job, change) if change else _was_not_stopped(job))
            return 0
        print(resumed(client, of))
    return 0


def resumed(client: KubeClient, of: Ref) -> str:
    """Let the Job of this name go on; returns what was done, as text. Raises EngineError, ApiError."""
    job = changeable(engine.found(client, of))
    change = _change(job)
    if not change:
        return _was_not_stopped(job)
    client.patch(JOBS, Ref(job.name, job.namespace, job.uid), change)
    queued = QUEUE in job.labels
    what = "starts" if not queued else "waits for cards again" if job.suspend else "goes on"
    return f"{job.namespace}/{job.name} {what}"


def _change(job: Job) -> Object:
    """Returns the change that lets the Job go on; empty if it was not stopped."""
    if QUEUE in job.labels:
        return {"metadata": {"annotations": {HOLD: None}}} if held(job) else {}
    return {"spec": {"suspend": False}} if job.suspend else {}


def _was_not_stopped(job: Job) -> str:
    name = f"{job.namespace}/{job.name}"
    if not job.suspend:
        return f"{name} was not stopped"
    return f"{name} is not held, and waits in its queue: `vgpu why job/{job.name}` says for what"
