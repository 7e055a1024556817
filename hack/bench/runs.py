"""Runs of a benchmark: every policy on every seed, several at a time."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

from hack.bench.report import BenchError

T = TypeVar("T")

SEEDS = "42-44"
MOST_SEEDS, MOST_PROCESSES = 1000, 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a workload and its runs."""
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
        "--seeds", default=SEEDS, metavar="A-B", help=f"orders of arrival: 42-51 or 1,2,7 (default: {SEEDS})"
    )
    parser.add_argument(
        "--processes", type=int, default=0, metavar="N", help="at a time (default: one for each CPU)"
    )


def every(
    processes: int,
    policies: Sequence[str],
    seeds: Sequence[int],
    run_one: Callable[..., T],
    *more: object,
) -> Mapping[str, Sequence[T]]:
    """The results of every policy with every seed; a terminal shows the progress on standard error.

    With 0 `processes` there is one per CPU. Raises BenchError.
    """
    if not 0 <= processes <= MOST_PROCESSES:
        raise BenchError(f"write --processes from 1 to {MOST_PROCESSES}")
    outcomes: dict[str, list[T]] = {policy: [] for policy in policies}
    with ProcessPoolExecutor(processes or None) as pool:
        pending = [
            (policy, pool.submit(run_one, policy, seed, *more)) for seed in seeds for policy in policies
        ]
        for number, (policy, future) in enumerate(pending, 1):
            outcomes[policy].append(future.result())
            if sys.stderr.isatty():
                end = "\n" if number == len(pending) else ""
                print(f"\r{number} of {len(pending)} replays", end=end, file=sys.stderr)
    return outcomes


def numbered(text: str) -> Sequence[int]:
    """The seeds in a text such as `42-51` or `1,2,7`. Raises BenchError."""
    try:
        first, dash, last = text.partition("-")
        seeds = range(int(first), int(last) + 1) if dash else [int(word) for word in text.split(",")]
    except ValueError:
        seeds = []
    if not 0 < len(seeds[: MOST_SEEDS + 1]) <= MOST_SEEDS:
        raise BenchError(f"--seeds {text[:40]}: write 42-51 or 1,2,7, at most {MOST_SEEDS} of them")
    return seeds
