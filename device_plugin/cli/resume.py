"""`vgpu resume JOB`: lets a job go on that `vgpu stop` has stopped.

    vgpu resume train
    vgpu resume jobset/pretrain   # or another kind of workload that a queue starts, such as rayjob/tune
    vgpu resume train --dry-run   # only prints the kubectl command

A job of a queue loses the annotation vgpu.io/hold, and waits for cards again. A job without a queue runs at once.

It needs the rights to get and to patch the Job.
"""

import argparse

from device_plugin.cli import holding
from device_plugin.cli.access.engine import typed
from device_plugin.cli.holding import Switch, add_arguments
from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import HOLD, QUEUE
from device_plugin.core.jobs.reading import held
from device_plugin.kube.api import Object

__all__ = ["RESUME", "add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """Resume the Job that the command names, and print the result; returns 0.

    Raises ObjectNameError, EngineError, ApiError, EndpointError.
    """
    return holding.run(args, RESUME)


def _change(job: Job) -> Object:
    if QUEUE in job.labels:
        return {"metadata": {"annotations": {HOLD: None}}} if held(job) else {}
    return {"spec": job.kind.suspension(suspend=False)} if job.suspend else {}


def _resumed(job: Job) -> str:
    queued = QUEUE in job.labels
    what = "starts" if not queued else "waits for cards again" if job.suspend else "goes on"
    return f"{'/'.join(job.key)} {what}"


def _was_not_stopped(job: Job) -> str:
    name = "/".join(job.key)
    if not job.suspend:
        return f"{name} was not stopped"
    return f"{name} is not held, and waits in its queue: `vgpu why {typed(job)}` says for what"


RESUME = Switch(_change, _resumed, _was_not_stopped)
