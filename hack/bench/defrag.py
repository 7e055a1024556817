"""Measure how much more fits a full cluster after a few pods were moved.

    vgpu bench defrag --nodes nodes.csv --pods pods.csv --seeds 42-51 --max-moves-share 0.05

The policy `random` places pods until they have asked for 100 % of the cluster's capacity; pods that do not fit wait.
Then at most the share --max-moves-share of the pods is moved, and all waiting pods are tried again, in the order of
arrival. The curve shows the shares that the plan promises after each of its steps. With --json shares are in percent
too.
"""

import argparse
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from device_plugin.core.contract.grants import Grant
from device_plugin.core.rearrange import Move, Planner, Ranked, defragment
from hack.bench import runs
from hack.bench.cluster import BenchCluster
from hack.bench.replay import arrivals
from hack.bench.report import BenchError, Report, mean, table
from hack.bench.synthetic import chosen
from hack.bench.workload import BenchPod, BenchWorkload

SHARE = 0.05
# The number of points of the curve after the first.
PARTS = 10


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the curve: the percent of the capacity that is allocated, and fragmented, after `moves` moves."""

    moves: float
    allocated: float
    fragmented: float


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of one seed: the curve, and the percent allocated after all waiting pods were tried again.

    `seconds` is the time that the plan took.
    """

    pods: int
    curve: Sequence[Point]
    offered_again: float
    seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu bench defrag`."""
    runs.add_arguments(parser)
    parser.add_argument(
        "--max-moves-share", type=float, default=SHARE, metavar="S", help=f"of the pods (default: {SHARE})"
    )


def run(args: argparse.Namespace) -> Report:
    """Run the benchmark and return its report. Raises VgpuError if it cannot run."""
    if not 0 < args.max_moves_share <= 1:
        raise BenchError("write --max-moves-share above 0 and up to 1: 0.05 for one pod in twenty")
    workload = chosen(args.nodes, args.pods)
    outcomes = runs.every(
        args.processes, ("random",), runs.numbered(args.seeds), moved, workload, args.max_moves_share
    )
    found = figures(outcomes["random"])
    return Report(found, _shown(found, args.seeds))


def moved(policy: str, seed: int, workload: BenchWorkload, share: float) -> Moved:
    """Fill a cluster by `policy`, make a plan of moves, carry it out, and place the waiting pods again."""
    cluster = BenchCluster(workload, policy, seed)
    there, waiting = _filled(cluster, workload, seed)
    cluster.renew()
    jobs = {**there, **waiting}
    planner = Planner(cluster.ledger, cluster.placer)
    started = time.perf_counter()
    steps = defragment(planner, list(_asking(waiting).values()), _asking(there), round(share * len(there)))
    seconds = time.perf_counter() - started

    def measured(moves: int) -> Point:
        allocated = sum(workload.cards(jobs[grant.pod]) for grant in cluster.ledger.grants().values())
        return Point(moves, 100 * allocated / workload.capacity, cluster.useless())

    def take(moves: Iterable[Move], places: Iterable[Grant] = ()) -> None:
        for source in [move.source for move in moves]:
            cluster.ledger.release(source.pod)
        for grant in (*places, *(move.target for move in moves if move.target is not None)):
            cluster.ledger.hold(grant, jobs[grant.pod].request.host)

    curve, done = [measured(0)], 0
    with cluster.ledger.transaction():
        for step in steps:
            take(step.moves, step.places)
            done += len(step.moves)
            curve.append(measured(done))
    for step in steps:
        take(step.moves)
    for job in waiting.values():
        place = cluster.placer.place(job.request)
        if isinstance(place, Grant):
            cluster.ledger.hold(place, job.request.host)
    return Moved(len(there), curve, measured(done).allocated, seconds)


def _filled(
    cluster: BenchCluster, workload: BenchWorkload, seed: int
) -> tuple[Mapping[str, BenchPod], Mapping[str, BenchPod]]:
    """Fill the cluster; returns the placed pods and the refused pods, by name."""
    there: dict[str, BenchPod] = {}
    waiting: dict[str, BenchPod] = {}
    asked = 0.0
    for job in arrivals(workload, seed):
        asked += workload.cards(job)
        if asked > workload.capacity:
            break
        cluster.learn(job)
        (waiting if cluster.place(job) is None else there)[job.name] = job
    return there, waiting


def _asking(jobs: Mapping[str, BenchPod]) -> Mapping[str, Ranked]:
    return {name: Ranked(job.request) for name, job in jobs.items() if job.request.containers}


def figures(outcomes: Sequence[Moved]) -> Mapping[str, object]:
    """The means over the seeds; the curve's points are at equal parts of each seed's number of moves."""
    curve = [
        {
            name: mean([getattr(_at(outcome.curve, part / PARTS), name) for outcome in outcomes])
            for name in ("moves", "allocated", "fragmented")
        }
        for part in range(PARTS + 1)
    ]
    return {
        "pods": mean([outcome.pods for outcome in outcomes]),
        "curve": curve,
        "offered_again": mean([outcome.offered_again for outcome in outcomes]),
        "gained": mean([outcome.offered_again - outcome.curve[0].allocated for outcome in outcomes]),
        "plan_seconds": mean([outcome.seconds for outcome in outcomes]),
    }


def _at(curve: Sequence[Point], part: float) -> Point:
    """The last point of the curve within `part` (0 to 1) of all moves."""
    return [point for point in curve if point.moves <= part * curve[-1].moves][-1]


def _shown(found: Mapping[str, Any], which: str) -> str:
    rows = [
        [f"{point['moves']:.0f}", f"{point['allocated']:.2f}", f"{point['fragmented']:.2f}"]
        for point in found["curve"]
    ]
    return (
        f"{found['pods']:.0f} pods placed by `random`; mean of seeds {which}\n"
        + table(["pods moved", "allocated %", "fragmentation %"], rows)
        + f"\noffered again: {found['offered_again']:.2f} % allocated, {found['gained']:+.2f} points;"
        f" the plan took {found['plan_seconds']:.1f} s"
    )
