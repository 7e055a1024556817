"""One container of a pod over all its attempts: its restarts, its backoff and its status."""

from dataclasses import dataclass
from typing import Any

from hack.embedded.clock import timestamp
from hack.embedded.kubelet.timing import KubeletTiming
from hack.embedded.pod_spec import ContainerView
from hack.embedded.runtime.containers import ContainerAttempt

CREATING = ("ContainerCreating", "")


@dataclass(slots=True)
class ContainerLife:
    """The state of one container: never started (no `container`), running, or ended.

    `policy` is Always, OnFailure or Never; `pod` is the pod's name for messages. `waiting` is the (reason, message) for
    which it waits, such as a failed attempt. Times are of the monotonic clock.
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
        """True while the newest attempt runs."""
        return self.container is not None and self.container.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the newest attempt; None if it runs, or without an attempt."""
        return self.container.exit_code if self.container is not None else None

    @property
    def over(self) -> bool:
        """True if the container has ended and will not be started again."""
        code = self.exit_code
        return code is not None and (self.policy == "Never" or (self.policy == "OnFailure" and code == 0))

    def note_end(self, moment: float, timing: KubeletTiming) -> bool:
        """Record a new end of the container; true if its restart must wait for a backoff.

        The first restart does not wait.
        """
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
        """Record a new running attempt."""
        if self.container is not None:
            self.restarts += 1
        self.container = container
        self.waiting = CREATING
        self.started = timestamp()

    def adopt(self, container: ContainerAttempt) -> None:
        """Record an attempt that the kubelet started before its restart."""
        self.container = container
        self.restarts = container.spec.attempt
        self.started = timestamp()

    def fail(self, reason: str, message: str, not_before: float) -> None:
        """Record that an attempt failed; the next one is not made before `not_before`."""
        self.waiting = (reason, message)
        self.not_before = not_before

    def status(self, *, over: bool) -> dict[str, Any]:
        """The container's entry in containerStatuses; `over`: the pod has ended, so there are no more restarts."""
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
