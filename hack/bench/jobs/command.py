"""Measure job policies: replay training jobs of a trace on a virtual clock, every policy against FIFO.

    vgpu bench jobs --trace 103959.trace --cards 64 --squeeze 5.5 --widths 1..1x --slots
    vgpu bench jobs --loads FOLDER
    vgpu bench jobs --trace 2869ce.trace --cards 40 --squeeze 3.5 --rigid --resumable 1
    vgpu bench jobs --handmade livelock-3h,huge --policy engine
    vgpu bench jobs --split --cards 12

A trace is in the format of gavel's: job_type, command, num_steps_arg, needs_data_dir, total_steps, arrival_time,
scale_factor, separated by tabs. With --loads the folder's traces are replayed as the four loads of LOADS, and the
geometric means of the ratios are printed. `fifo-skip` runs each job at the width asked for, in order of arrival, and
passes over what does not fit. `elastic-score` and `smallest-first` are the bare rules. `engine` is the job engine and
knows nothing of the length of the jobs; with a suffix it knows their declared durations, their progress, or all of it.

By default no job is stopped for one of its priority, as where the engine is installed without other settings: elastic
ones shrink only. With --resumable 1 all jobs consent to be stopped. --handmade replays small traces that are made by a
program, and names the promises that a policy breaks on them.

--slots counts equal cards; --nodes N decides with the real ledger and place() on nodes of N cards. --split puts four
jobs of sixteen sub-tasks among the first 240 jobs of --trace, or among synthetic ones. --cards-per-replica shows what
fragmentation of the nodes costs: compare --slots with --nodes 8.
"""

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path

from device_plugin.core.jobs.room import Room
from device_plugin.core.jobs.rules import Rules
from hack.bench.jobs.beside import small_beside_large
from hack.bench.jobs.equal import equal_jobs
from hack.bench.jobs.figures import COMPARED, Figures, Ratios, geometric_mean, ratios, shown, worst
from hack.bench.jobs.large import planned_in
from hack.bench.jobs.nodes import node_room, replicas_on
from hack.bench.jobs.plot import draw
from hack.bench.jobs.policies import BASE, POLICIES, policy
from hack.bench.jobs.promises import promises
from hack.bench.jobs.simulation import DRAIN_S, START_S, TICK_S, Costs, Simulation, SimulationOutcome
from hack.bench.jobs.slots import SlotRoom
from hack.bench.jobs.splits import splits
from hack.bench.jobs.trace import TraceJob, in_replicas, read
from hack.bench.plot import drawable
from hack.bench.report import BenchError, Report, table

