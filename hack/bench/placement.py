"""Measure how full the cards get with each placement policy, and the time of a decision.

    vgpu bench placement --nodes nodes.csv --pods pods.csv --policy fragmentation,fgd --seeds 42-51

The files have the columns of Alibaba's openb trace (cluster-trace-gpu-v2023). Without them a workload is made up, whose
pods ask for memory and core groups in different proportions. The pods arrive in random order, one at a time, until 1.3
times the capacity was asked for; nothing leaves and nothing is tried again: the protocol of FGD (USENIX ATC'23), which
gives FGD the list of pods beforehand. The other policies see each pod when it comes.

With --lifetimes pods leave again and wait when they do not fit: arrivals are paced so that --offered percent of the
capacity is asked for, and the steady state is measured.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from device_plugin.core.placement import POLICIES
from hack.bench import report
from hack.bench.lifetimes import simulate
from hack.bench.plot import draw, drawable
from hack.bench.replay import replay
from hack.bench.runs import BenchError, every, numbered
from hack.bench.synthetic import chosen
from hack.bench.workload import lifetimes

DEFAULT = "random,best-fit,fgd,fragmentation"
SEEDS = "42-44"
OFFERED, MOST_OFFERED = 95.0, 1000.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words that follow `vgpu bench placement`."""
    parser.add_argument(
        "--nodes", type=Path, metavar="FILE", help="CSV: sn, cpu_milli, memory_mib, gpu, model"
    )
    parser.add_argument(
        "--pods",
        type=Path,
        metavar="FILE",
        help="CSV: name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec",
    )
    parser.add_argument(
        "--policy", default=DEFAULT, metavar="P,P", help=f"any of {', '.join(POLICIES)} (default: {DEFAULT})"
    )
    parser.add_argument(
        "--seeds", default=SEEDS, metavar="A-B", help=f"orders of arrival: 42-51 or 1,2,7 (default: {SEEDS})"
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
    parser.add_argument(
        "--processes", type=int, default=0, metavar="N", help="at a time (default: one for each CPU)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, shares in percent")


def run(args: argparse.Namespace) -> int:
    """Run the benchmark and print its figures. Raises VgpuError for what cannot be run."""
    policies, seeds = _policies(args.policy), numbered(args.seeds)
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
        replays = every(args.processes, policies, seeds, replay, workload)
        found = {policy: report.figures(outcomes) for policy, outcomes in replays.items()}
        columns = report.COLUMNS
        if args.plot is not None:
            draw(replays, args.plot)
    else:
        lives = lifetimes(args.lifetimes)
        runs = every(args.processes, policies, seeds, simulate, workload, lives, offered)
        found = {policy: report.steady(outcomes) for policy, outcomes in runs.items()}
        columns = report.STEADY_COLUMNS
    if args.json:
        print(json.dumps({"policies": found}, indent=1))
    else:
        cards = (
            f"{len(workload.nodes)} nodes, {workload.capacity:g} cards, {len(workload.jobs)} pods in the list"
        )
        print(f"{cards}; mean of seeds {args.seeds}")
        print(report.table(found, columns))
    return 0


def _policies(text: str) -> Sequence[str]:
    names = list(dict.fromkeys(text.split(",")))
    if unknown := [name for name in names if name not in POLICIES]:
        raise BenchError(f"no placement policy {unknown[0]!r}: write {', '.join(POLICIES)}")
    return names
