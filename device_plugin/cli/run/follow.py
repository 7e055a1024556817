"""Follows a Job until it ends: says why it waits, prints the output of its pods, and shows its progress."""

import time
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.run.console import Console
from device_plugin.cli.run.kubectl import Kubectl
from device_plugin.cli.run.logs import RARER, Logs
from device_plugin.cli.run.objects import NOT_STARTED, RunError
from device_plugin.cli.run.pods import JOB_PODS, JobPod, first_failure, of_job, shortened, text_of
from device_plugin.cli.run.status import RUNS, JobStatus
from device_plugin.core.batch import COMPLETION_INDEX, JOB_NAME, Job
from device_plugin.core.contract.events import WHY_A_JOB_WAITS, Event
from device_plugin.core.jobs.progress import BYTES, Progress, progress_of
from device_plugin.kube.api import EVENTS, JOBS, Ref, Where
from device_plugin.kube.errors import ApiError, GoneError, UnknownError

LOOK_SECONDS = 1.0
# Seconds between two calls that cost more than a look: of a program in the container, or through a forwarded port.
ASK_SECONDS = 10.0
# Seconds after a change of the width until its event is read, which says why.
NEWS_SECONDS = 3.0
# Seconds between two lines of progress without a terminal.
LINE_SECONDS = 60.0
# Seconds between two drawings of the last line, whose time changes.
TICK_SECONDS = 1.0
# Seconds to wait for the last output after the Job's end.
OUTPUT_SECONDS = 30.0
# After this number of pods that could not be started, and none that could, the Job counts as failed. Kubernetes would
# go on, because a node may be the cause.
MOST_STARTS = 3
# Events that say why the width of a Job has changed, and why none of its pods is created.
_WHY_IT_CHANGED = frozenset({Event.JOB_GROWN, Event.JOB_SHRUNK, Event.PODS_REFUSED})
_NO_PODS = frozenset({Event.PODS_REFUSED, "FailedCreate"})
_READ_PROGRESS = ("sh", "-c", 'cat "$VGPU_PROGRESS"')


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a Job: exit code 0, or the exit code of the program that failed, and the reason `why`.

    `over` is false if Kubernetes goes on with the Job for ever, although none of its pods can be started.
    """

    code: int
    why: str = ""
    over: bool = True


class Following:
    """Follows one Job. `asked` returns the job engine's reason why the Job waits; empty if it is not known.

    `parts` is true for a split, a Job of sub-tasks; its progress is the number of finished sub-tasks. With `every` the
    output of all pods is printed, else only that of index 0.
    """

    def __init__(
        self, client: KubeClient, kubectl: Kubectl, console: Console, status: JobStatus, job: Ref, *,
        parts: bool, every: bool, asked: Callable[[], str],
    ) -> None:  # fmt: skip
        self._client = client
        self._kubectl = kubectl
        self._console = console
        self._status = status
        self._job = job
        self._parts = parts
        self._asked = asked
        labels = f"{JOB_NAME}={job.name}" + ("" if every else f",{COMPLETION_INDEX}=0")
        self._where = Where(job.namespace, labels)
        self._logs = Logs(kubectl, console, labelled=every)
        self._engine = ""
        self._width = 0
        self._ask_at = self._progress_at = self._news_at = self._listing = 0.0
        self._speed = Speed()

    def until_end(self) -> JobEnd:
        """Wait until the Job has ended and its output is printed; returns its end. Raises RunError, ApiError."""
        try:
            while (end := self._look()) is None:
                self._pause(max(LOOK_SECONDS, RARER * self._listing))
        finally:
            self._status.close()
            self._logs.stop()
        return end

    def _pods(self, where: Where) -> Sequence[JobPod]:
        return of_job(self._client.list(JOB_PODS, where).items, self._job.uid)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, TICK_SECONDS))
            self._status.redraw()

    def _look(self) -> JobEnd | None:
        """Read the Job and its pods once, and print the news; returns the Job's end, or None while it goes on."""
        if self._console.closed:
            raise RunError("nobody reads the output any more: to start a Job only, write --detach")
        try:
            job = self._client.get(JOBS, self._job)
            begin = time.monotonic()
            pods = self._pods(self._where)
            self._listing = time.monotonic() - begin
        except GoneError:
            job = None
        except UnknownError as error:
            self._status.state("the API server does not answer", str(error))
            return None
        if job is None or job.uid != self._job.uid:
            raise RunError(f"job {self._job.name} was deleted")
        self._logs.look(pods)
        if job.ended:
            self._status.close()
            self._print_rest()
            return self._end(job)
        self._status.state(*self._state(job, pods))
        self._say_news(job)
        self._show_progress(job, pods)
        failed = [pod for pod in pods if pod.not_started]
        if len(failed) >= MOST_STARTS and not any(pod.has_run for pod in pods):
            why = text_of(failed[-1].state["terminated"], "message") or "the node says nothing"
            return JobEnd(NOT_STARTED, f"its program cannot be started: {why}", over=False)
        return None

    def _print_rest(self) -> None:
        """Print the rest of the pods' output, for OUTPUT_SECONDS at most; says if some is left."""
        if not self._logs.print_rest(lambda: self._pods(self._where), OUTPUT_SECONDS):
            where = f"vgpu logs {self._job.name} -n {self._job.namespace}"
            self._console.say(f"{self._job.name}: not all output is printed, see {where}")

    def _state(self, job: Job, pods: Sequence[JobPod]) -> tuple[str, str]:
        """Returns the Job's state, and the reason why the Job waits.

        The reason is empty if the Job does not wait, or if the reason is not known.
        """
        if job.suspend:
            if time.monotonic() >= self._ask_at:
                self._engine = self._asked() or self._event(WHY_A_JOB_WAITS)
                # An empty answer means that the engine has not seen the Job yet.
                self._ask_at = time.monotonic() + (ASK_SECONDS if self._engine else NEWS_SECONDS)
            return "waits in its queue", self._engine
        if job.ready:
            return RUNS if self._parts else f"{RUNS} with {job.ready} of {job.parallelism} replicas", ""
        waiting = [pod.waits_for for pod in pods if pod.waits_for]
        return "starts", waiting[0] if waiting else "" if pods else self._event(_NO_PODS)

    def _say_news(self, job: Job) -> None:
        """Print the reason why the number of replicas has changed, NEWS_SECONDS after the change.

        Nothing is printed for a split, whose replicas change with its sub-tasks.
        """
        if job.parallelism != self._width:
            self._news_at = time.monotonic() + NEWS_SECONDS if self._width else 0.0
            self._width = job.parallelism
        if self._news_at and time.monotonic() >= self._news_at:
            self._news_at = 0.0
            if (news := self._event(_WHY_IT_CHANGED)) and not self._parts:
                self._console.say(f"{self._job.name}: {news}")

    def _event(self, reasons: Set[str]) -> str:
        """Returns the message of the newest event about the Job that has one of these reasons.

        Returns an empty text if there is none, or if the caller may not read events. Other events do not count: the Job
        controller's `Completed`, for example, may come after the Job was read.
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
        self._status.progress(told, self._speed.left(now, told, job.ready) if told is not None else None)

    def _progress(self, job: Job, pods: Sequence[JobPod]) -> Progress | None:
        """Returns the progress that the program of index 0 reports; for a split, the number of finished sub-tasks.

        None if the program reports none, or does not run.
        """
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
            code, told = first_failure(self._pods(where))
        why = ": ".join(filter(None, (failed.reason, shortened(failed.message), told)))
        return JobEnd(code, why)


class Speed:
    """Measures the speed of the work; the measurement starts again when the number of replicas changes."""

    def __init__(self) -> None:
        self._since, self._done, self._replicas = 0.0, 0, -1

    def left(self, now: float, told: Progress, replicas: int) -> float | None:
        """Returns the seconds that the rest of the work takes at the speed so far; None if it is not known yet.

        `told` is the progress at the time `now`.
        """
        if replicas != self._replicas or told.done < self._done:
            self._since, self._done, self._replicas = now, told.done, replicas
        done = told.done - self._done
        return (told.total - told.done) * (now - self._since) / done if done else None
