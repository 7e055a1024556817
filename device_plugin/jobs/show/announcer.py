"""Events on Jobs that report each change and its reason. Events are for people; nothing depends on them."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import is_

from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import HOLD
from device_plugin.core.contract.events import Event
from device_plugin.core.contract.resize import Resize, api_time
from device_plugin.core.jobs.job import JobKey, JobPhase, JobState, pods
from device_plugin.core.jobs.queue import places
from device_plugin.core.jobs.rules import Rules
from device_plugin.jobs.execute.writes import Action, Write
from device_plugin.jobs.round import Round, Rounds
from device_plugin.jobs.show.backlog import Backlog
from device_plugin.jobs.show.next_change import waiting_change
from device_plugin.jobs.show.views import needed, refusals
from device_plugin.kube.api import WORKLOADS, Api
from device_plugin.kube.errors import ApiError
from device_plugin.state.jobs import KnownJobs
from device_plugin.state.managed import paused_until

log = logging.getLogger(__name__)

# Events of one Job in an hour; further ones are only in the log.
MOST_IN_HOUR, HOUR = 20, 3600.0
# A waiting Job gets a `JobWaits` event only while fewer than MOST_WAITS events wait to be posted, and only in the first
# NEW_SECONDS of its life: a new leader does not repeat them all.
MOST_WAITS, NEW_SECONDS = 500, 60.0
# Events that one step posts: each may take as long as the API server may be silent.
MOST_AT_ONCE = 10
Said = tuple[Event, str]


class Announcer:
    """Prepares events about Jobs and posts them. One thread calls `wrote` and `planned`, another thread `step`."""

    def __init__(self, api: Api, known: KnownJobs, clock: Callable[[], float]) -> None:
        self._api = api
        self._known = known
        self._clock = clock
        self._waiting = Backlog()
        # The UIDs of waiting Jobs that were announced; by Job: its UID, and why it is refused.
        self._told: set[str] = set()
        self._refused: dict[JobKey, tuple[str, str]] = {}
        self._seen: Sequence[Round] = ()
        # The events of each Job since the hour began, by UID.
        self._began, self._counts = clock(), Counter[str]()

    def wrote(self, write: Write) -> None:
        """Prepare the events that report a write."""
        for event, text in said(write):
            self._waiting.add(write.managed.job, event, text)

    def planned(self, rounds: Sequence[Rounds], *, dispatches: bool) -> None:
        """Prepare an event for each Job that is refused, or waits, for the first time in the latest rounds.

        A Job that cannot be read is reported only if `dispatches` is true: only one replica is the dispatcher.
        """
        lasts = [each.last for each in rounds]
        if len(lasts) == len(self._seen) and all(map(is_, lasts, self._seen)):
            return
        self._seen = lasts
        problems = self._known.problems() if dispatches else {}
        refused = {
            key: (last.states[key].spec.uid, text)
            for last in lasts
            for key, text in {**last.silent, **refusals(last)}.items()
        }
        refused |= {key: (job.uid, text) for key, (job, text) in problems.items()}
        news = [key for key, each in refused.items() if self._refused.get(key) != each]
        self._refused = refused
        waits = self._new_waits(lasts)
        if not news and not any(waits):
            return
        jobs = {key: managed.job for key, managed in self._known.managed().items()}
        jobs |= {key: job for key, (job, _) in problems.items()}
        for key in news:
            if key in jobs:
                self._waiting.add(jobs[key], Event.JOB_REFUSED, refused[key][1])
        for each, new in zip(rounds, waits, strict=True):
            self._tell(each, new, jobs)

    def _tell(self, rounds: Rounds, waits: Sequence[JobState], jobs: Mapping[JobKey, Job]) -> None:
        """Prepare an event for each of the Jobs `waits`, while fewer than MOST_WAITS events wait to be posted."""
        last = rounds.last
        queued = [state for key, state in last.states.items() if key not in last.refused]
        found = places(queued, last.at, rounds.rules) if waits else {}
        for state in waits:
            if state.spec.key in jobs and len(self._waiting) < MOST_WAITS:
                text = _wait(state, found.get(state.spec.key, 0), last, rounds.rules)
                self._waiting.add(jobs[state.spec.key], Event.JOB_WAITS, text)

    def _new_waits(self, lasts: Sequence[Round]) -> Sequence[Sequence[JobState]]:
        """The waiting jobs that the latest rounds saw for the first time, as a list for each round.

        Jobs older than NEW_SECONDS are left out.
        """
        waiting = list[Sequence[JobState]]()
        for last in lasts:
            settled = {step.job for step in last.plan.steps} | refusals(last).keys()
            waiting.append([
                state for state in last.states.values()
                if state.phase is JobPhase.WAITING and state.spec.key not in settled
            ])  # fmt: skip
        before, self._told = self._told, {state.spec.uid for states in waiting for state in states}
        return [
            [
                state for state in states
                if state.spec.uid not in before and last.at < state.spec.created + NEW_SECONDS
            ]
            for last, states in zip(lasts, waiting, strict=True)
        ]  # fmt: skip

    def step(self) -> None:
        """Log at most MOST_AT_ONCE of the prepared events, and post them on their Jobs.

        An event that the API server refuses, or beyond MOST_IN_HOUR events of its Job, is only in the log.
        """
        for job, event, text in islice(iter(self._waiting.take, None), MOST_AT_ONCE):
            log.info("%s job=%s/%s: %s", event, job.namespace, job.name, text)
            if not self._may(job):
                continue
            try:
                self._api.post_event(WORKLOADS[job.kind], job, event, text, warning=event.about.warning)
            except ApiError as error:
                log.warning("event %s of job %s/%s: %s", event, job.namespace, job.name, error)

    def _may(self, job: Job) -> bool:
        """Count an event of the Job; true if the Job may have it, false after MOST_IN_HOUR events in this hour."""
        now = self._clock()
        if now >= self._began + HOUR:
            self._began, self._counts = now, Counter()
        self._counts[job.uid] += 1
        return self._counts[job.uid] <= MOST_IN_HOUR


def said(write: Write) -> Iterator[Said]:
    """The events that report a write: a start, a new width or a stop, its reason, and an unanswered checkpoint request.

    There is no event for a write that only prepares a change or ends a record.
    """
    record = write.record
    if record is None or write.action not in (Action.START, Action.WIDTH, Action.STOP):
        return
    before = write.managed.record
    if before is not None and before.gen == record.gen and record.unsaved > before.unsaved:
        yield Event.CHECKPOINT_MISSED, _missed(write, record)
    if record.refusal:
        yield Event.PODS_REFUSED, _refused(record)
    elif write.action is Action.START:
        yield Event.JOB_ADMITTED, f"starts with {pods(record.after)}"
    elif write.action is Action.STOP and record.held_since:
        yield Event.JOB_STOPPED, f"stops, because it is held ({HOLD}), and waits again once it is released"
    elif write.action is Action.STOP:
        why = ", because there is no room for some of its pods" if record.without_room else _helped(record)
        yield Event.JOB_STOPPED, f"stops{why}, and goes on when there is room again"
    else:
        event = Event.JOB_SHRUNK if record.shrinks else Event.JOB_GROWN
        yield event, f"goes from {record.before} to {pods(record.after)}{_helped(record)}"


def _wait(state: JobState, place: int, last: Round, rules: Rules) -> str:
    text = f"waits for {needed(state, last, rules)}"
    if closed := last.closed.get(state.spec.key):
        text += f"; {closed}"
    if place:
        text += f"; it is number {place} of those that wait in queue {state.spec.queue}"
    return f"{text}; it {waiting_change(state, rules).as_text()}"


def _helped(record: Resize) -> str:
    return f" for job {'/'.join(record.beneficiary)}" if record.beneficiary is not None else ""


def _missed(write: Write, record: Resize) -> str:
    spec, grace = write.managed.spec, write.managed.job.grace_seconds
    text = (
        f"its program was asked for a checkpoint and reported none within {spec.checkpoint_seconds:.0f} s: the pods"
        f" that leave get SIGTERM, and {grace} s to end"
    )
    if record.spared_until:
        text += f"; it is not made narrower before {api_time(record.spared_until)}"
    return text


def _refused(record: Resize) -> str:
    again = api_time(paused_until(record))
    if record.after:
        what = f"it goes on with {record.after} of {pods(record.before)}, and asks for more after {again}"
    else:
        what = f"it stops, and is started again after {again}"
    return f"the API server refuses its pods: {record.refusal}; {what}"
