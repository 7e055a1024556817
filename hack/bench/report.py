"""Print the results of replays."""

from collections.abc import Mapping, Sequence

import numpy as np

from hack.bench.lifetimes import Steady
from hack.bench.replay import Outcome

Figures = Mapping[str, float | None]
Columns = Sequence[tuple[str, str]]

COLUMNS: Columns = (
    ("alloc_at_100", "allocated % at 100 %"),
    ("alloc_at_130", "at 130 %"),
    ("frag_at_100", "fragmentation % at 100 %"),
    ("pods_placed", "pods placed"),
    ("first_failure_at", "first failure at %"),
    ("us_per_decision", "us per decision"),
)
STEADY_COLUMNS: Columns = (
    ("alloc_mean", "allocated % on average"),
    ("wait_mean_s", "mean wait, s"),
    ("wait_p99_s", "p99 wait, s"),
)


def steady(outcomes: Sequence[Steady]) -> Figures:
    """Means over the seeds; the wait's p99 is of each seed."""
    return {
        "alloc_mean": _mean([outcome.allocated for outcome in outcomes]),
        "wait_mean_s": _mean([outcome.wait for outcome in outcomes]),
        "wait_p99_s": _mean([float(np.percentile(outcome.waits or [0.0], 99)) for outcome in outcomes]),
    }


def figures(outcomes: Sequence[Outcome]) -> Figures:
    """Means over the seeds; shares in percent. The first failure is None if nothing failed on any seed."""
    at_100, at_130 = ([outcome.at(percent) for outcome in outcomes] for percent in (100, 130))
    failures = [outcome.first_failure for outcome in outcomes if outcome.first_failure is not None]
    return {
        "alloc_at_100": _mean([allocated for allocated, _ in at_100]),
        "alloc_at_130": _mean([allocated for allocated, _ in at_130]),
        "frag_at_100": _mean([useless for _, useless in at_100]),
        "pods_placed": _mean([outcome.placed for outcome in outcomes]),
        "first_failure_at": _mean(failures) if failures else None,
        "us_per_decision": _mean([outcome.seconds * 1e6 for outcome in outcomes]),
    }


def table(by_policy: Mapping[str, Figures], columns: Columns) -> str:
    """Policies side by side; each column is a figure's name and its title."""
    width = max(len("policy"), *map(len, by_policy))
    lines = ["  ".join(["policy".ljust(width), *(title for _, title in columns)])]
    for policy, found in by_policy.items():
        cells = [_shown(found[key]).rjust(len(title)) for key, title in columns]
        lines.append("  ".join([policy.ljust(width), *cells]))
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 2)


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.2f}"
