"""One container of a pod over all its attempts: when to start it, when again, and its status."""

from dataclasses import dataclass
from typing import Any

from hack.embedded.clock import timestamp
from hack.embedded.kubelet.timing import KubeletTiming
from hack.embedded.pod_spec import ContainerView
from hack.embedded.runtime.containers import ContainerAttempt

CREATING = ("ContainerCreating", "")


@dataclass(slots=True)
class ContainerLife:
    """`policy` is Always, OnFailure or Never; `pod` names its pod in messages. Times are of the monotonic clock.

    States: never started (no `container`), running, ended. `waiting` is (reason, message) of an attempt that failed.
    """

    view: ContainerView
    policy: str
    pod: str = ""
    container: ContainerAttempt | None = None
    restarts: int = 0
    waiting: tuple[str, str] = CREATING
    not_before: float = 0.0
    started: str = ""
    _ends: int = 0
    _seen_end: ContainerAttempt | None = None
    _last: dict[str, Any] | None = None

    @property
    def running(self) -> bool:
        """True while its newest attempt lives."""
        return self.container is not None and self.container.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """The newest attempt's, or None if it lives or there is none."""
        return self.container.exit_code if self.container is not None else None

    @property
    def over(self) -> bool:
        """True if it ended and will not be started again."""
        code = self.exit_code
        return code is not None and (self.policy == "Never" or (self.policy == "OnFailure" and code == 0))

    def note_end(self, moment: float, timing: KubeletTiming) -> bool:
        """Account for an end that was not seen before: the first restart is at once, later ones back off (True)."""
        container = self.container
        if container is None or container.exit_code is None or container is self._seen_end:
            return False
        self._seen_end = container
        self._last = {"terminated": self._terminated(container)}
        if self._ends:
            delay = min(timing.backoff * 2 ** (self._ends - 1), timing.backoff_limit)
            self.not_before = moment + delay
            what = f"restarting failed container={self.view.name} pod={self.pod}"
            self.waiting = ("CrashLoopBackOff", f"back-off {delay:g}s {what}")
        self._ends += 1
        return self._ends > 1

    def begin(self, container: ContainerAttempt) -> None:
        """A new attempt runs."""
        if self.container is not None:
            self.restarts += 1
        self.container = container
        self.waiting = CREATING
        self.started = timestamp()

    def adopt(self, container: ContainerAttempt) -> None:
        """An attempt that an earlier life of the kubelet started."""
        self.container = container
        self.restarts = container.spec.attempt
        self.started = timestamp()

    def fail(self, reason: str, message: str, not_before: float) -> None:
        """An attempt could not be made."""
        self.waiting = (reason, message)
        self.not_before = not_before

    def status(self, *, over: bool) -> dict[str, Any]:
        """An entry of containerStatuses; after the end of the pod (`over`), without further restarts."""
        container = self.container
        status: dict[str, Any] = {
            "name": self.view.name,
            "image": self.view.image,
            "imageID": "",
            "ready": self.running or (self.view.init and not self.view.sidecar and self.exit_code == 0),
            "started": self.running,
            "restartCount": self.restarts,
            "state": {"waiting": {"reason": self.waiting[0], "message": self.waiting[1]}},
        }
        if container is not None:
            status["containerID"] = f"containerd://{container.id}"
            if not over and container.exit_code is None:
                status["state"] = {"running": {"startedAt": self.started}}
            elif over or self.over or self.waiting == CREATING:
                status["state"] = {"terminated": self._terminated(container)}
        if self._last is not None and "terminated" not in status["state"]:
            status["lastState"] = self._last
        return status

    def _terminated(self, container: ContainerAttempt) -> dict[str, Any]:
        code = container.exit_code
        problem = {"message": container.problem} if container.problem else {}
        return {
            "exitCode": 137 if code is None else code,
            "reason": "StartError" if problem else "Completed" if code == 0 else "Error",
            **problem,
            "startedAt": self.started,
            "finishedAt": timestamp(),
            "containerID": f"containerd://{container.id}",
        }
