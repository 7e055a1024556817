"""One round of one Job: computes the pods to delete and to create, and the new status, from the Job and its pods.

It uses no clock and no API. Model: syncJob, manageJob and trackJobStatusAndRemoveFinalizers of the Job controller.
"""

import copy
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hack.embedded.apiserver.jobs import PREFIX
from hack.embedded.jobs import failure_policy, indexes

Object = dict[str, Any]
# The finalizer that keeps a pod until its end is counted in the Job's status.
TRACKING = f"{PREFIX}job-tracking"
INDEX = f"{PREFIX}job-completion-index"
UNCOUNTED = "uncountedTerminatedPods"
_ENDED = ("Succeeded", "Failed")
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures since the last success, and the time of the last one, in seconds of the caller's clock."""

    failures: int = 0
    last: float = 0.0

    def remaining(self, now: float, first: float, longest: float) -> float:
        """Seconds until a pod may be created again: `first` after one failure, doubled at each further failure."""
        if not self.failures:
            return 0.0
        doubled: float = first * 2 ** min(self.failures - 1, 32)
        return max(0.0, self.last + min(longest, doubled) - now)


@dataclass(slots=True)
class SyncActions:
    """The actions of one round, in this order: delete, create, write the status, release the pods that are counted now.

    `create` has the index of each new pod, None in a Job without indexes. `events` are (reason, message). `wait` is the
    number of seconds until missing pods may be created, 0 if no pod waits.
    """

    status: Object
    delete: list[Object] = field(default_factory=list)
    create: list[int | None] = field(default_factory=list)
    release: list[Object] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    backoff: Backoff = Backoff()
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of a round: `now` in seconds, `stamp` in Kubernetes' format. Also the first and longest backoff."""

    now: float
    stamp: str
    first_wait: float = 10.0
    longest_wait: float = 600.0


