"""Four splits of sixteen sub-tasks among other jobs: how soon they end, and what that costs the others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random

from device_plugin.core.jobs.job import JobState
from device_plugin.core.jobs.plan import Plan
from device_plugin.core.jobs.room import Room
from device_plugin.core.jobs.rules import Rules
from hack.bench.jobs.policies import policy
from hack.bench.jobs.simulation import Costs, Policy, Run, Simulation
from hack.bench.jobs.subtasks import SplitRun, part_runs, split_run
from hack.bench.jobs.trace import EXPONENT, TraceJob
from hack.bench.report import Report, table

SPLITS, PARTS, OTHERS, SEED = 4, 16, 240, 1
# Without a trace: the share of the cards that the others would use, and their widths and median length at these.
LOAD, WIDTHS, LENGTH_S, SIGMA = 1.2, (1, 1, 1, 2, 4, 8), 3600.0, 1.0
# The median length of a sub-task on its card.
PART_S = 3600.0
MODES = ("barrier", "window", "window-ranked", "one-job")
"""Sub-tasks that are Jobs, with a barrier and without; the same ranked by the service that all of their split have had;
and the indexes of one Job, of which more run at a time wherever the next one could start as a job of its own."""


@dataclass(frozen=True, slots=True)
class SplitFigures:
    """The figures of the splits and of the other jobs.

    `span_ratio` is the mean of the splits' times from arrival to end, each divided by its bound: the longest sub-task,
    or the sum of all of them on all cards.
    """

    span_ratio: float
    span_worst_ratio: float
    others_jct_mean_s: float
    others_wait_mean_s: float
    parts_lost: int
    parts_twice: int


def splits(
    others: Sequence[TraceJob], cards: int, costs: Costs, room: Callable[[], Room], rules: Rules
) -> Report:
    """The figures of each mode, and the mean JCT of the others against that with the barrier.

    The first OTHERS of `others` are replayed, or synthetic ones if there are none. `room` makes an empty room.
    """
    jobs = others[:OTHERS] or _synthetic(cards)
    found = {mode: _figures(jobs, cards, costs, room(), mode, rules) for mode in MODES}
    base = found[MODES[0]].others_jct_mean_s
    compared = {mode: round(each.others_jct_mean_s / base, 4) for mode, each in found.items()}
    rows = [
        [
            mode, f"{each.span_ratio:.2f}", f"{each.span_worst_ratio:.2f}", f"{compared[mode]:.3f}",
            f"{each.others_wait_mean_s:.0f}", str(each.parts_lost), str(each.parts_twice),
        ]
        for mode, each in found.items()
    ]  # fmt: skip
    titles = ["sub-tasks", "span / bound", "worst", "others' JCT", "wait, s", "lost", "twice"]
    return Report(
        {"modes": {mode: asdict(each) for mode, each in found.items()}, "others_jct_ratios": compared},
        f"{SPLITS} jobs of {PARTS} sub-tasks among {len(jobs)} others on {cards} cards\n"
        + table(titles, rows),
    )


def _figures(
    jobs: Sequence[TraceJob], cards: int, costs: Costs, room: Room, mode: str, rules: Rules
) -> SplitFigures:
    engine, _ = policy("engine", rules)
    made = {name: _runs(name, at, seconds, cards, mode) for name, at, seconds in _works(jobs)}
    decide = _ranked(engine, made) if mode == "window-ranked" else engine
    more = [run for runs in made.values() for run in runs]
    runs = Simulation(jobs, room, decide, cards, costs=costs, more=more).run().runs[: len(jobs)]
    ratios = [
        (max(run.finished for run in made[name]) - at) / max(*seconds, sum(seconds) / cards)
        for name, at, seconds in _works(jobs)
    ]
    begun = [_begun(runs) for runs in made.values()]
    return SplitFigures(
        round(sum(ratios) / SPLITS, 3), round(max(ratios), 3),
        round(sum(run.finished - run.trace.arrival for run in runs) / len(runs), 1),
        round(sum(run.first - run.trace.arrival for run in runs) / len(runs), 1),
        sum(PARTS - len(set(each)) for each in begun), sum(len(each) - len(set(each)) for each in begun),
    )  # fmt: skip


def _ranked(decide: Policy, made: Mapping[str, Sequence[Run]]) -> Policy:
    """The policy where each sub-task counts as having had the service of all of its split."""

    def ranked(now: float, jobs: Sequence[JobState], room: Room) -> Plan:
        served = {name: sum(run.attained for run in runs) for name, runs in made.items()}
        return decide(
            now, [replace(job, attained=served.get(job.spec.split_of, job.attained)) for job in jobs], room
        )

    return ranked


def _begun(runs: Sequence[Run]) -> Sequence[int]:
    """The numbers of the sub-tasks of one split that have ended, each as often as it began."""
    first = runs[0]
    if isinstance(first, SplitRun):
        return [number for number in first.begun if number in first.done]
    return [number for number, run in enumerate(runs) if run.finished < float("inf")]


def _runs(name: str, at: float, seconds: Sequence[float], cards: int, mode: str) -> Sequence[Run]:
    if mode == "one-job":
        return [split_run(name, at, seconds, cards)]
    return part_runs(name, at, seconds, barrier=mode == "barrier")


def _works(jobs: Sequence[TraceJob]) -> Sequence[tuple[str, float, Sequence[float]]]:
    """Name, arrival and lengths of sub-tasks of each split; they come while the others do, equally far apart."""
    rng, last = Random(SEED), max(job.arrival for job in jobs)
    return [
        (
            f"split-{number}", last * (number + 1) / (SPLITS + 1),
            [PART_S * rng.lognormvariate(0, SIGMA) for _ in range(PARTS)],
        )
        for number in range(SPLITS)
    ]  # fmt: skip


def _synthetic(cards: int) -> Sequence[TraceJob]:
    """Jobs of several widths and lengths that would use the share LOAD of the cards."""
    rng = Random(SEED)
    shapes = [(rng.choice(WIDTHS), LENGTH_S * rng.lognormvariate(0, SIGMA)) for _ in range(OTHERS)]
    asked = [min(width, cards) for width, _ in shapes]
    span = sum(n * length for n, (_, length) in zip(asked, shapes, strict=True)) / (LOAD * cards)
    arrivals = sorted(rng.uniform(0, span) for _ in range(OTHERS))
    return [
        TraceJob(f"{number:04}", arrival, n, length * n**EXPONENT, EXPONENT, length)
        for number, (arrival, n, (_, length)) in enumerate(zip(arrivals, asked, shapes, strict=True))
    ]
