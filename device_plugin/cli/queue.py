"""`vgpu jobs`, or `vgpu queue`: the jobs of queues: place, width, why each waits, and what changes next.

    vgpu jobs                   # those of your namespace
    vgpu jobs -A                # those of all namespaces
    vgpu jobs train             # one of them, also if it has ended
    vgpu jobs rayjob/tune       # one of another kind than Job
    vgpu jobs --all             # also those that have ended and still exist
    vgpu jobs -l team=vision -w
    vgpu jobs --sort-by=-since -o yaml
    vgpu queue admit train      # starts a waiting job by hand, whatever the queue says

Places and forecasts are the job engine's: for them you need kubectl, and the rights of the Role ask-job-engine (page
"Jobs in a queue" of the documentation). Without these rights the list is made of the Jobs that you may list, for which
--all and -l need the right too. `admit` needs the rights to patch the Job and to `admit` jobs of the group vgpu.io.
"""

import argparse
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller, engine
from device_plugin.cli.access.engine import EngineError
from device_plugin.cli.access.names import Named, named
from device_plugin.cli.printing import formats, output
from device_plugin.cli.printing.follow import show_changes
from device_plugin.cli.printing.output import NONE, Column, Listing, ListPrinter, age
from device_plugin.cli.queued_jobs import ENDS, JobsReader
from device_plugin.cli.reading.cluster import MissingRight
from device_plugin.core.contract.annotations import KUEUE_QUEUE, QUEUE
from device_plugin.core.jobs.job import JobPhase, pods
from device_plugin.core.jobs.reading import held
from device_plugin.kube.api import WORKLOADS, Ref

