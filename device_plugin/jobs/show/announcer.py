"""Events on Jobs: what was done about each, and why. They are for people; nothing depends on them."""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator

from device_plugin.core.batch import Job
from device_plugin.core.events import Event
from device_plugin.core.jobs.job import JobKey, pods
from device_plugin.core.jobs.plan import Refuse
from device_plugin.core.jobs.resize import Resize, api_time
from device_plugin.jobs.execute.writes import Action, Write
from device_plugin.jobs.plan.round import Round
from device_plugin.jobs.watch.known import KnownJobs
from device_plugin.jobs.watch.managed import paused_until
from device_plugin.kube.api import JOBS, Api
from device_plugin.kube.errors import ApiError

log = logging.getLogger(__name__)

# Events of one Job in an hour; what is beyond them is only in the log.
MOST_IN_HOUR, HOUR = 20, 3600.0
# Events that wait to be posted; the oldest are left out where the API server is slower than that.
MOST_WAITING = 1000
# Events that one step posts: each may take as long as the API server may be silent.
MOST_AT_ONCE = 10
Said = tuple[Event, str]


class Announcer:
    """One thread calls `wrote` and `planned`, another one `step`. Where nothing changes it posts nothing."""

    def __init__(self, api: Api, known: KnownJobs, clock: Callable[[], float]) -> None:
        self._api = api
        self._known = known
        self._clock = clock
        self._waiting: deque[tuple[Job, Event, str]] = deque(maxlen=MOST_WAITING)
        # By Job: its UID, and why it is refused.
        self._refused: dict[JobKey, tuple[str, str]] = {}
        self._seen: Round | None = None
        # The events of each Job since the hour began, by UID.
        self._began, self._counts = clock(), Counter[str]()

    def wrote(self, write: Write) -> None:
        """Say what a write has done."""
        for event, text in said(write):
            self._waiting.append((write.managed.job, event, text))

    def planned(self, last: Round) -> None:
        """Say which Jobs the last round refused, if that is news."""
        if last is self._seen:
            return
        self._seen = last
        steps = {step.job: step.text for step in last.plan.steps if isinstance(step, Refuse)}
        refused = {key: (last.states[key].spec.uid, text) for key, text in {**steps, **last.refused}.items()}
        news = [key for key, each in refused.items() if self._refused.get(key) != each]
        self._refused = refused
        if news:
            managed = self._known.managed()
            self._waiting.extend(
                (managed[key].job, Event.JOB_REFUSED, refused[key][1]) for key in news if key in managed
            )

    def step(self) -> None:
        """Post some of the events that wait."""
        for _ in range(min(MOST_AT_ONCE, len(self._waiting))):
            job, event, text = self._waiting.popleft()
            log.info("%s job=%s/%s: %s", event, job.namespace, job.name, text)
            if not self._may(job):
                continue
            try:
                self._api.post_event(JOBS, job, event, text, warning=event.about.warning)
            except ApiError as error:
                log.warning("event %s of job %s/%s: %s", event, job.namespace, job.name, error)

    def _may(self, job: Job) -> bool:
        """False for a Job that had its events of this hour."""
        now = self._clock()
        if now >= self._began + HOUR:
            self._began, self._counts = now, Counter()
        self._counts[job.uid] += 1
        return self._counts[job.uid] <= MOST_IN_HOUR


def said(write: Write) -> Iterator[Said]:
    """The events that tell of a write; none of the writes that prepare a change or end one."""
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
    elif write.action is Action.STOP:
        yield Event.JOB_STOPPED, f"stops{_helped(record)}, and goes on when there is room again"
    else:
        event = Event.JOB_SHRUNK if record.shrinks else Event.JOB_GROWN
        yield event, f"goes from {record.before} to {pods(record.after)}{_helped(record)}"


def _helped(record: Resize) -> str:
    return f" for job {'/'.join(record.beneficiary)}" if record.beneficiary is not None else ""


def _missed(write: Write, record: Resize) -> str:
    spec, grace = write.managed.spec, write.managed.job.grace_seconds
    text = (
        f"its program was given {spec.checkpoint_seconds:.0f} s for a checkpoint and told of none: its pods that leave"
        f" get SIGTERM, and {grace} s"
    )
    if record.spared_until:
        text += f"; it is not made narrower before {api_time(record.spared_until)}"
    return text


def _refused(record: Resize) -> str:
    kept = f"it goes on with {record.after} of {record.before}" if record.after else "it stops"
    again = api_time(paused_until(record))
    return f"pods are refused: {record.refusal}; {kept}, and is tried again after {again}"
