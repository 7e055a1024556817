"""`vgpu queue`: the jobs of queues, each with its place, its width, what it waits for, and what changes next.

    vgpu queue                  # those of your namespace
    vgpu queue -A               # those of all namespaces
    vgpu queue --sort-by=-since -o yaml
    vgpu queue admit train      # starts a waiting job by hand, whatever the queue says

You need kubectl, and the rights of the Role ask-job-engine of docs/jobs.md; for `admit` the rights to patch the Job and
to `admit` jobs of the group vgpu.io in its namespace.
"""

import argparse
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller, engine
from device_plugin.cli.access.engine import EngineError
from device_plugin.cli.printing import output
from device_plugin.cli.printing.output import Column, Listing, ListPrinter, age
from device_plugin.core.annotations import KUEUE_QUEUE, QUEUE
from device_plugin.core.jobs.job import pods
from device_plugin.core.printable import printable
from device_plugin.kube.api import JOBS, Ref

COLUMNS = (
    "NAMESPACE", "NAME", "QUEUE", "PLACE", "PHASE", "WIDTH", "MIN", "MAX", "PROGRESS", "SINCE", "WAITS FOR",
    "NEXT CHANGE",
)  # fmt: skip
NONE = "<none>"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `vgpu queue`, and of `vgpu queue admit`."""
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="the jobs of all namespaces")
    output.add_arguments(parser, LISTING, watch=False)
    caller.add_namespace(parser)
    engine.add_arguments(parser)
    commands = parser.add_subparsers(metavar="[admit JOB]")
    # What is not written after `admit` leaves what was written before it.
    admit = commands.add_parser(
        "admit", help="start a waiting job by hand", argument_default=argparse.SUPPRESS,
        description="Start a waiting job by hand: its pods are made at once, and placed as there is room.",
    )  # fmt: skip
    admit.add_argument("job", metavar="JOB", help="name of the Job, or NAMESPACE/NAME")
    caller.add_namespace(admit)
    caller.add_arguments(admit)
    parser.set_defaults(job="")


def run(args: argparse.Namespace) -> int:
    """Print the jobs, or start one. Raises EngineError, ApiError, EndpointError."""
    with caller.connected(args) as client:
        if args.job:
            print(admitted(client, engine.named(args)))
            return 0
        found = engine.jobs(client, args)
        namespace = "" if args.all_namespaces else caller.namespace(args)
    jobs = listed(found, namespace)
    printer = ListPrinter(args, LISTING)
    if args.output in (*output.OBJECTS, "name"):
        printer.show(jobs)
    elif jobs:
        print(as_table(printer.ordered(jobs), time.time(), namespaces=not namespace))
    else:
        print(f"no job of namespace {namespace} is in a queue" if namespace else "no job is in a queue")
    return 0


def _column(index: int, title: str) -> Column[Mapping[str, Any]]:
    key = title.lower()
    numbers = {"place", "width", "min", "max", "since"}
    return Column(
        title,
        lambda job: _cells(job, time.time())[index],
        key=(lambda job: (job[key] is None, job[key] or 0)) if key in numbers else None,
    )


LISTING: Listing[Mapping[str, Any]] = Listing(
    "jobs",
    tuple(_column(index, title) for index, title in enumerate(COLUMNS)),
    name=lambda job: f"job/{job['namespace']}/{job['name']}",
    object=lambda job: job,
)


def listed(jobs: Iterable[Mapping[str, Any]], namespace: str) -> list[Mapping[str, Any]]:
    """The jobs of a namespace (empty: of all), as a queue has them."""
    return sorted((job for job in jobs if namespace in ("", job["namespace"])), key=_order)


def admitted(client: KubeClient, of: Ref) -> str:
    """Start a job by hand; returns what was done, as text. Raises EngineError, ApiError."""
    name, job = f"{of.namespace}/{of.name}", engine.found(client, of)
    if QUEUE not in job.labels:
        raise EngineError(
            f"job {name} is in no queue: start it with `kubectl patch`, or give it the label {QUEUE}"
        )
    if KUEUE_QUEUE in job.labels:
        raise EngineError(
            f"job {name} is Kueue's, which would stop it again: admit its Workload, or remove {KUEUE_QUEUE}"
        )
    if job.ended or job.deleting:
        raise EngineError(f"job {name} has ended: create it anew")
    if not job.suspend:
        return f"{name} was started before"
    client.patch(JOBS, Ref(of.name, of.namespace, job.uid), {"spec": {"suspend": False}})
    return f"{name} starts with {pods(job.parallelism)}"


def as_table(jobs: Sequence[Mapping[str, Any]], now: float, *, namespaces: bool) -> str:
    """The jobs as kubectl shows objects."""
    rows = [COLUMNS, *(_cells(job, now) for job in jobs)]
    # Not cut to the terminal's width, as other lists are: what a job waits for is a sentence.
    shown = [tuple(map(printable, row[0 if namespaces else 1 :])) for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ("   ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in shown)
    return "\n".join(line.rstrip() for line in lines)


def _order(job: Mapping[str, Any]) -> tuple[object, ...]:
    """Waiting jobs come as their queue has them, then the others by name."""
    return job["queue"], job["place"] is None, job["place"] or 0, job["namespace"], job["name"]


def _cells(job: Mapping[str, Any], now: float) -> tuple[str, ...]:
    progress, since = job["progress"], job["since"]
    return (
        job["namespace"], job["name"], job["queue"] or NONE, str(job["place"] or NONE), job["phase"],
        str(job["width"]), str(job["min"]), str(job["max"]),
        f"{progress['done']}/{progress['total']}" if progress else NONE,
        age(now - since) if since else NONE, job["waitsFor"] or NONE, _next_change(job["nextChange"], now),
    )  # fmt: skip


def _next_change(change: Mapping[str, Any] | None, now: float) -> str:
    if change is None:
        return NONE
    at, before = (change["until"], "within") if "until" in change else (change["from"], "in")
    return f"{change['what']} {before} {age(at - now)}" if at > now else str(change["what"])
