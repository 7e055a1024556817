"""Containers and their runtime, for the kubelet stand-in. Each kind of runtime defines how it starts a container."""

import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hack.embedded.runtime.cdi import CdiCache, CdiError, Edits
from hack.embedded.runtime.process_groups import ProcessGroups

# The exit code that the kubelet shows for a container that did not start.
NOT_STARTED = 128


class CreateError(Exception):
    """A container could not be created; the kubelet shows `reason`, and tries again."""

    reason = "CreateContainerError"


class StartError(CreateError):
    """A container was created but did not start; it counts as an attempt that has ended."""

    reason = "RunContainerError"

    def __init__(self, container: "ContainerAttempt") -> None:
        super().__init__(container.problem)
        self.container = container


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container of a pod, ready to be created. `devices` are CDI names; `pod` is the pod object as JSON.

    `mounts` are folders of the host, each with its path in the container, read-only there.

    `plugin_env` is the answer of Allocate; the container's `env` overrides it, and variables of CDI override both.
    """

    pod: Mapping[str, Any]
    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    plugin_env: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    attempt: int = 0
    mounts: tuple[tuple[str, str], ...] = ()

    @property
    def pod_uid(self) -> str:
        """The UID of the container's pod."""
        return str(self.pod["metadata"]["uid"])

    @property
    def label(self) -> str:
        """The name of the container's log, `<namespace>_<pod>_<container>`."""
        metadata = self.pod["metadata"]
        return f"{metadata['namespace']}_{metadata['name']}_{self.name}"

    def environment(self, edits: Edits) -> dict[str, str]:
        """The variables of the container's processes after the `edits` of its CDI devices."""
        return {**self.plugin_env, **self.env, **edits.env}


class ContainerAttempt:
    """One attempt to run a container. `exit_code` is None while it runs; `problem` says why it did not start.

    `made` is the time of its creation, in nanoseconds since 1970. Its output is in the file `log` from byte
    `log_start` on; `log` is None for a container without processes.
    """

    def __init__(
        self, spec: ContainerSpec, problem: str = "", log: Path | None = None, log_start: int = 0
    ) -> None:
        self.spec = spec
        self.made = time.time_ns()
        self.log, self.log_start = log, log_start
        self.id = secrets.token_hex(16)
        self.problem = problem
        self.exit_code: int | None = NOT_STARTED if problem else None

    def inside(self, command: Sequence[str]) -> Sequence[str]:  # noqa: ARG002 - a container with processes uses it
        """The command line that runs a command in the container; empty for a container without processes."""
        return ()

    def terminate(self) -> None:
        """Send SIGTERM to the first process, if there is one."""

    def kill(self) -> None:
        """Send SIGKILL to all processes, if there are any."""

    def join(self) -> None:
        """Wait until a container that was killed has ended."""


class Runtime(ABC):
    """Runs containers, and keeps the newest attempt of each, also while the kubelet restarts. Safe from any thread.

    `close` also closes `cdi` and `groups`.
    """

    def __init__(self, cdi: CdiCache, groups: ProcessGroups) -> None:
        self.groups = groups
        self._cdi = cdi
        self._lock = threading.Lock()
        self._containers: dict[tuple[str, str], ContainerAttempt] = {}
        self._on_exit: Callable[[ContainerAttempt], None] = lambda _: None

    def listen(self, on_exit: Callable[[ContainerAttempt], None]) -> None:
        """Let `on_exit` be called, on any thread, for each container that ends; it replaces an earlier callback."""
        self._on_exit = on_exit

    def create(self, spec: ContainerSpec) -> ContainerAttempt:
        """Resolve the CDI devices and start the container. Raises CreateError and StartError."""
        try:
            edits = self._cdi.resolve(spec.devices)
        except CdiError as error:
            raise CreateError(str(error)) from None
        try:
            return self._launch(spec, edits)
        except (CreateError, OSError) as error:
            container = ContainerAttempt(spec, str(error))
            self._record(container)
            raise StartError(container) from None

    def containers(self) -> list[ContainerAttempt]:
        """The newest attempt of every container that `forget` has not removed."""
        with self._lock:
            return list(self._containers.values())

    def forget(self, pod_uid: str) -> None:
        """Forget a pod's ended containers."""
        with self._lock:
            for key, container in list(self._containers.items()):
                if key[0] == pod_uid and container.exit_code is not None:
                    del self._containers[key]

    def close(self) -> None:
        """Kill every container and wait for its end."""
        containers = self.containers()
        for container in containers:
            container.kill()
        for container in containers:
            container.join()
        self._cdi.close()
        self.groups.close()

    @abstractmethod
    def _launch(self, spec: ContainerSpec, edits: Edits) -> ContainerAttempt:
        """Start a container and call `_started`. Raises CreateError or OSError if it does not start."""

    def _started(self, container: ContainerAttempt, process_group: int) -> None:
        self.groups.add(container.spec.pod_uid, container.id, process_group)
        self._record(container)

    def _ended(self, container: ContainerAttempt, code: int) -> None:
        with self._lock:
            if container.exit_code is not None:
                return
            # The group is removed first, so that the agent sees the container's end no later than the kubelet.
            self.groups.remove(container.spec.pod_uid, container.id)
            container.exit_code = code
        self._on_exit(container)

    def _record(self, container: ContainerAttempt) -> None:
        with self._lock:
            self._containers[container.spec.pod_uid, container.spec.name] = container