NOBODY = "no job is in a queue"
# Seconds between two questions to the job engine, each of which takes a port-forward.
ASK_SECONDS = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu jobs`."""
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="the jobs of all namespaces")
    parser.add_argument("--all", action="store_true", help="also jobs that have ended, as long as they exist")
    output.add_arguments(parser, LISTING)
    output.add_selector(parser, "jobs")
    caller.add_namespace(parser)
    engine.add_arguments(parser)
    parser.add_argument(
        "jobs",
        nargs="*",
        metavar="JOB",
        help="only these jobs, also ended ones; `admit JOB` starts a waiting job by hand",
    )


def run(args: argparse.Namespace) -> int:
    """Print the jobs of queues, or with `admit` start a waiting job by hand.

    Raises EngineError, ForwardError, ListForbiddenError, ApiError, EndpointError, SortError.
    """
    with caller.connected(args) as client:
        if args.jobs[:1] == [engine.ADMIT]:
            print(admitted(client, _to_admit(args)))
            return 0
        namespace, names = _chosen(args)
        reader = JobsReader(client, args, namespace, names)
        printer = ListPrinter(args, _listing(namespaces=not namespace, wide=args.output == "wide"))
        found, missing, notes = reader.read()
        empty = f"no job of namespace {namespace} is in a queue" if namespace else NOBODY
        # Jobs that the caller may not read would perhaps be rows.
        empty = f"no job of a queue has this name: {', '.join(args.jobs)}" if names else empty
        empty = "no jobs are known" if missing else empty
        keys = {"missing": [*map(MissingRight.as_object, missing)], "faults": [], "notes": [*notes]}
        printer.show(found, keys, empty)
        if args.output not in formats.OBJECTS:
            output.note([*map(str, missing), *notes])
        if not args.watch:
            return 0
        printer.remember(found)
        return show_changes(threading.Event(), lambda: printer.show_changes(reader.read().rows), ASK_SECONDS)


def _to_admit(args: argparse.Namespace) -> Named:
    """Returns the job to start by hand. Raises EngineError, ObjectNameError, EndpointError."""
    if len(args.jobs) != 2:
        raise EngineError(f"{engine.ADMIT} starts one job: write `vgpu queue {engine.ADMIT} JOB`")
    return named(args.jobs[1], engine.WORKLOAD_WORDS, lambda: caller.namespace(args))


def _chosen(args: argparse.Namespace) -> tuple[str, Collection[str]]:
    """Returns the namespace to read (empty: all) and the names of the jobs to show (none: all of them).

    Raises EngineError, ObjectNameError, EndpointError.
    """
    found = [named(name, engine.WORKLOAD_WORDS, lambda: caller.namespace(args)) for name in args.jobs]
    names = {f"{kind}/{of.name}" if kind else of.name for kind, of in found}
    if args.all_namespaces or not found:
        return "" if args.all_namespaces else caller.namespace(args), names
    namespaces = sorted({of.namespace for _, of in found})
    if len(namespaces) > 1:
        raise EngineError(f"jobs of several namespaces are named: {', '.join(namespaces)}: name those of one")
    return namespaces[0], names


def _number(key: str) -> Callable[[Mapping[str, Any]], tuple[bool, float]]:
    """Returns a function that takes a job and returns its sort key: the number that the job has under `key`.

    In ascending order, jobs whose number is not known come last.
    """
    return lambda job: (job[key] is None, job[key] or 0)


def _count(key: str) -> Callable[[Mapping[str, Any]], str]:
    """Returns a function that takes a job and returns, as text, the number that the job has under `key`.

    The text is <none> if the number is not known.
    """
    return lambda job: NONE if job[key] is None else str(job[key])


def _widths(job: Mapping[str, Any]) -> str:
    """Returns the widths (numbers of pods) that a job allows, as text; <none> if it lists no widths.

    An older job engine sends no widths: then the text is <none> too.
    """
    return ",".join(map(str, job.get("widths") or ())) or NONE


def _progress(job: Mapping[str, Any]) -> str:
    progress = job["progress"]
    return f"{progress['done']}/{progress['total']}" if progress else NONE


def _next_change(job: Mapping[str, Any]) -> str:
    if (change := job["nextChange"]) is None:
        return NONE
    now = time.time()
    at, before = (change["until"], "within") if "until" in change else (change["from"], "in")
    return f"{change['what']} {before} {age(at - now)}" if at > now else str(change["what"])


_BAD = {JobPhase.REFUSED.value, ENDS["Failed"]}
# Keys that change without a change that a reader acts on; _watched compares parts of some of them.
_NOT_WATCHED = ("progress", "secondsLeft", "secondsStuck", "nextChange", "expected", "why")
# The parts of `why` that differ from answer to answer: the names of refused pods, times, and numbers with their
# units. A digit in the name of a job does not match.
_PASSING = re.compile(
    r'pods "[^"]*"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]+Z'
    r"|(?<![\w/.-])(?:[0-9][0-9.,]*(?: ?(?:s|min|m|h|d|[kMGTPE]i?)(?![A-Za-z]))? ?)+"
)


def _watched(job: Mapping[str, Any]) -> object:
    """Returns the parts of a job that --watch compares: state, place, width, next change, whether it is stuck, and why.

    A reader acts on a change of these. The time of the next change, and times and numbers in `why`, are left out,
    because they differ from answer to answer.
    """
    change = job["nextChange"]
    kept = {key: value for key, value in job.items() if key not in _NOT_WATCHED}
    why = _PASSING.sub(" ", job["why"]).split()
    return kept, change and change["what"], job.get("secondsStuck") is None, why


_NAMESPACE: Column[Mapping[str, Any]] = Column("NAMESPACE", lambda job: job["namespace"])
LISTING: Listing[Mapping[str, Any]] = Listing(
    "jobs",
    (
        _NAMESPACE,
        Column("NAME", lambda job: job["name"]),
        Column("QUEUE", lambda job: job["queue"] or NONE),
        Column("PLACE", lambda job: str(job["place"] or NONE), key=_number("place")),
        Column("PHASE", lambda job: job["phase"], warning=lambda job: job["phase"] in _BAD),
        Column("WIDTH", lambda job: str(job["width"]), key=_number("width")),
        Column("MIN", _count("min"), key=_number("min")),
        Column("MAX", _count("max"), key=_number("max")),
        Column("WIDTHS", _widths, wide=True),
        Column("PROGRESS", _progress),
        Column("SINCE", lambda job: age(time.time() - job["since"]) if job["since"] else NONE, key=_number("since")),
        Column("WAITS FOR", lambda job: job["waitsFor"] or NONE, wide=True),
        Column("NEXT CHANGE", _next_change, wide=True),
        Column("REASON", lambda job: job["why"] or NONE, wide=True),
    ),
    name=lambda job: f"job/{job['namespace']}/{job['name']}",
    object=lambda job: job,
    watched=_watched,
)  # fmt: skip


def _reason(job: Mapping[str, Any]) -> str:
    """Returns the reason why the job waits, or why its number of pods does not change.

    The text is empty if the job just runs, because its row shows that already.
    """
    just_runs = job["phase"] == JobPhase.RUNNING.value and "; " not in job["why"]
    return "" if just_runs else job["why"] or (job["waitsFor"] and f"waits for {job['waitsFor']}")


def _below(job: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines below a job's row: the reason of its state, and its next change."""
    if reason := _reason(job):
        yield f"    {reason}"
    if job["nextChange"]:
        yield f"    next: {_next_change(job)}"


def _listing(*, namespaces: bool, wide: bool = False) -> Listing[Mapping[str, Any]]:
    """Returns the listing of jobs; if `namespaces`, with the column NAMESPACE.

    Sentences, such as the reason for a job's state, are in columns if `wide`, else in lines below the job's row.
    """
    listing = LISTING if namespaces else LISTING.without(_NAMESPACE)
    return listing if wide else replace(listing, below=_below)


def as_table(jobs: Sequence[Mapping[str, Any]]) -> str:
    """Returns the jobs of one namespace as a table in plain text, without colours; no text in it is cut."""
    table = StringIO()
    options = argparse.Namespace(output=None, sort_by=None, no_headers=False)
    ListPrinter(options, _listing(namespaces=False), table).show(jobs)
    return table.getvalue().rstrip("\n")


def admitted(client: KubeClient, of: Named) -> str:
    """Start a waiting job, whatever its queue says; returns what was done, as text. Raises EngineError, ApiError."""
    job = engine.found(client, of)
    name = "/".join(job.key)
    if QUEUE not in job.labels:
        raise EngineError(
            f"job {name} is in no queue: start it with `kubectl patch`, or give it the label {QUEUE}"
        )
    if KUEUE_QUEUE in job.labels:
        raise EngineError(
            f"job {name} is Kueue's, which would stop it again: admit its Workload, or remove {KUEUE_QUEUE}"
        )
    if job.ended or job.deleting:
        raise EngineError(f"job {name} has ended: create it again")
    if held(job):
        raise EngineError(
            f"job {name} is held, and would be stopped again: release it with `vgpu resume {job.key[1]}`"
        )
    if not job.suspend:
        return f"{name} was started before"
    change = {"spec": job.kind.suspension(suspend=False)}
    client.patch(WORKLOADS[job.kind], Ref(job.name, job.namespace, job.uid), change)
    return f"{name} starts with {pods(job.parallelism)}"
