"""Small jobs of one card come while a large job has all cards: their waits, and the delay of the large job."""

from collections.abc import Sequence
from dataclasses import dataclass

from device_plugin.core.jobs.job import JobState
from device_plugin.core.jobs.plan import Plan
from device_plugin.core.jobs.room import Room
from device_plugin.core.jobs.rules import HOUR, Rules
from hack.bench.jobs.policies import policy
from hack.bench.jobs.simulation import Costs, Simulation, SimulationOutcome
from hack.bench.jobs.slots import SlotRoom
from hack.bench.jobs.trace import EXPONENT, TraceJob
from hack.bench.report import Report, table

LARGE, SMALL = 128, 64
# Seconds that the large job takes alone, that each small job takes, and until the first small job comes.
LARGE_S, SMALL_S, BEGIN_S = 12 * HOUR, 300.0, 2 * HOUR
# Seconds between two rounds of the engine; seconds between the arrivals of small jobs, in two runs.
TICK_S, APART_S = 5.0, (0.0, 10.0)


@dataclass(frozen=True, slots=True)
class Beside:
    """The figures of one run, in seconds.

    `wait` is the longest wait of a small job. `back` is the time from the end of the last small job until the large job
    has all cards again. `delay` is how much later the large job ends than it would alone.
    """

    wait: float
    back: float
    delay: float
    restarts: int


def beside(apart: float, rules: Rules, tick: float = TICK_S) -> Beside:
    """The figures of a run in which the small jobs come `apart` seconds after one another."""
    large = _job("large", 0.0, LARGE, LARGE_S)
    small = [_job(f"small-{number:02}", BEGIN_S + number * apart, 1, SMALL_S) for number in range(SMALL)]
    alone, together = _Watched(rules), _Watched(rules)
    (by_itself,) = alone.outcome([large], tick).runs
    run, *others = together.outcome([large, *small], tick).runs
    return Beside(
        wait=max(each.first - each.trace.arrival for each in others),
        back=together.narrow - max(each.finished for each in others),
        delay=run.finished - by_itself.finished,
        restarts=run.restarts,
    )


class _Watched:
    """The engine's policy; `narrow` is the last time at which the large job had fewer than all cards."""

    def __init__(self, rules: Rules) -> None:
        self.narrow = 0.0
        self._decide, _ = policy("engine", rules)

    def outcome(self, jobs: Sequence[TraceJob], tick: float) -> SimulationOutcome:
        return Simulation(jobs, SlotRoom(LARGE), self, LARGE, costs=Costs(tick_s=tick)).run()

    def __call__(self, now: float, states: Sequence[JobState], room: Room) -> Plan:
        """The engine's plan."""
        if any(state.spec.asked == LARGE and state.width < LARGE for state in states):
            self.narrow = now
        return self._decide(now, states, room)


def small_beside_large(rules: Rules) -> Report:
    """The report of two runs: all small jobs come together, or one after another."""
    figures, rows = {}, []
    for apart in APART_S:
        found = beside(apart, rules)
        figures[f"{apart:g}"] = {
            "wait_s": found.wait, "back_s": found.back, "delay_s": round(found.delay, 1),
            "restarts": found.restarts,
        }  # fmt: skip
        rows.append(
            [f"{apart:g}", f"{found.wait:g}", f"{found.back:g}", f"{found.delay:.0f}", str(found.restarts)]
        )
    titles = ["s apart", "longest wait, s", "back at all cards, s", "large job delayed, s", "its restarts"]
    return Report(
        {"apart": figures},
        f"{SMALL} jobs of one card beside one of {LARGE}, which has all cards; a tick of {TICK_S:g} s, and a"
        f" cooldown of {rules.cooldown_s:g} s\n" + table(titles, rows),
    )


def _job(name: str, arrival: float, asked: int, seconds: float) -> TraceJob:
    return TraceJob(name, arrival, asked, seconds * asked**EXPONENT, EXPONENT, seconds)
