"""Four splits of sixteen sub-tasks run among other jobs: the times of the splits, and the delay of the other jobs."""

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
# The other jobs, without a trace: the share of the cards that they would use, their widths, their median length, and
# the sigma of the lognormal lengths.
LOAD, WIDTHS, LENGTH_S, SIGMA = 1.2, (1, 1, 1, 2, 4, 8), 3600.0, 1.0
# The median length of a sub-task on one card, in seconds.
PART_S = 3600.0
MODES = ("barrier", "window", "window-ranked", "one-job")
"""The ways to run a split.

- `barrier`: each sub-task is a Job; new Jobs start only when all running Jobs of the split have ended.
- `window`: each sub-task is a Job, and a Job starts whenever it fits.
- `window-ranked`: as `window`, and a Job is ranked by the card-seconds of its whole split.
- `one-job`: the sub-tasks are the indexes of one Job, which grows whenever another sub-task fits.
"""


@dataclass(frozen=True, slots=True)
class SplitFigures:
    """The figures of the splits and of the other jobs.

    `span_ratio` is the mean of the splits' times from arrival to end, each divided by its lower bound. The bound is the
    larger of the longest sub-task's time and the time of all sub-tasks on all cards.
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
    """The figures of each mode, and the other jobs' mean JCT divided by their mean JCT in the mode `barrier`.

    The first OTHERS jobs of `others` are replayed, or synthetic jobs if it is empty. `room` makes an empty room.
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
    """A policy like `decide`, but each sub-task counts the card-seconds of its whole split as its own."""

    def ranked(now: float, jobs: Sequence[JobState], room: Room) -> Plan:
        served = {name: sum(run.attained for run in runs) for name, runs in made.items()}
        return decide(
            now, [replace(job, attained=served.get(job.spec.split_of, job.attained)) for job in jobs], room
        )

    return ranked


def _begun(runs: Sequence[Run]) -> Sequence[int]:
    """The numbers of a split's ended sub-tasks, each as often as it began."""
    first = runs[0]
    if isinstance(first, SplitRun):
        return [number for number in first.begun if number in first.done]
    return [number for number, run in enumerate(runs) if run.finished < float("inf")]


def _runs(name: str, at: float, seconds: Sequence[float], cards: int, mode: str) -> Sequence[Run]:
    if mode == "one-job":
        return [split_run(name, at, seconds, cards)]
    return part_runs(name, at, seconds, barrier=mode == "barrier")


def _works(jobs: Sequence[TraceJob]) -> Sequence[tuple[str, float, Sequence[float]]]:
    """Name, arrival and sub-task lengths of each split; the splits come at equal intervals among the other jobs."""
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
