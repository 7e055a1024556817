"""`vgpu defrag`: plan which few pods to move so that waiting pods fit, or so that free parts of cards are of more use.

    vgpu defrag --max-moves 20            # prints the plan
    vgpu defrag --max-moves 20 --apply    # and evicts those pods, one step after the other

A move is an eviction, which respects PodDisruptionBudgets. The pod's owner makes the pod again, and it is placed
while the old one still holds its slice. The plan knows cards, CPU and memory, not node selectors: the new place is a
forecast. Pods without an owner, of a DaemonSet or of a gang are not moved, no pod is moved twice, and none for a pod
of lower priority.

It reads pods, nodes and the Jobs of queues with your kubeconfig and plans on a ledger of its own, made of the grants.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.allocator.allocator import Allocator
from device_plugin.allocator.openings import movable
from device_plugin.cli.access import caller
from device_plugin.cli.access.caller import evict, named, still_there
from device_plugin.cli.printing import formats, output
from device_plugin.cli.reading import local_allocator, prefixes
from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import RequestError, VgpuError
from device_plugin.core.printable import printable
from device_plugin.core.rearrange import MovePlan, Ranked, defragment
from device_plugin.state.view import ClusterView

MOST = 10
# Seconds that a step waits for its pods to end before the next step begins.
END_SECONDS, LOOK_SECONDS = 120.0, 1.0


class DefragError(VgpuError):
    """The pods cannot be moved; the text gives the reason."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu defrag`."""
    parser.add_argument(
        "--max-moves", type=int, default=MOST, metavar="N", help=f"most pods to move (default: {MOST})"
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--dry-run", action="store_true", help="only print the plan (the default)")
    way.add_argument("--apply", action="store_true", help="evict the pods, one step after the other")
    prefixes.add_arguments(parser)
    parser.add_argument("-o", "--output", choices=formats.OBJECTS, help="the plan for programs")
    caller.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the plan of moves, and with --apply evict the pods that the plan moves.

    Returns 1 if one of these pods is not evicted, or does not end in time; else 0. Raises DefragError,
    PrefixError, ApiError, EndpointError.
    """
    if args.max_moves < 1:
        raise DefragError("write --max-moves of at least 1")
    with caller.connected(args) as client:
        local = local_allocator.listed(client, prefixes.of(client, args))
        if local.unknown:
            print(printable(local.unknown), file=sys.stderr)
        view = local.view
        steps = planned(view, local.allocator, args.max_moves)
        print(output.as_text(as_object(view, steps), args.output) if args.output else as_text(view, steps))
        if not args.apply:
            return 0
        return int(not all(_carry_out(client, view, step) for step in steps if step.moves))


def planned(view: ClusterView, allocator: Allocator, most: int) -> Sequence[MovePlan]:
    """Returns the steps of a plan that moves at most `most` pods of the cluster that `view` shows.

    The plan makes no room for a waiting pod with a promise (slices that are kept for its job). A pod whose Job is about
    to shrink is not moved.
    """
    shrinking = view.promises.shrinking()
    waiting, holders = [], {}
    for pod in view.pods.all():
        try:
            request = view.pods.request_of(pod)
        except RequestError:
            continue
        if request is None or pod.ended or pod.deleting:
            continue
        if not pod.node:
            # A pod of a gang is not placed alone, so moves for it alone would not help.
            if request.gang is None and not view.promises.of(pod):
                waiting.append(Ranked(request, pod.priority))
        elif movable(pod) and pod.owner_uid not in shrinking:
            holders[pod.uid] = Ranked(request, pod.priority)
    allocator.learning.count(time.monotonic())
    allocator.placer.learn(allocator.learning.target.frequent())
    return defragment(allocator.planner, waiting, holders, most)


def as_text(view: ClusterView, steps: Sequence[MovePlan]) -> str:
    """Returns the steps as a table for people."""
    moves = [move for step in steps for move in step.moves]
    if not moves:
        return "nothing to move: no waiting pod would fit, and no move would make free parts of cards more useful"
    rows = [("POD", "FROM", "TO", "SO THAT")]
    for step in steps:
        gain = " and ".join(f"{_name(view, grant)} fits on {grant.node}" for grant in step.places)
        for number, move in enumerate(step.moves):
            told = gain or "more fits later" if not number else "  with the one above"
            rows.append((_name(view, move.source), _where(move.source), _where(move.target), told))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]
    placed = sum(len(step.places) for step in steps)
    return "\n".join([*lines, f"pods moved: {len(moves)}, waiting pods that fit then: {placed}"])


def as_object(view: ClusterView, steps: Sequence[MovePlan]) -> Mapping[str, Any]:
    """Returns the steps as an object for -o json."""
    return {
        "steps": [
            {
                "moves": [
                    {"pod": _name(view, move.source), "from": _place(move.source), "to": _place(move.target)}
                    for move in step.moves
                ],
                "fits": [{"pod": _name(view, grant), **_place(grant)} for grant in step.places],
            }
            for step in steps
        ]
    }


def _place(grant: Grant | None) -> Mapping[str, Any]:
    if grant is None:
        return {"node": None, "cards": []}
    return {"node": grant.node, "cards": sorted({part.card for part in grant.slices()})}


def _where(grant: Grant | None) -> str:
    if grant is None:
        return "-"
    return f"{grant.node} {','.join(sorted({s.card for s in grant.slices()}))}"


def _name(view: ClusterView, grant: Grant) -> str:
    pod = view.pods.get(grant.pod)
    return named(pod) if pod else grant.pod


def _carry_out(client: KubeClient, view: ClusterView, step: MovePlan) -> bool:
    """Evict the pods of one step, and wait until they have ended; returns false if one of them remains.

    The wait is at most END_SECONDS. If a PodDisruptionBudget protects one of the pods, no pod of the step is evicted.
    """
    going = [pod for move in step.moves if (pod := view.pods.get(move.source.pod)) is not None]
    # Only a whole step helps, so dry runs for all of its pods come before the first eviction.
    asked = going if len(going) > 1 else ()
    for pod, dry in (*product(asked, (True,)), *product(going, (False,))):
        if why := evict(client, pod, dry=dry):
            print(f"{named(pod)} stays: {printable(why)}", flush=True)
            return False
        if not dry:
            print(f"evicted {named(pod)}", flush=True)
    deadline = time.monotonic() + END_SECONDS
    while left := [pod for pod in going if still_there(client, pod)]:
        if time.monotonic() >= deadline:
            print(f"still ending: {', '.join(map(named, left))}", flush=True)
            return False
        time.sleep(LOOK_SECONDS)
    return True
