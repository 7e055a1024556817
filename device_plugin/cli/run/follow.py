"""Follows a Job until it ends: says what it waits for, prints what its pods print, and shows its progress."""

import time
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.run.console import Console, progress_bar, progress_text
from device_plugin.cli.run.kubectl import Kubectl
from device_plugin.cli.run.logs import Logs
from device_plugin.cli.run.objects import NOT_STARTED, RunError
from device_plugin.cli.run.pods import JOB_PODS, JobPod, first_failure, shortened, text_of
from device_plugin.core.batch import COMPLETION_INDEX, JOB_NAME, Job
from device_plugin.core.contract.events import Event
from device_plugin.core.jobs.progress import BYTES, Progress, progress_of
from device_plugin.kube.api import EVENTS, JOBS, Ref, Where
from device_plugin.kube.errors import ApiError, GoneError, UnknownError

LOOK_SECONDS = 1.0
# A list of thousands of pods costs the API server seconds: it is asked for in a tenth of the time.
RARER = 10
# Between questions that cost more than a look: a program in the container, a forwarded port.
ASK_SECONDS = 10.0
# After a change of the width an event says why.
NEWS_SECONDS = 3.0
# Between lines of progress where there is no terminal.
LINE_SECONDS = 60.0
# The last output may come later than the Job's end.
OUTPUT_SECONDS = 30.0
# Pods that could not be started, and none that could: the Job tries for ever, because its node may be to blame.
MOST_STARTS = 3
# Events that say why a Job is suspended, why it has another width, and why none of its pods is made.
_WHY_IT_WAITS = frozenset({Event.JOB_WAITS, Event.JOB_REFUSED, Event.JOB_STOPPED, Event.PODS_REFUSED})
_WHY_IT_CHANGED = frozenset({Event.JOB_GROWN, Event.JOB_SHRUNK, Event.PODS_REFUSED})
_NO_PODS = frozenset({Event.PODS_REFUSED, "FailedCreate"})
_READ_PROGRESS = ("sh", "-c", 'cat "$VGPU_PROGRESS"')


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a Job: with exit code 0, or that of the program that failed and `why`.

    `over` is false for a Job that Kubernetes would try for ever, because none of its pods can be started.
    """

    code: int
    why: str = ""
    over: bool = True


class Following:
    """Looks at one Job again and again. `asked` says what the job engine knows of a Job that waits, or nothing."""

    def __init__(
        self, client: KubeClient, kubectl: Kubectl, console: Console, job: Ref, *,
        parts: bool, every: bool, asked: Callable[[], str],
    ) -> None:  # fmt: skip
        self._client = client
        self._kubectl = kubectl
        self._console = console
        self._job = job
        self._parts = parts
        self._asked = asked
        labels = f"{JOB_NAME}={job.name}" + ("" if every else f",{COMPLETION_INDEX}=0")
        self._where = Where(job.namespace, labels)
        self._logs = Logs(kubectl, console, indexed=every)
        self._said = ""
        self._engine = ""
        self._width = 0
        self._ask_at = self._progress_at = self._news_at = self._listing = 0.0
        self._speed = Speed()

    def until_end(self) -> JobEnd:
        """Return when the Job has ended and its output is printed. Raises RunError, ApiError."""
        try:
            while (end := self._look()) is None:
                time.sleep(max(LOOK_SECONDS, RARER * self._listing))
        finally:
            self._console.bar("")
            self._logs.stop()
        return end

    def _look(self) -> JobEnd | None:
        """One look at the Job and its pods; how it ended, if it has."""
        if self._console.closed:
            raise RunError("nobody reads the output any more: to start a Job only, write --detach")
        try:
            job = self._client.get(JOBS, self._job)
            begin = time.monotonic()
            pods = self._client.list(JOB_PODS, self._where).items
            self._listing = time.monotonic() - begin
        except GoneError:
            job = None
        except UnknownError as error:
            self._say(f"the API server does not answer: {error}")
            return None
        if job is None or job.uid != self._job.uid:
            raise RunError(f"job {self._job.name} was deleted")
        self._logs.look(pods)
        if job.ended:
            self._print_rest()
            return self._end(job)
        self._say(self._state(job, pods))
        self._say_news(job)
        self._show_progress(job, pods)
        failed = [pod for pod in pods if pod.not_started]
        if len(failed) >= MOST_STARTS and not any(pod.has_run for pod in pods):
            why = text_of(failed[-1].state["terminated"], "message") or "the node says nothing"
            return JobEnd(NOT_STARTED, f"its program cannot be started: {why}", over=False)
        return None

    def _print_rest(self) -> None:
        """Print what the pods printed before they ended, in OUTPUT_SECONDS at most."""
        limit = time.monotonic() + OUTPUT_SECONDS
        while self._logs.busy and time.monotonic() < limit:
            time.sleep(LOOK_SECONDS / 10)
            with suppress(UnknownError):
                self._logs.look(self._client.list(JOB_PODS, self._where).items)
            time.sleep(RARER * self._listing)
        if self._logs.busy:
            where = f"kubectl -n {self._job.namespace} logs -l {JOB_NAME}={self._job.name} --tail=-1"
            self._console.say(f"{self._job.name}: not all output is printed, see {where}")

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._console.say(f"{self._job.name}: {text}")

    def _state(self, job: Job, pods: Sequence[JobPod]) -> str:
        """The Job's state as text, with the reason why it waits."""
        if job.suspend:
            if time.monotonic() >= self._ask_at:
                self._engine = self._asked() or self._event(_WHY_IT_WAITS)
                # An engine that says nothing has not seen the Job yet.
                self._ask_at = time.monotonic() + (ASK_SECONDS if self._engine else NEWS_SECONDS)
            return f"waits in its queue{': ' if self._engine else ''}{self._engine}"
        if job.ready:
            return f"runs with {job.ready} of {job.parallelism} replicas" if not self._parts else "runs"
        waiting = [pod.waits_for for pod in pods if pod.waits_for]
        why = waiting[0] if waiting else "" if pods else self._event(_NO_PODS)
        return f"starts: {why}" if why else "starts"

    def _say_news(self, job: Job) -> None:
        """Say why the number of replicas has changed."""
        if job.parallelism != self._width:
            self._news_at = time.monotonic() + NEWS_SECONDS if self._width else 0.0
            self._width = job.parallelism
        if self._news_at and time.monotonic() >= self._news_at:
            self._news_at = 0.0
            if (news := self._event(_WHY_IT_CHANGED)) and not self._parts:
                self._console.say(f"{self._job.name}: {news}")

    def _event(self, reasons: Set[str]) -> str:
        """The newest event about the Job with one of these reasons, as far as the caller may read events.

        Others, such as the Job controller's `Job completed`, may have come after the Job was read.
        """
        where = Where(self._job.namespace, fields=f"involvedObject.uid={self._job.uid}")
        with suppress(ApiError):
            events = [
                each for each in self._client.list(EVENTS, where).items if each.get("reason") in reasons
            ]
            newest = max(
                events, key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""), default={}
            )
            return shortened(str(newest.get("message") or ""))
        return ""

    def _show_progress(self, job: Job, pods: Sequence[JobPod]) -> None:
        now = time.monotonic()
        if now < self._progress_at:
            return
        self._progress_at = now + (ASK_SECONDS if self._console.terminal else LINE_SECONDS)
        told = self._progress(job, pods)
        if told is None:
            self._console.bar("")
            return
        text = progress_text(told, self._speed.left(now, told, job.ready))
        if self._console.terminal:
            self._console.bar(f"{self._job.name} {progress_bar(told)}  {text}")
        else:
            self._console.say(f"{self._job.name}: {text}")

    def _progress(self, job: Job, pods: Sequence[JobPod]) -> Progress | None:
        """The progress that the program of index 0 reports; for a split, the number of sub-tasks that are done."""
        if self._parts:
            return Progress(job.succeeded, job.completions or 1)
        running = [pod.name for pod in pods if pod.index == "0" and pod.running]
        with suppress(RunError):
            if running:
                return progress_of(self._kubectl.inside(running[-1], *_READ_PROGRESS)[:BYTES])
        return None

    def _end(self, job: Job) -> JobEnd:
        failed = next((each for each in job.conditions if each.type == "Failed"), None)
        if failed is None:
            return JobEnd(0)
        code, told = 1, ""
        with suppress(ApiError):
            where = Where(self._job.namespace, f"{JOB_NAME}={self._job.name}", "status.phase=Failed")
            code, told = first_failure(self._client.list(JOB_PODS, where).items)
        why = ": ".join(filter(None, (failed.reason, shortened(failed.message), told)))
        return JobEnd(code, why)


class Speed:
    """The speed of the work, measured while the number of replicas stays."""

    def __init__(self) -> None:
        self._since, self._done, self._replicas = 0.0, 0, -1

    def left(self, now: float, told: Progress, replicas: int) -> float | None:
        """Seconds that the rest takes; None if that is not known yet."""
        if replicas != self._replicas or told.done < self._done:
            self._since, self._done, self._replicas = now, told.done, replicas
        done = told.done - self._done
        return (told.total - told.done) * (now - self._since) / done if done else None
