"""`vgpu why JOB`: where a job of a queue is, why, and what changes next, in one paragraph from the job engine.

    vgpu why train
    vgpu why train -n team-a

You need kubectl, and the rights of the Role ask-job-engine of docs/jobs.md.
"""

import argparse
from http import HTTPStatus

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import caller, engine
from device_plugin.cli.engine import EngineError
from device_plugin.core.annotations import QUEUE
from device_plugin.kube.api import Ref


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `vgpu why`."""
    parser.add_argument("job", metavar="JOB", help="name of the Job, or NAMESPACE/NAME")
    caller.add_namespace(parser)
    engine.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the paragraph. Raises EngineError, ApiError, EndpointError."""
    with caller.connected(args) as client:
        of = engine.named(args)
        status, text = engine.ask(client, args, "text/plain", job=f"{of.namespace}/{of.name}")
        if status != HTTPStatus.OK:
            raise EngineError(_why_unknown(client, of) if status == HTTPStatus.NOT_FOUND else text.strip())
    # The text may quote what somebody wrote on the Job.
    print("".join(letter if letter.isprintable() else "?" for letter in text.strip()))
    return 0


def _why_unknown(client: KubeClient, of: Ref) -> str:
    """Why the engine does not know the job, and what to do. Raises EngineError, ApiError."""
    name, job = f"{of.namespace}/{of.name}", engine.found(client, of)
    if QUEUE not in job.labels:
        return f"job {name} is in no queue: give it the label {QUEUE}, such as {QUEUE}=default"
    if job.ended:
        return f"job {name} has ended: see `kubectl -n {of.namespace} describe job {of.name}`"
    return f"the job engine has not seen job {name} yet: try again"
