"""What a benchmark prints of its replays."""

from collections.abc import Mapping, Sequence

import numpy as np

from device_plugin.cli.bench.replay import Outcome

Figures = Mapping[str, float | None]

COLUMNS = (
    ("alloc_at_100", "allocated % at 100 %"),
    ("alloc_at_130", "at 130 %"),
    ("frag_at_100", "fragmentation % at 100 %"),
    ("pods_placed", "pods placed"),
    ("first_failure_at", "first failure at %"),
    ("us_per_decision", "us per decision"),
)


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


def table(by_policy: Mapping[str, Figures]) -> str:
    """The same, side by side."""
    width = max(len("policy"), *map(len, by_policy))
    lines = ["  ".join(["policy".ljust(width), *(title for _, title in COLUMNS)])]
    for policy, found in by_policy.items():
        cells = [_shown(found[key]).rjust(len(title)) for key, title in COLUMNS]
        lines.append("  ".join([policy.ljust(width), *cells]))
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 2)


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.2f}"
