"""Changes a Job, or a workload of another kind: `vgpu stop` stops it, and `vgpu resume` lets it run again."""

import argparse
import json
from collections.abc import Callable
from typing import NamedTuple

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller, engine
from device_plugin.cli.access.engine import EngineError
from device_plugin.cli.access.names import Named
from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import KUEUE_QUEUE, QUEUE
from device_plugin.core.jobs.reading import CREATORS
from device_plugin.core.workload_kinds import MAKERS
from device_plugin.kube.api import WORKLOADS, Object, Ref


class Switch(NamedTuple):
    """A change that stops a Job or lets it run again: three functions of the Job.

    `change` returns the merge patch, which is empty if there is nothing to change. `changed` returns the text to print
    after the patch; `unchanged` returns the text to print if the patch is empty.
    """

    change: Callable[[Job], Object]
    changed: Callable[[Job], str]
    unchanged: Callable[[Job], str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu stop` and of `vgpu resume`."""
    engine.add_job(parser)
    parser.add_argument("--dry-run", action="store_true", help="only print the kubectl command")


def run(args: argparse.Namespace, switch: Switch) -> int:
    """Stop the Job that the command names, or let it run again, as `switch` says; returns 0.

    Prints the result. With --dry-run it only prints the kubectl command that would make the change.
    Raises ObjectNameError, EngineError, ApiError, EndpointError.
    """
    with caller.connected(args) as client:
        job, change = _decided(client, engine.job_named(args), switch)
        if args.dry_run and change:
            words = "patch", job.kind.resource, job.name, "--type=merge", f"--patch={json.dumps(change)}"
            print(caller.kubectl_line(args, job.namespace, *words))
        else:
            print(_made(client, job, change, switch))
    return 0


def switched(client: KubeClient, of: Named, switch: Switch) -> str:
    """Stop the Job of this name, or let it run again, as `switch` says; returns what was done, as text.

    Raises EngineError, ApiError.
    """
    job, change = _decided(client, of, switch)
    return _made(client, job, change, switch)


def _decided(client: KubeClient, of: Named, switch: Switch) -> tuple[Job, Object]:
    """Returns the Job of this name, and the merge patch of `switch` for it.

    The patch is empty if there is nothing to change.
    """
    job = _changeable(engine.found(client, of))
    return job, switch.change(job)


def _made(client: KubeClient, job: Job, change: Object, switch: Switch) -> str:
    if not change:
        return switch.unchanged(job)
    client.patch(WORKLOADS[job.kind], Ref(job.name, job.namespace, job.uid), change)
    return switch.changed(job)


def _changeable(job: Job) -> Job:
    """Returns `job` as it is, if a command may stop it or let it run.

    Raises EngineError if the Job has ended, or if another controller decides whether it runs.
    """
    name = "/".join(job.key)
    if job.ended or job.deleting:
        raise EngineError(f"job {name} has ended: create it again to run it again")
    if KUEUE_QUEUE in job.labels:
        raise EngineError(f"job {name} is Kueue's: write `active` in the spec of its Workload, false or true")
    # The queue leaves out what another controller has made, with a copied label too.
    if job.owner not in CREATORS and (QUEUE not in job.labels or job.owner in MAKERS):
        raise EngineError(
            f"job {name} belongs to {job.owner} {job.owner_name}: suspend or resume that in its place"
        )
    return job
