"""Forecasts of the next change of a Job, for people, from the latest round."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from device_plugin.core.contract.resize import api_time
from device_plugin.core.jobs.job import JobPhase, JobState, pods
from device_plugin.core.jobs.plan import Admit, Plan, Scale, Step, Suspend, Window
from device_plugin.core.jobs.queue import due, due_at
from device_plugin.core.jobs.rank import kept_until
from device_plugin.core.jobs.rules import Rules
from device_plugin.state.managed import Managed


@dataclass(frozen=True, slots=True)
class NextChange:
    """A change of a Job as text, and its time in seconds since 1970.

    The time is the latest time of the change if `bounded` is true, else the earliest.
    """

    what: str
    at: float
    bounded: bool = False

    def as_object(self) -> Mapping[str, object]:
        """The change as JSON."""
        return {"what": self.what, "until" if self.bounded else "from": int(self.at)}

    def as_text(self) -> str:
        """The change as the end of a sentence about the job."""
        time = api_time(self.at)
        return f"{self.what} by {time}" if self.bounded else f"{self.what} from {time} on"


def next_change(
    managed: Managed,
    state: JobState,
    step: Step | None,
    rules: Rules,
    *,
    plan: Plan,
    now: float,
    contended: bool,
    giving: Sequence[Managed] = (),
    start: float | None = None,
) -> NextChange | None:
    """The next change of the job; None if none is known.

    `plan` is the latest round's plan, `step` the plan's step for the job. `contended` is true while any job waits: then
    running jobs may shrink or stop, otherwise they may grow. `giving` are the Jobs whose pods must leave before the job
    starts. `start` is the time at which the job is expected to have room.
    """
    if giving:
        return NextChange(f"starts with {pods(state.width)}", left_by(giving), bounded=True)
    if step is not None:
        return NextChange(_planned(step), now)
    record = managed.record
    match state.phase:
        case JobPhase.WAITING | JobPhase.STOPPED:
            reserved = plan.reserved.get(state.spec.key)
            expected = reserved.start if reserved is not None and reserved.start < inf else start
            if expected is not None:
                return NextChange(f"is expected to start with {pods(state.spec.least)}", expected)
            return None if due(state, now, rules) else waiting_change(state, rules)
        case JobPhase.RESIZING | JobPhase.STOPPING if record is not None:
            return NextChange(f"has {pods(record.after)}", record.until, bounded=True)
        case JobPhase.RUNNING if contended:
            waiting_long = bool(plan.reserved or plan.unreserved)
            return min(_giving(state, rules, due=waiting_long), key=lambda change: change.at, default=None)
        case JobPhase.RUNNING if not contended and state.adjustable and state.width < state.spec.most:
            # Without a record, which any user may remove, the width has never changed.
            return NextChange("may grow", max(state.since, state.resized + rules.cooldown_s))
    return None


def left_by(giving: Sequence[Managed]) -> float:
    """The latest time by which the pods of the Jobs `giving` have left."""
    return max(other.record.until for other in giving if other.record is not None)


def _giving(state: JobState, rules: Rules, *, due: bool) -> Iterator[NextChange]:
    """The changes by which the job may make room for a waiting job of its priority, with their earliest times.

    With `due`, the waiting job is due (has waited too long), and some times are earlier. A job of a higher priority
    need not wait for any of these times.
    """
    if state.held or state.spec.parts:
        return
    kept = max(state.since, kept_until(state, rules, due=due))
    if state.adjustable and state.width > state.floor:
        yield NextChange(
            "may be made narrower for a job that waits", max(kept, state.started + rules.narrow_s)
        )
    if rules.may_stop(state.spec):
        quantum = rules.due_quantum_s if due else rules.quantum_s
        yield NextChange("may be stopped for a job that waits", max(kept, state.since + quantum))


def waiting_change(state: JobState, rules: Rules) -> NextChange:
    """The next change of a waiting job: it becomes due, and from then on goes before other jobs of its priority."""
    return NextChange("goes before others of its priority", due_at(state, rules))


def _planned(step: Step) -> str:
    match step:
        case Admit():
            return f"starts with {pods(step.width)}"
        case Scale():
            return f"goes to {pods(step.after)}"
        case Window():
            return f"goes to {step.parallelism} sub-tasks at a time"
        case Suspend():
            return f"stops for job {'/'.join(step.beneficiary)}"
    return "is refused"
