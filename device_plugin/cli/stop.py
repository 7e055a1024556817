"""`vgpu stop JOB`: stops a job, and keeps it from running until `vgpu resume`.

    vgpu stop train
    vgpu stop train --dry-run   # only prints the kubectl command

A job of a queue gets the annotation vgpu.io/hold: its program is asked for a checkpoint if the job names a time for
one, its pods end, and its cards go to others. It keeps its place by the time that it has waited before; the time for
which it is held adds nothing. A job without a queue is suspended.

It needs the rights to get and to patch the Job.
"""

import argparse

from device_plugin.cli import holding
from device_plugin.cli.holding import Switch, add_arguments
from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import HOLD, QUEUE
from device_plugin.core.jobs.reading import held
from device_plugin.kube.api import Object

__all__ = ["STOP", "add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """Stop the Job that the command names, and print the result; returns 0.

    Raises ObjectNameError, EngineError, ApiError, EndpointError.
    """
    return holding.run(args, STOP)


def _change(job: Job) -> Object:
    if QUEUE in job.labels:
        return {} if held(job) else {"metadata": {"annotations": {HOLD: "true"}}}
    return {} if job.suspend else {"spec": {"suspend": True}}


def _stopped(job: Job) -> str:
    how = "held" if QUEUE in job.labels else "suspended"
    what = "its pods end" if job.active else "it does not start"
    return f"{job.namespace}/{job.name} is {how}: {what}, and `vgpu resume {job.name}` lets it go on"


def _was_stopped(job: Job) -> str:
    return f"{job.namespace}/{job.name} was stopped before: `vgpu resume {job.name}` lets it go on"


STOP = Switch(_change, _stopped, _was_stopped)
