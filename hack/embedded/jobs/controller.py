"""The Job controller's threads: two watches find the Jobs that need a round, and a worker does the rounds."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.kube.api import JOBS, PODS, Change, Ref, Where
from device_plugin.kube.errors import ApiError, ConflictError, GoneError, UnknownError
from hack.embedded.apiserver.jobs import JOB_NAME
from hack.embedded.clock import timestamp
from hack.embedded.jobs.garbage import collect
from hack.embedded.jobs.pods import delete, new_pod, release
from hack.embedded.jobs.sync import UNCOUNTED, Backoff, JobRound, Moment, Object, over
from hack.embedded.pod_spec import ref
from hack.embedded.work_queue import WorkQueue

log = logging.getLogger(__name__)

USER = "system:serviceaccount:kube-system:job-controller"
MANAGER = "kubernetes.io/job-controller"
Key = tuple[str, str]
# Reasons of events that are not warnings.
_NORMAL = ("Suspended", "Resumed", "Completed", "SuccessfulCreate", "SuccessfulDelete")
# Seconds until a round that met a changed or absent object is repeated: what it met may be there for ever.
SOON = 0.02
# Fields of the status that are left out if they are empty.
_OMITTED = ("active", "succeeded", "failed", "completedIndexes", "conditions")


@dataclass(frozen=True, slots=True)
class JobTiming:
    """Delays in seconds; the real controller's values are in brackets.

    After a failed pod, a new pod is created after `first_wait`, doubled at each failure up to `longest_wait`
    [10 to 600]. After a failed creation, the next try is after `retry`, doubled up to `longest_retry` [1 to 60].
    """

    first_wait: float = 0.2
    longest_wait: float = 5.0
    retry: float = 0.2
    longest_retry: float = 5.0


class JobController:
    """Runs the Jobs of an API server from `start` to `stop`; `token` is its user's bearer token."""

    def __init__(self, api_url: str, token: str = USER, timing: JobTiming | None = None) -> None:
        self._api = KubeClient(Endpoint(api_url, lambda: f"Bearer {token}"), "job-controller", timeout=10.0)
        self._timing = timing or JobTiming()
        self._queue: WorkQueue[Key] = WorkQueue()
        self._stop = threading.Event()
        # Only the thread of the rounds uses these.
        self._backoffs: dict[str, Backoff] = {}
        self._refused: dict[Key, int] = {}
        self._jobs: ListWatch[Object] = ListWatch(self._api, JOBS.json, longest_pause=self._timing.retry)
        self._pods: ListWatch[Object] = ListWatch(
            self._api, PODS.json, Where(labels=JOB_NAME), longest_pause=self._timing.retry
        )
        runs: dict[str, Callable[[], None]] = {
            "jobs": lambda: self._jobs.run(
                self._on_jobs, lambda _, job: self._queue.ask(_key(job)), self._stop
            ),
            "pods": lambda: self._pods.run(self._on_pods, self._on_pod, self._stop),
            "rounds": self._run,
        }
        self._threads = [
            threading.Thread(target=run, name=f"job-{what}", daemon=True) for what, run in runs.items()
        ]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop all threads; a round that has begun is completed."""
        self._stop.set()
        self._jobs.interrupt()
        self._pods.interrupt()
        self._queue.close()
        for thread in self._threads:
            thread.join()
        self._api.close()

    def _on_jobs(self, jobs: Sequence[Object]) -> None:
        for job in jobs:
            self._queue.ask(_key(job))

    def _on_pods(self, pods: Sequence[Object]) -> None:
        for pod in pods:
            self._on_pod(Change.ADDED, pod)

    def _on_pod(self, _: Change, pod: Object) -> None:
        metadata = pod["metadata"]
        self._queue.ask((metadata["namespace"], metadata["labels"][JOB_NAME]))

    def _run(self) -> None:
        while (key := self._queue.take()) is not None:
            try:
                self._look(key)
            except (ConflictError, GoneError):
                self._queue.ask(key, SOON)
            except ApiError as error:
                log.info("Job %s/%s: %s; trying again", *key, error)
                self._queue.ask(key, self._timing.retry)

    def _look(self, key: Key) -> None:
        try:
            job = self._api.get(JOBS.json, Ref(key[1], key[0]))
        except GoneError:
            job = None
        found = self._api.list(PODS.json, Where(key[0], labels=f"{JOB_NAME}={key[1]}")).items
        mine = collect(self._api, job, found)
        if job is None:
            self._refused.pop(key, None)
            return
        if over(job) or job["spec"].get("managedBy", MANAGER) != MANAGER:
            self._backoffs.pop(job["metadata"]["uid"], None)
            return
        self._round(key, job, mine)

    def _round(self, key: Key, job: Object, pods: Sequence[Object]) -> None:
        uid, timing = job["metadata"]["uid"], self._timing
        moment = Moment(time.monotonic(), timestamp(), timing.first_wait, timing.longest_wait)
        made = JobRound(job, pods, self._backoffs.get(uid, Backoff()), moment).run()
        for pod in made.delete:
            release(self._api, pod)
            self._event(job, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
            delete(self._api, pod)
        missing = self._create(key, job, made.create)
        made.status["active"] -= missing
        self._write(job, made.status)
        self._backoffs[uid] = made.backoff
        for pod in made.release:
            release(self._api, pod)
        for reason, message in made.events:
            self._event(job, reason, message)
        if made.wait:
            self._queue.ask(key, made.wait)

    def _create(self, key: Key, job: Object, wanted: Sequence[int | None]) -> int:
        """Create pods in batches of doubling size, until a creation fails; returns the number of pods not created."""
        done = batch = 0
        while done < len(wanted):
            batch = min(max(1, 2 * batch), len(wanted) - done)
            failed = sum(not self._created(job, index) for index in wanted[done : done + batch])
            if failed:
                refused = self._refused[key] = self._refused.get(key, -1) + 1
                self._queue.ask(
                    key, min(self._timing.longest_retry, self._timing.retry * 2 ** min(refused, 32))
                )
                return len(wanted) - done - batch + failed
            done += batch
        if wanted:
            self._refused.pop(key, None)
        return 0

    def _created(self, job: Object, index: int | None) -> bool:
        try:
            made = self._api.create(PODS.json, new_pod(job, index), job["metadata"]["namespace"])
        except UnknownError:
            raise
        except ApiError as error:
            self._event(job, "FailedCreate", f"Error creating: {error}")
            return False
        self._event(job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
        return True

    def _write(self, job: Object, status: Object) -> None:
        """Write the status if it differs; the Job must not have changed since it was read."""
        before = job.get("status") or {}
        after = {key: value for key, value in status.items() if value or key not in _OMITTED}
        noted = after[UNCOUNTED] = {kind: uids for kind, uids in status[UNCOUNTED].items() if uids}
        if after == before:
            return
        # A merge patch keeps fields that it does not name, and removes fields that it sets to None.
        change = {**dict.fromkeys(before), **after}
        change[UNCOUNTED] = {**dict.fromkeys(before.get(UNCOUNTED) or {}), **noted}
        version = {"resourceVersion": job["metadata"]["resourceVersion"]}
        self._api.patch(JOBS.json, ref(job), {"metadata": version, "status": change}, subresource="status")

    def _event(self, job: Object, reason: str, message: str) -> None:
        """Post an event. An error, as in a namespace that is gone, is ignored: no event ever stops an action."""
        with suppress(ApiError):
            self._api.post_event(JOBS, ref(job), reason, message, warning=reason not in _NORMAL)


def _key(job: Object) -> Key:
    return job["metadata"]["namespace"], job["metadata"]["name"]
