"""Figures of a replay, and their ratios to the figures of the base policy."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import prod

from hack.bench.jobs.simulation import SimulationOutcome

# The figures whose ratios are printed; a figure below one second counts as one second.
COMPARED = ("jct_mean_s", "jct_p99_s", "jct_silent_s", "wait_mean_s")
LEAST_S = 1.0


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a trace's jobs (a recorded list of jobs) under one policy.

    JCT is the time from arrival to end, a wait the time from arrival to the first start. `jct_silent_s` is the mean JCT
    of the jobs that do not declare their length (--tells), or of all jobs if all declare it. `allocation` is the share
    of the cards that jobs held from the first arrival to the last end. `outside_widths` and `over_commitments` must be
    0.
    """

    jct_mean_s: float
    jct_p50_s: float
    jct_p99_s: float
    jct_silent_s: float
    wait_mean_s: float
    wait_worst_s: float
    stop_longest_s: float
    restarts_mean: float
    restarts_p99: float
    allocation: float
    useless_shrinks: int
    rounds_to_rest: int
    rounds: int
    outside_widths: int
    over_commitments: int

    @classmethod
    def of(cls, outcome: SimulationOutcome) -> "Figures":
        """The figures of all jobs of a replay."""
        runs = outcome.runs
        jct = [run.finished - run.trace.arrival for run in runs]
        waits = [run.first - run.trace.arrival for run in runs]
        restarts = [run.restarts for run in runs]
        silent = [run.finished - run.trace.arrival for n, run in enumerate(runs) if n % outcome.tells]
        span = max(run.finished for run in runs) - min(run.trace.arrival for run in runs)
        return cls(
            round(_mean(jct), 1), round(_percentile(jct, 0.5), 1), round(_percentile(jct, 0.99), 1),
            round(_mean(silent or jct), 1),
            round(_mean(waits), 1), round(max(waits), 1), round(max(run.stop_longest for run in runs), 1),
            round(_mean(restarts), 2), _percentile(restarts, 0.99),
            round(sum(run.attained for run in runs) / (outcome.cards * span), 4),
            outcome.useless_shrinks, outcome.rounds_to_rest, outcome.rounds, outcome.outside, outcome.overcommitted,
        )  # fmt: skip


Ratios = Mapping[str, float]


def ratios(figures: Figures, base: Figures) -> Ratios:
    """The compared figures of a policy, each divided by the same figure of the base policy."""
    return {
        name: max(LEAST_S, getattr(figures, name)) / max(LEAST_S, getattr(base, name)) for name in COMPARED
    }


def geometric_mean(of_loads: Sequence[Ratios]) -> Ratios:
    """The geometric mean of each ratio over several loads."""
    return {name: prod(each[name] for each in of_loads) ** (1 / len(of_loads)) for name in COMPARED}


def worst(of_loads: Sequence[Figures]) -> Mapping[str, float]:
    """The largest value of each figure over several loads."""
    return {field.name: max(getattr(each, field.name) for each in of_loads) for field in fields(Figures)}


def shown(figures: Figures) -> Mapping[str, float]:
    """The figures by name."""
    return asdict(figures)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
