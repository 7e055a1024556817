"""Checks three guarantees of the job engine, compared with FIFO, on lists of jobs made by hand.

The mean JCT is at most FIFO's. No job waits or is stopped for more than MOST_S after the time at which FIFO starts it.
No card is idle on which a waiting job fits, unless it is reserved for a job that is due.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import partial
from math import inf

from device_plugin.core.jobs.job import JobState
from device_plugin.core.jobs.plan import Admit, Plan
from device_plugin.core.jobs.room import Room
from device_plugin.core.jobs.rules import HOUR, Rules
from hack.bench.jobs.figures import Figures, ratios
from hack.bench.jobs.handmade import Handmade, handmade
from hack.bench.jobs.policies import BASE, policy
from hack.bench.jobs.simulation import TICK_S, Policy, Run, Simulation, SimulationOutcome
from hack.bench.jobs.slots import SlotRoom
from hack.bench.report import BenchError, Report, table

MOST_S = 12 * HOUR
# The rounding error of sums of card shares.
EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class Kept:
    """The figures of one case under one policy; JCTs are ratios to FIFO's.

    `late_s` is the longest time for which a job waited or was stopped after the time when FIFO would have started it;
    `late_job` is that job. `idled_card_s` counts the card-seconds that were idle though a waiting job fitted.
    """

    jct_mean: float
    jct_p99: float
    late_s: float
    late_job: str
    stop_longest_s: float
    idled_card_s: float

    def broken(self) -> str:
        """The guarantees of the job engine that are broken, as text."""
        found = []
        if self.jct_mean > 1:
            found.append("mean JCT")
        if self.late_s > MOST_S:
            found.append("late")
        if self.idled_card_s:
            found.append("idle")
        return ", ".join(found)


class Watched:
    """A policy, and the card-seconds that it left idle for more than a tick while a waiting job fitted."""

    def __init__(self, decide: Policy, tick_s: float) -> None:
        self.idled = 0.0
        self._decide = decide
        self._tick_s = tick_s
        # The time of the last round, and the cards that it left idle; the first of consecutive rounds that left some.
        self._last, self._left, self._since = 0.0, 0.0, inf

    def __call__(self, now: float, states: Sequence[JobState], room: Room) -> Plan:
        """The policy's plan."""
        if self._left:
            self.idled += self._left * max(0.0, now - max(self._last, self._since + self._tick_s))
        plan = self._decide(now, states, room)
        self._last, self._left = now, _left(states, plan, room)
        self._since = min(self._since, now) if self._left else inf
        return plan


def _left(states: Sequence[JobState], plan: Plan, room: Room) -> float:
    """The cards that a plan leaves idle and does not reserve, if a waiting job fits on them; else 0."""
    admitted = {step.job for step in plan.steps if isinstance(step, Admit)}
    waiting = [job.spec for job in states if job.queued and job.spec.key not in admitted]
    reserved = sum(spec.least_cards for spec in waiting if spec.key in plan.reserved)
    open_cards = room.idle() - reserved
    fits = any(spec.least_cards <= open_cards + EXACT for spec in waiting if spec.key not in plan.reserved)
    return open_cards if fits else 0.0


def promises(names: Sequence[str], policies: Sequence[str], rules: Rules, pool: Executor) -> Report:
    """The report of the cases with these names, or of all cases. Raises BenchError for an unknown name."""
    cases = handmade()
    unknown = [name for name in names if name not in cases]
    if unknown:
        raise BenchError(f"no case {unknown[0]!r}: write {', '.join(cases)}")
    chosen = {name: cases[name] for name in names or cases}
    tasks = [
        (name, policy) for name, case in chosen.items() for policy in policies
        if not case.liars or policy == "engine-declared"
    ]  # fmt: skip
    bases = dict(zip(chosen, pool.map(_base, chosen.values()), strict=True))
    found = pool.map(
        partial(_kept, rules=rules),
        *zip(*((chosen[name], policy, bases[name]) for name, policy in tasks), strict=True),
    )
    return _report(dict(zip(tasks, found, strict=True)))


def _base(case: Handmade) -> SimulationOutcome:
    decide, _ = policy(BASE, Rules())
    return Simulation(case.jobs, SlotRoom(case.cards), decide, case.cards).run()


def _kept(case: Handmade, name: str, base: SimulationOutcome, rules: Rules) -> Kept:
    decide, knows = policy(name, rules)
    watched = Watched(decide, TICK_S)
    outcome = Simulation(case.jobs, SlotRoom(case.cards), watched, case.cards, knows=knows).run()
    figures = Figures.of(outcome)
    compared = ratios(figures, Figures.of(base))
    late = [_late(run, at.first) for run, at in zip(outcome.runs, base.runs, strict=True)]
    worst = max(range(len(late)), key=late.__getitem__)
    return Kept(
        round(compared["jct_mean_s"], 4), round(compared["jct_p99_s"], 4),
        round(late[worst], 1), outcome.runs[worst].spec.key[1], figures.stop_longest_s, round(watched.idled, 1),
    )  # fmt: skip


def _late(run: Run, from_s: float) -> float:
    """The longest single wait or stop of the job, counted from `from_s` on."""
    return max(end - max(begin, from_s) for begin, end in [(run.trace.arrival, run.first), *run.stops])


def _report(found: Mapping[tuple[str, str], Kept]) -> Report:
    figures: dict[str, dict[str, object]] = {}
    rows = []
    for (name, by), kept in found.items():
        broken = kept.broken()
        figures.setdefault(name, {})[by] = asdict(kept) | {"broken": broken}
        rows.append(
            [
                name, by, f"{kept.jct_mean:.3f}", f"{kept.jct_p99:.3f}", f"{max(0.0, kept.late_s) / HOUR:.1f}",
                kept.late_job, f"{kept.stop_longest_s / HOUR:.1f}", f"{kept.idled_card_s / HOUR:.2f}",
                broken or "-",
            ]
        )  # fmt: skip
    titles = [
        "case", "policy", "mean JCT / FIFO", "p99", "late, h", "job", "longest stop, h", "idled, card-h",
        "broken",
    ]  # fmt: skip
    return Report({"cases": figures}, table(titles, rows))
