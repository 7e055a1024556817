"""Measure how full the cards get with each placement policy, and the time of a decision.

    vgpu bench placement --nodes nodes.csv --pods pods.csv --policy fragmentation,fgd --seeds 42-51

The files have the columns of Alibaba's openb trace (cluster-trace-gpu-v2023). Without them a workload is made up, whose
pods ask for memory and core groups in different proportions. The pods arrive in random order, one at a time, until 1.3
times the capacity was asked for; nothing leaves and nothing is tried again: the protocol of FGD (USENIX ATC'23), which
gives FGD the list of pods beforehand. The other policies see each pod when it comes.

The last column is a digest of all decisions: it is equal for two versions of the code, and with and without the
compiled part of placement, if they grant the same cards to the same pods.

With --lifetimes pods leave again and wait when they do not fit: arrivals are paced so that --offered percent of the
capacity is asked for, and the steady state is measured. With --json shares are in percent too.
"""

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from device_plugin.core.placement import POLICIES
from hack.bench import runs
from hack.bench.lifetimes import Steady, simulate
from hack.bench.plot import draw, drawable
from hack.bench.replay import ReplayOutcome, replay
from hack.bench.report import BenchError, Report, mean, table
from hack.bench.synthetic import chosen
from hack.bench.workload import lifetimes

DEFAULT = "random,best-fit,fgd,fragmentation"
OFFERED, MOST_OFFERED = 95.0, 1000.0
# Hexadecimal digits of the digest of all decisions that are shown.
DIGITS = 12
Figures = Mapping[str, float | str | None]
# Titles of the figures in the text.
ARRIVED = {
    "alloc_at_100": "allocated % at 100 %",
    "alloc_at_130": "at 130 %",
    "frag_at_100": "fragmentation % at 100 %",
    "pods_placed": "pods placed",
    "first_failure_at": "first failure at %",
    "us_per_decision": "us per decision",
    "decisions": "decisions",
}
STEADY = {
    "alloc_mean": "allocated % on average",
    "wait_mean_s": "mean wait, s",
    "wait_p99_s": "p99 wait, s",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu bench placement`."""
    runs.add_arguments(parser)
    parser.add_argument(
        "--policy", default=DEFAULT, metavar="P,P", help=f"any of {', '.join(POLICIES)} (default: {DEFAULT})"
    )
    parser.add_argument(
        "--lifetimes", type=Path, metavar="FILE", help="CSV: scheduled_time, deletion_time; pods leave again"
    )
    parser.add_argument(
        "--offered", type=float, metavar="PERCENT", help=f"with --lifetimes (default: {OFFERED:g})"
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw it: .png, .svg or .pdf (not with --lifetimes)"
    )


def run(args: argparse.Namespace) -> Report:
    """Run the benchmark and return its report. Raises VgpuError if it cannot run."""
    policies, seeds = _policies(args.policy), runs.numbered(args.seeds)
    if args.plot is not None and args.lifetimes is not None:
        raise BenchError("--plot draws arrivals that stay: leave out --lifetimes")
    if args.offered is not None and args.lifetimes is None:
        raise BenchError("--offered paces pods that leave again: write --lifetimes too")
    offered = OFFERED if args.offered is None else args.offered
    if not 0 < offered <= MOST_OFFERED:
        raise BenchError(f"write --offered above 0 and up to {MOST_OFFERED:g}: percent of the capacity")
    if args.plot is not None:
        drawable(args.plot)
    workload = chosen(args.nodes, args.pods)
    if args.lifetimes is None:
        titles = ARRIVED
        replays = runs.every(args.processes, policies, seeds, replay, workload)
        found = {policy: arrived(outcomes) for policy, outcomes in replays.items()}
        if args.plot is not None:
            draw(replays, args.plot)
    else:
        titles = STEADY
        lives = lifetimes(args.lifetimes)
        simulated = runs.every(args.processes, policies, seeds, simulate, workload, lives, offered)
        found = {policy: steady(outcomes) for policy, outcomes in simulated.items()}
    rows = [[policy, *(_shown(figures[key]) for key in titles)] for policy, figures in found.items()]
    return Report(
        {"policies": found},
        f"{len(workload.nodes)} nodes, {workload.capacity:g} cards, {len(workload.jobs)} pods in the list;"
        f" mean of seeds {args.seeds}\n" + table(["policy", *titles.values()], rows),
    )


def arrived(outcomes: Sequence[ReplayOutcome]) -> Figures:
    """Means over the seeds; shares are in percent. The first failure is None if all pods of all seeds fitted.

    `decisions` is one digest of the decisions of all seeds.
    """
    at_100, at_130 = ([outcome.at(percent) for outcome in outcomes] for percent in (100, 130))
    failures = [outcome.first_failure for outcome in outcomes if outcome.first_failure is not None]
    return {
        "alloc_at_100": mean([allocated for allocated, _ in at_100]),
        "alloc_at_130": mean([allocated for allocated, _ in at_130]),
        "frag_at_100": mean([useless for _, useless in at_100]),
        "pods_placed": mean([outcome.placed for outcome in outcomes]),
        "first_failure_at": mean(failures) if failures else None,
        "us_per_decision": mean([outcome.seconds * 1e6 for outcome in outcomes]),
        "decisions": hashlib.sha256(b"".join(outcome.digest for outcome in outcomes)).hexdigest()[:DIGITS],
    }


def steady(outcomes: Sequence[Steady]) -> Figures:
    """Means over the seeds; `wait_p99_s` is the mean of the seeds' 99th percentiles."""
    return {
        "alloc_mean": mean([outcome.allocated for outcome in outcomes]),
        "wait_mean_s": mean([outcome.wait for outcome in outcomes]),
        "wait_p99_s": mean([float(np.percentile(outcome.waits or [0.0], 99)) for outcome in outcomes]),
    }


def _policies(text: str) -> Sequence[str]:
    names = list(dict.fromkeys(text.split(",")))
    if unknown := [name for name in names if name not in POLICIES]:
        raise BenchError(f"no placement policy {unknown[0]!r}: write {', '.join(POLICIES)}")
    return names


def _shown(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.2f}"
