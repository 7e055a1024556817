"""`vgpu run NAME`: run a program on cards, as a Job of a queue.

    vgpu run hello --image I --mem 4 -- echo hello                           # 4 units of one card
    vgpu run train --image I --cards 4 --min 2 --max 8 -- torchrun train.py  # 2 to 8 replicas, a card each
    vgpu run frames --image I --mem 4 --split a.sh,b.sh                      # each script is a sub-task
    vgpu run sized --image I --samples 1281167 --epochs 90 --duration 8h --model resnet50 -- torchrun train.py
    vgpu run ... --dry-run -o yaml                                           # only print what would be created

It waits until the Job has ended, prints the output of index 0, and exits with the program's exit code. You need
kubectl, and the rights that the page "Jobs in a queue" of the documentation lists.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import yaml

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller, engine
from device_plugin.cli.access.engine import EngineError
from device_plugin.cli.access.port_forward import ForwardError
from device_plugin.cli.interrupts import interruptible
from device_plugin.cli.run import fetch
from device_plugin.cli.run.console import Console
from device_plugin.cli.run.follow import Following
from device_plugin.cli.run.kubectl import Kubectl
from device_plugin.cli.run.objects import NewJob, Objects, RunError, objects, owned_by
from device_plugin.cli.run.options import add_arguments, fetched, new_job
from device_plugin.cli.run.status import JobStatus
from device_plugin.core.exit_status import INTERRUPTED
from device_plugin.core.http_values import JSON
from device_plugin.core.jobs.job import JobPhase
from device_plugin.kube.api import JOBS, Kind, Ref
from device_plugin.kube.errors import ApiError, ConflictError, GoneError

__all__ = ["add_arguments", "run"]

# Phases in which a Job does not wait.
_RUNS = {JobPhase.RUNNING.value, JobPhase.RESIZING.value}
_KINDS: Mapping[str, Kind[dict[str, Any]]] = {
    "ConfigMap": Kind("", "v1", "configmaps", "ConfigMap", dict),
    "Service": Kind("", "v1", "services", "Service", dict),
}


def run(args: argparse.Namespace) -> int:
    """Create the Job, follow it and return the exit status of its program; with --dry-run, only print the Job.

    Raises RunError, ApiError, EndpointError.
    """
    new = new_job(args)
    made = objects(new, args.prefix)
    paths = fetched(args)
    fetch.check(new, paths)
    if args.output and not args.dry_run:
        raise RunError("-o says how --dry-run prints: write --dry-run too")
    if args.detach and (args.rm or paths):
        raise RunError("--rm and --fetch are done when the Job has ended: leave them out, or --detach")
    if args.dry_run:
        print(as_text(made, args.output or "yaml"), end="")
        return 0
    with caller.connected(args) as client, interruptible():
        job = _created(client, made.job, caller.namespace(args))
        try:
            _create_others(client, made, job)
            if args.detach:
                print(f"job {job.namespace}/{job.name} is created; {_next(job)}")
                return 0
            return _followed(client, args, new, job, paths)
        except KeyboardInterrupt:
            print(f"interrupted; {'the Job is deleted' if args.rm else _next(job)}", file=sys.stderr)
            return INTERRUPTED
        finally:
            if args.rm:
                with suppress(GoneError):
                    client.delete(JOBS, job)


def _created(client: KubeClient, body: Mapping[str, Any], namespace: str) -> Ref:
    """Create the Job, which then waits in its queue; returns its reference.

    Raises RunError if a Job has this name already; ApiError.
    """
    try:
        made = client.create(JOBS, body, namespace)
    except ConflictError:
        name = body["metadata"]["name"]
        raise RunError(
            f"job {namespace}/{name} is there already: take another name, or delete it: kubectl -n {namespace} delete"
            f" job {name}"
        ) from None
    return Ref(made.name, made.namespace, made.uid)


def _create_others(client: KubeClient, made: Objects, job: Ref) -> None:
    """Create the other objects that the Job needs, owned by the Job; on failure, delete the Job.

    Raises RunError, ApiError.
    """
    for body in made.others:
        kind = _KINDS[body["kind"]]
        try:
            client.create(kind, {**body, "metadata": {**body["metadata"], **owned_by(job)}}, job.namespace)
        except ApiError as error:
            client.delete(JOBS, job)
            if not isinstance(error, ConflictError):
                raise
            raise RunError(
                f"{kind.plural} {job.namespace}/{body['metadata']['name']} is there already: take another name"
            ) from error


def _followed(
    client: KubeClient, args: argparse.Namespace, new: NewJob, job: Ref, paths: Mapping[str, str]
) -> int:
    """Follow the Job to its end and fetch its result; returns the exit status. Raises RunError, ApiError.

    `paths` has, for each path of the container to fetch, the local path.
    """
    kubectl = Kubectl(caller.kubeconfig(args), job.namespace, caller.kubectl_words(args))
    console = Console(sys.stdout.buffer, sys.stderr)
    following = Following(
        client, kubectl, console, JobStatus(console, sys.stderr, job.name), job,
        parts=bool(new.scripts), every=bool(new.scripts) or args.all_logs, asked=_engine(client, args, job),
    )  # fmt: skip
    end = following.until_end()
    if end.code:
        goes_on = "" if end.over or args.rm else f"; it tries again: {_next(job)}"
        console.say(f"{job.name} failed: {end.why}{goes_on}")
        return end.code
    console.say(f"{job.name}: done")
    if paths:
        fetch.fetch(client, kubectl, new, job, paths)
        console.say(f"{job.name}: fetched {', '.join(paths.values())}")
    return 0


def _engine(client: KubeClient, args: argparse.Namespace, job: Ref) -> Callable[[], str]:
    """Returns a function that asks the job engine why the Job waits.

    The function returns an empty text if the caller may not ask, the Job runs, or the engine has not seen the Job yet.
    """
    allowed = [True]

    def ask() -> str:
        if not allowed:
            return ""
        try:
            _, text = engine.ask(client, args, JSON, job=f"{job.namespace}/{job.name}")
            (found,) = json.loads(text)["jobs"]
        except engine.NoEngineError as error:
            return str(error)
        except (EngineError, ForwardError, ApiError):
            allowed.clear()
            return ""
        except (ValueError, LookupError):  # it has not seen the Job yet
            return ""
        if found["phase"] in _RUNS:  # it was started since it was read
            return ""
        if found["phase"] == JobPhase.REFUSED.value:
            return f"refused: {found['why']}"
        place = f", number {found['place']} of its queue" if found["place"] else ""
        return f"{found['waitsFor'] or found['why']}{place}"

    return ask


def _next(job: Ref) -> str:
    """Returns text with the commands to see and to stop a Job that this command no longer follows."""
    of = f"{job.name} -n {job.namespace}"
    return f"see it: vgpu why {of}, vgpu logs -f {of}; delete it: vgpu cancel {of}"


def as_text(made: Objects, form: str) -> str:
    """Returns the objects as text for kubectl apply, the Job last, because its pods need the others."""
    listed = [*made.others, made.job]
    if form == "json":
        whole = listed[0] if len(listed) == 1 else {"apiVersion": "v1", "kind": "List", "items": listed}
        return f"{json.dumps(whole, indent=2)}\n"
    return str(yaml.dump_all(listed, Dumper=_Dumper, sort_keys=False, width=120))


class _Dumper(yaml.SafeDumper):
    """Writes YAML with texts of several lines as blocks, and without aliases."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _as_block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _as_block)
