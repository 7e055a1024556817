"""Forecasts of the next change of a Job, for people, from the last round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from device_plugin.core.jobs.job import JobPhase, JobState, pods
from device_plugin.core.jobs.plan import Admit, Scale, Step, Suspend, Window
from device_plugin.core.jobs.queue import due_at
from device_plugin.core.jobs.resize import api_time
from device_plugin.core.jobs.rules import Rules
from device_plugin.jobs.watch.managed import Managed


@dataclass(frozen=True, slots=True)
class NextChange:
    """A change and its time in seconds since 1970: `at` the latest if `bounded`, otherwise at the earliest."""

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
    now: float,
    contended: bool,
    giving: Sequence[Managed] = (),
    start: float | None = None,
) -> NextChange | None:
    """The next change of the job, None if none is known; `step` is what the last round planned for it.

    `contended` is true while any job waits: only then one that runs gives way, and only otherwise one grows. The job
    waits until pods of the Jobs `giving` have left, and is expected to have room at `start`.
    """
    if giving:
        until = max(other.record.until for other in giving if other.record is not None)
        return NextChange(f"starts with {pods(state.width)}", until, bounded=True)
    if step is not None:
        return NextChange(_planned(step), now)
    record = managed.record
    match state.phase:
        case JobPhase.WAITING | JobPhase.STOPPED:
            if start is not None:
                return NextChange(f"is expected to start with {pods(state.spec.least)}", start)
            return waiting_change(state, rules)
        case JobPhase.RESIZING | JobPhase.STOPPING if record is not None:
            return NextChange(f"has {pods(record.after)}", record.until, bounded=True)
        case JobPhase.RUNNING if contended and not state.held and not state.spec.parts:
            return NextChange("may give way to a job that waits", state.since + rules.quantum_s)
        case JobPhase.RUNNING if not contended and state.adjustable and state.width < state.spec.most:
            # Without a record, which any user may remove, the width has never changed.
            return NextChange("may grow", max(state.since, state.resized + rules.cooldown_s))
    return None


def waiting_change(state: JobState, rules: Rules) -> NextChange:
    """The next change of a job that waits: from then on it goes before others."""
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