class JobRound:
    """Computes the actions of one round; `pods` are the pods that the Job controls."""

    def __init__(self, job: Object, pods: Sequence[Object], backoff: Backoff, moment: Moment) -> None:
        self._job, self._spec, self._moment = job, job["spec"], moment
        self._completions: int | None = self._spec.get("completions")
        self._indexed = self._spec["completionMode"] == "Indexed"
        self._only_failed = self._spec["podReplacementPolicy"] == "Failed"
        self._pods = sorted(pods, key=index_of)
        self._active = [pod for pod in self._pods if not _over(pod) and not _deleting(pod)]
        self._terminating = [pod for pod in self._pods if not _over(pod) and _deleting(pod)]
        status = copy.deepcopy(job.get("status") or {})
        self._uncounted = status.setdefault(UNCOUNTED, {})
        self._status = status
        self._made = SyncActions(status, backoff=backoff)

    def run(self) -> SyncActions:
        """Do the round of a Job that has not ended; returns its actions."""
        made, status = self._made, self._status
        self._settle()
        if not self._spec["suspend"]:
            status.setdefault("startTime", self._moment.stamp)
        succeeded, failed = self._new_ends()
        done = self._done(succeeded)
        made.backoff = self._backed_off(succeeded, failed)
        finished = self._finished(failed)
        if finished:
            made.delete = list(self._active)
        elif "deletionTimestamp" not in self._job["metadata"]:
            self._manage(len(done) if self._indexed else self._succeeded(succeeded), done)
            if not (finished := self._complete(succeeded, done)):
                self._suspend_or_resume()
        self._track(finished, done)
        left = [pod for pod in self._active if pod not in made.delete]
        status["active"] = len(left) + len(made.create)
        status["ready"] = sum(map(_ready, left))
        # A pod without node or grace period is gone after its deletion; the next round counts it no longer.
        status["terminating"] = len(self._terminating) + len(made.delete)
        self._end(finished)
        return made

    def _settle(self) -> None:
        """Count pods that the status lists as uncounted and whose finalizer has been removed."""
        held = {pod["metadata"]["uid"] for pod in self._pods if _tracked(pod)}
        for kind in ("succeeded", "failed"):
            noted = self._uncounted.get(kind) or []
            self._uncounted[kind] = [uid for uid in noted if uid in held]
            self._status[kind] = self._status.get(kind, 0) + len(noted) - len(self._uncounted[kind])

    def _new_ends(self) -> tuple[list[Object], list[Object]]:
        """The succeeded and the failed pods that the status does not list yet."""
        found = [pod for pod in self._pods if _tracked(pod) and self._counts(pod)]
        noted = {uid for kind in ("succeeded", "failed") for uid in self._uncounted[kind]}
        new = [pod for pod in found if pod["metadata"]["uid"] not in noted]
        return [pod for pod in new if _phase(pod) == "Succeeded"], [pod for pod in new if self._failed(pod)]

    def _counts(self, pod: Object) -> bool:
        return not self._indexed or self._inside(index_of(pod))

    def _failed(self, pod: Object) -> bool:
        """True if the pod counts as failed; so does a pod being deleted if it may be replaced before its end."""
        if _phase(pod) == "Failed":
            return True
        return not self._only_failed and _deleting(pod) and _phase(pod) != "Succeeded"

    def _ignored(self, pod: Object) -> bool:
        return failure_policy.action(self._spec.get("podFailurePolicy"), pod)[0] == "Ignore"

    def _succeeded(self, new: Sequence[Object]) -> int:
        return int(self._status.get("succeeded", 0)) + len(self._uncounted["succeeded"]) + len(new)

    def _done(self, succeeded: Iterable[Object]) -> set[int]:
        known = indexes.read(self._status.get("completedIndexes", ""), self._completions or 0)
        return known | {index_of(pod) for pod in succeeded} if self._indexed else set()

    def _backed_off(self, succeeded: Sequence[Object], failed: Sequence[Object]) -> Backoff:
        before = Backoff() if succeeded else self._made.backoff
        return Backoff(before.failures + len(failed), self._moment.now) if failed else before

    def _finished(self, failed: Sequence[Object]) -> Object | None:
        """The condition with which the Job must end, if it has one already or has failed; otherwise None."""
        for condition in self._status.get("conditions") or ():
            if condition["type"] in ("SuccessCriteriaMet", "FailureTarget") and condition["status"] == "True":
                found: Object = condition
                return found
        for pod in (pod for pod in self._pods if _tracked(pod) and self._failed(pod)):
            action, message = failure_policy.action(self._spec.get("podFailurePolicy"), pod)
            if action == "FailJob":
                return self._condition("FailureTarget", "PodFailurePolicy", message)
        counted = sum(not self._ignored(pod) for pod in failed) + len(self._uncounted["failed"])
        if self._status.get("failed", 0) + counted > self._spec["backoffLimit"]:
            message = "Job has reached the specified backoff limit"
            return self._condition("FailureTarget", "BackoffLimitExceeded", message)
        return None

    def _complete(self, succeeded: Sequence[Object], done: set[int]) -> Object | None:
        count = len(done) if self._indexed else self._succeeded(succeeded)
        left = len(self._active) - len(self._made.delete) + len(self._made.create)
        if left or count < (1 if self._completions is None else self._completions):
            return None
        message = "Reached expected number of succeeded pods"
        return self._condition("SuccessCriteriaMet", "CompletionsReached", message)

    def _manage(self, succeeded: int, done: set[int]) -> None:
        """Choose the pods to delete; if there are none, choose the pods to create."""
        made, active = self._made, len(self._active)
        if self._spec["suspend"]:
            made.delete = list(self._active)
            return
        wanted = self._wanted(active, succeeded)
        made.delete = self._surplus(max(0, active - wanted))
        if made.delete:
            return
        waiting = len(self._terminating) if self._only_failed else 0
        count = wanted - waiting - active
        if count <= 0:
            return
        moment = self._moment
        made.wait = made.backoff.remaining(moment.now, moment.first_wait, moment.longest_wait)
        if not made.wait:
            made.create = list(self._free_indexes(done)[:count]) if self._indexed else [None] * count

    def _wanted(self, active: int, succeeded: int) -> int:
        parallelism = int(self._spec["parallelism"])
        if self._completions is None:
            return active if succeeded else parallelism
        return max(0, min(parallelism, self._completions - succeeded))

    def _surplus(self, least: int) -> list[Object]:
        """The active pods to delete, at least `least`; first pods with an index out of range or a duplicate index."""
        gone: list[Object] = []
        left = self._active
        if self._indexed:
            left, of_index = [], defaultdict(list)
            for pod in self._active:
                of_index[index_of(pod)].append(pod)
            for index, pods in of_index.items():
                extra = sorted(pods, key=_expendable)[:-1] if self._inside(index) else pods
                gone += extra
                left += [pod for pod in pods if pod not in extra]
        return gone + sorted(left, key=_expendable)[: max(0, least - len(gone))]

    def _inside(self, index: int) -> bool:
        return 0 <= index < (self._completions or 0)

    def _free_indexes(self, done: set[int]) -> list[int | None]:
        taken = done | {index_of(pod) for pod in self._active}
        if self._only_failed:
            taken |= {index_of(pod) for pod in self._terminating}
        return [index for index in range(self._completions or 0) if index not in taken]

    def _suspend_or_resume(self) -> None:
        held = self._spec["suspend"]
        known = next((c for c in self._status.get("conditions") or () if c["type"] == "Suspended"), None)
        if held is (known is not None and known["status"] == "True"):
            return
        reason, message = ("Suspended", "Job suspended") if held else ("Resumed", "Job resumed")
        self._set(self._condition("Suspended", f"Job{reason}", message, "True" if held else "False"))
        self._made.events.append((reason, message))
        if held:
            self._status.pop("startTime", None)
        else:
            self._status["startTime"] = self._moment.stamp

    def _track(self, finished: Object | None, done: set[int]) -> None:
        """List ended pods as uncounted in the status, and release them."""
        fails = finished is not None and finished["type"] == "FailureTarget"
        for pod in filter(_tracked, self._pods):
            failed, over = self._failed(pod), _phase(pod) == "Succeeded"
            if not (failed or over or finished or _deleting(self._job)):
                continue
            self._made.release.append(pod)
            uid = pod["metadata"]["uid"]
            if over and not self._indexed and uid not in self._uncounted["succeeded"]:
                self._uncounted["succeeded"].append(uid)
            elif not over and (failed or fails) and self._counts(pod) and not self._ignored(pod):
                self._uncounted["failed"] = [*dict.fromkeys([*self._uncounted["failed"], uid])]
        if self._indexed:
            self._status["succeeded"], self._status["completedIndexes"] = len(done), indexes.write(done)

    def _end(self, finished: Object | None) -> None:
        """Set the condition `finished`; when all pods have ended, set the final condition too."""
        if finished is None:
            return
        self._set(finished)
        status = self._status
        if status["terminating"] or self._made.release or any(self._uncounted.values()):
            return
        success = finished["type"] == "SuccessCriteriaMet"
        kind = "Complete" if success else "Failed"
        self._set(self._condition(kind, finished["reason"], finished["message"]))
        if success:
            status["completionTime"] = self._moment.stamp
        self._made.events.append(
            ("Completed", "Job completed") if success else (finished["reason"], finished["message"])
        )

    def _condition(self, kind: str, reason: str, message: str, status: str = "True") -> Object:
        stamp = self._moment.stamp
        return {
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastProbeTime": stamp, "lastTransitionTime": stamp,
        }  # fmt: skip

    def _set(self, condition: Object) -> None:
        known = self._status.setdefault("conditions", [])
        others = [one for one in known if one["type"] != condition["type"]]
        if condition not in known:
            self._status["conditions"] = [*others, condition]


def over(job: Object) -> bool:
    """True if the Job is complete or has failed for good."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)


def index_of(pod: Object) -> int:
    """The pod's completion index; -1 if it has none."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdecimal() else -1


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _over(pod: Object) -> bool:
    return _phase(pod) in _ENDED


def _deleting(item: Object) -> bool:
    return "deletionTimestamp" in item["metadata"]


def _tracked(pod: Object) -> bool:
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def _ready(pod: Object) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions") or ()
    )


def _expendable(pod: Object) -> tuple[bool, int, bool, float, float]:
    """The sort key for deletion: unbound pods first, then by phase, then pods that are not ready, then the youngest."""
    conditions = pod["status"].get("conditions") or ()
    since = next((one.get("lastTransitionTime") for one in conditions if one["type"] == "Ready"), "")
    return (
        bool(pod["spec"].get("nodeName")), _PHASES.get(_phase(pod), 0), _ready(pod),
        -_seconds(since) if _ready(pod) else 0.0, -_seconds(pod["metadata"].get("creationTimestamp")),
    )  # fmt: skip


def _seconds(stamp: str | None) -> float:
    return datetime.fromisoformat(stamp).timestamp() if stamp else 0.0
