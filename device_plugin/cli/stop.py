"""`vgpu stop JOB`: stops a job, and keeps it from running until `vgpu resume`.

    vgpu stop train
    vgpu stop jobset/pretrain   # or another kind of workload that a queue starts, such as rayjob/tune
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
from device_plugin.core.workload_kinds import JOB
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
    return {} if job.suspend else {"spec": job.kind.suspension(suspend=True)}


def _stopped(job: Job) -> str:
    how = "held" if QUEUE in job.labels else "suspended"
    # The pods of other kinds than Job are not counted.
    runs = job.active if job.kind is JOB else not job.suspend
    what = "its pods end" if runs else "it does not start"
    return f"{'/'.join(job.key)} is {how}: {what}, and `vgpu resume {job.key[1]}` lets it go on"


def _was_stopped(job: Job) -> str:
    return f"{'/'.join(job.key)} was stopped before: `vgpu resume {job.key[1]}` lets it go on"


STOP = Switch(_change, _stopped, _was_stopped)