WIDTHS = {"1..1x": 1, "1..2x": 2}
MOST_CARDS, MOST_SQUEEZE, MOST_SECONDS = 100_000, 1000.0, 86_400.0
LOADS = (("103959", 12, 1.0), ("103959", 64, 5.5), ("2869ce", 64, 6.4), ("ee9e8c", 112, 1.0))
"""Trace, cards and squeeze of each load."""
SHOWN = (
    "wait_worst_s", "stop_longest_s", "restarts_mean", "restarts_p99", "allocation", "useless_shrinks",
    "rounds_to_rest",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TraceLoad:
    """The jobs of a trace, and the cluster on which they are simulated: `cards` cards, `per_node` on each node.

    `per_node` is 0 if the cards have no nodes: then a job needs only a number of equal cards. `widest` is the number of
    cards of the largest job.
    """

    name: str
    jobs: Sequence[TraceJob]
    cards: int
    per_node: int
    widest: int
    costs: Costs
    tells: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu bench jobs`."""
    parser.add_argument("--trace", type=Path, metavar="FILE", help="jobs in gavel's format")
    parser.add_argument("--loads", type=Path, metavar="FOLDER", help="replay the four loads from its traces")
    parser.add_argument("--cards", type=int, default=64, metavar="N", help="with --trace (default: 64)")
    parser.add_argument("--squeeze", type=float, default=1.0, metavar="X", help="jobs arrive X times as fast")
    widths = parser.add_mutually_exclusive_group()
    widths.add_argument(
        "--widths", choices=WIDTHS, default="1..1x", help="of the width asked (default: 1..1x)"
    )
    widths.add_argument("--rigid", action="store_true", help="each job runs at the width asked for only")
    parser.add_argument(
        "--resumable", type=int, choices=(0, 1), default=0,
        help="1: jobs may be stopped for jobs of their priority (default: 0)",
    )  # fmt: skip
    room = parser.add_mutually_exclusive_group()
    room.add_argument("--slots", action="store_true", help="count equal cards (the default)")
    room.add_argument("--nodes", type=int, default=0, metavar="N", help="the real ledger, nodes of N cards")
    parser.add_argument(
        "--policy",
        default=",".join(POLICIES),
        metavar="P,P",
        help=f"any of {', '.join(POLICIES)} (default: all)",
    )
    parser.add_argument("--drain", type=float, default=DRAIN_S, metavar="S", help="seconds of a drain")
    parser.add_argument(
        "--start", type=float, default=START_S, metavar="S", help="seconds of a start or resize"
    )
    parser.add_argument("--tick", type=float, default=TICK_S, metavar="S", help="seconds between rounds")
    parser.add_argument(
        "--per-model", action="store_true", help="each model's own speed-up, not width ** 0.9"
    )
    parser.add_argument(
        "--cards-per-replica",
        default="",
        metavar="C:W,C:W",
        help="jobs of n cards have n // C replicas of C cards, C drawn with weight W (default: 1)",
    )
    parser.add_argument("--tells", type=int, default=1, metavar="N", help="one job of N says its length")
    parser.add_argument("--equal", action="store_true", help="20 equal jobs, where elasticity costs time")
    parser.add_argument(
        "--handmade", nargs="?", const="", metavar="NAME,NAME", help="traces made by hand (default: all)"
    )
    parser.add_argument("--beside", action="store_true", help="64 jobs of one card beside one of 128")
    parser.add_argument("--split", action="store_true", help="four jobs of sixteen sub-tasks among others")
    parser.add_argument("--large", type=int, metavar="N", help="the time to plan for N jobs on N cards")
    parser.add_argument(
        "--processes", type=int, default=0, metavar="N", help="at a time (default: one for each CPU)"
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the JCTs of --trace: .png, .svg or .pdf"
    )


def run(args: argparse.Namespace) -> Report:
    """Run the benchmark and return its report. Raises VgpuError if it cannot run."""
    _check(args)
    rules = Rules(resumable=bool(args.resumable))
    if args.large is not None:
        return planned_in(args.large, args.nodes, rules)
    if args.equal:
        return equal_jobs(rules)
    if args.beside:
        return small_beside_large(rules)
    if args.handmade is not None:
        with ProcessPoolExecutor(args.processes or None) as pool:
            return promises(
                args.handmade.split(",") if args.handmade else [], _policies(args.policy)[1:], rules, pool
            )
    if args.split:
        others = _read(args, args.trace, args.cards, args.squeeze) if args.trace else ()
        costs = Costs(args.drain, args.start, args.tick)
        return splits(others, args.cards, costs, partial(_room, args.cards, args.nodes), rules)
    policies = _policies(args.policy)
    loads = _loads(args)
    tasks = [(load, name) for load in loads for name in policies]
    with ProcessPoolExecutor(args.processes or None) as pool:
        outcomes = list(pool.map(partial(_replay, rules=rules), *zip(*tasks, strict=True)))
    found: dict[str, dict[str, Figures]] = {load.name: {} for load in loads}
    for (load, name), outcome in zip(tasks, outcomes, strict=True):
        found[load.name][name] = Figures.of(outcome)
    if args.plot is not None:
        draw({name: outcome for (_, name), outcome in zip(tasks, outcomes, strict=True)}, args.plot)
    return _of_one(found[loads[0].name]) if len(loads) == 1 else _of_all(found)


def _check(args: argparse.Namespace) -> None:
    _check_load(args)
    if not 1 <= args.cards <= MOST_CARDS or not 0 <= args.nodes <= MOST_CARDS:
        raise BenchError(f"write --cards and --nodes from 1 to {MOST_CARDS}")
    if args.large is not None and not 1 <= args.large <= MOST_CARDS:
        raise BenchError(f"write --large from 1 to {MOST_CARDS}")
    if not 0 < args.squeeze <= MOST_SQUEEZE:
        raise BenchError(f"write --squeeze above 0 and up to {MOST_SQUEEZE:g}")
    if not 0 < args.tick <= MOST_SECONDS or not all(0 <= s <= MOST_SECONDS for s in (args.drain, args.start)):
        raise BenchError(f"write --drain, --start and --tick in seconds, up to {MOST_SECONDS:g}")
    if args.tells < 1:
        raise BenchError("write --tells N from 1: one job of N says its length")
    if args.plot is not None:
        if args.trace is None:
            raise BenchError("--plot draws one load: write --trace FILE")
        drawable(args.plot)


def _check_load(args: argparse.Namespace) -> None:
    if args.split and args.loads is not None:
        raise BenchError("--split takes one load: write --trace FILE, or nothing")
    alone = args.equal or args.beside or args.split or args.handmade is not None or args.large is not None
    if alone and args.cards_per_replica:
        raise BenchError(
            "--cards-per-replica changes the jobs of --trace or --loads: write one of these alone"
        )
    if (args.trace is None) == (args.loads is None) and not alone:
        raise BenchError("write --trace FILE or --loads FOLDER")


def _policies(text: str) -> Sequence[str]:
    """The policies of a comma list; the base is always among them, and first. Raises BenchError."""
    asked = [word.strip() for word in text.split(",")]
    unknown = [word for word in asked if word not in POLICIES]
    if unknown:
        raise BenchError(f"no policy {unknown[0]!r}: write {', '.join(POLICIES)}")
    return list(dict.fromkeys([BASE, *asked]))


def _shares(text: str, per_node: int) -> Mapping[int, float]:
    """The weight of each number of cards of a replica, from a text such as `1:3,8:1`. Raises BenchError."""
    if not text:
        return {1: 1.0}
    try:
        pairs = (word.partition(":") for word in text.split(","))
        shares = {int(cards): float(weight) for cards, _, weight in pairs}
    except ValueError:
        shares = {}
    if not shares or min(shares) < 1 or not all(0 < weight < inf for weight in shares.values()):
        raise BenchError(f"--cards-per-replica {text!r}: write cards and weights above 0, such as 1:3,8:1")
    if per_node and max(shares) > per_node:
        raise BenchError(f"no node has {max(shares)} cards: write --nodes {max(shares)}, or smaller replicas")
    return shares


def _loads(args: argparse.Namespace) -> Sequence[TraceLoad]:
    wanted = [(args.trace, args.cards, args.squeeze)]
    if args.loads is not None:
        wanted = [
            (args.loads / f"{name}.trace", cards, squeeze * args.squeeze) for name, cards, squeeze in LOADS
        ]
    costs, shares = Costs(args.drain, args.start, args.tick), _shares(args.cards_per_replica, args.nodes)
    return [
        TraceLoad(
            f"{file.stem}@{cards}",
            in_replicas(
                _read(args, file, cards, squeeze), shares, partial(replicas_on, cards, args.nodes or cards)
            ),
            cards, args.nodes, WIDTHS[args.widths], costs, args.tells,
        )
        for file, cards, squeeze in wanted
    ]  # fmt: skip


def _read(args: argparse.Namespace, file: Path, cards: int, squeeze: float) -> Sequence[TraceJob]:
    jobs = read(file, cards, squeeze, per_model=args.per_model)
    return [replace(job, rigid=args.rigid) for job in jobs]


def _room(cards: int, per_node: int) -> Room:
    return node_room(cards, per_node) if per_node else SlotRoom(cards)


def _replay(load: TraceLoad, name: str, rules: Rules) -> SimulationOutcome:
    room = _room(load.cards, load.per_node)
    decide, knows = policy(name, rules)
    return Simulation(
        load.jobs,
        room,
        decide,
        load.cards,
        knows=knows,
        widest=load.widest,
        costs=load.costs,
        tells=load.tells,
    ).run()


def _of_one(found: Mapping[str, Figures]) -> Report:
    compared = {policy: ratios(figures, found[BASE]) for policy, figures in found.items()}
    figures = {
        "policies": {policy: shown(each) for policy, each in found.items()},
        "ratios": {policy: _rounded(each) for policy, each in compared.items()},
    }
    return Report(figures, _table(compared, {policy: shown(each) for policy, each in found.items()}))


def _of_all(found: Mapping[str, Mapping[str, Figures]]) -> Report:
    """The report of several loads: geometric means of the ratios, and the worst value of each other figure."""
    reports = {load: _of_one(policies) for load, policies in found.items()}
    policies = next(iter(found.values()))
    compared = {
        policy: geometric_mean([ratios(each[policy], each[BASE]) for each in found.values()])
        for policy in policies
    }
    largest = {policy: worst([each[policy] for each in found.values()]) for policy in policies}
    figures = {
        "loads": {load: report.figures for load, report in reports.items()},
        "ratios": {policy: _rounded(each) for policy, each in compared.items()},
        "worst": largest,
    }
    parts = [f"{load}\n{report.text}" for load, report in reports.items()]
    return Report(
        figures,
        "\n\n".join(
            [
                *parts,
                f"all loads: geometric mean of the ratios, worst of the rest\n{_table(compared, largest)}",
            ]
        ),
    )


def _rounded(of_policy: Ratios) -> Ratios:
    return {name: round(ratio, 4) for name, ratio in of_policy.items()}


def _table(compared: Mapping[str, Ratios], figures: Mapping[str, Mapping[str, float]]) -> str:
    titles = ["ratios to FIFO", *(name.removesuffix("_s") for name in COMPARED), *SHOWN]
    rows = [
        [
            policy,
            *(f"{of_policy[name]:.4f}" for name in COMPARED),
            *(f"{figures[policy][name]:g}" for name in SHOWN),
        ]
        for policy, of_policy in compared.items()
    ]
    return table(titles, rows)
