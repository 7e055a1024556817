"""Containers and their runtime, as the kubelet stand-in uses them. A kind of runtime defines how one is launched."""

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

# The exit code that the kubelet shows of a container that did not start.
NOT_STARTED = 128


class CreateError(Exception):
    """A container could not be made, and there is none: `reason` is what the kubelet shows, and it tries again."""

    reason = "CreateContainerError"


class StartError(CreateError):
    """A container was made and did not start: an attempt that ended, and counts as one."""

    reason = "RunContainerError"

    def __init__(self, container: "ContainerAttempt") -> None:
        super().__init__(container.problem)
        self.container = container


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container of a pod, ready to be made. `devices` are CDI names; `pod` is the pod object as JSON gives it.

    `mounts` are folders of the host with their paths in the container, which may read them.

    `plugin_env` comes from Allocate; the container's own `env` overrides it, and what CDI sets overrides both.
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
    """One attempt at a container. `exit_code` is None while it runs; `problem` says why it did not start.

    `made` is the time of its making, in nanoseconds since 1970. Its output is in the file `log` from byte
    `log_start` on; None where it has no processes.
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
        """The command line that runs a command in the container; empty where none can run there."""
        return ()

    def terminate(self) -> None:
        """Send SIGTERM to the first process; nothing where none runs."""

    def kill(self) -> None:
        """Send SIGKILL to all processes; nothing where none runs."""

    def join(self) -> None:
        """Return once a container that was killed has ended."""


class Runtime(ABC):
    """Makes containers, keeps the newest attempt of each, and survives the kubelet. Safe from any thread.

    `cdi` and `groups` are closed with it.
    """

    def __init__(self, cdi: CdiCache, groups: ProcessGroups) -> None:
        self.groups = groups
        self._cdi = cdi
        self._lock = threading.Lock()
        self._containers: dict[tuple[str, str], ContainerAttempt] = {}
        self._on_exit: Callable[[ContainerAttempt], None] = lambda _: None

    def listen(self, on_exit: Callable[[ContainerAttempt], None]) -> None:
        """Call `on_exit`, on any thread, for every container that ends from now on; it replaces an earlier one."""
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
        """The newest attempt of every container whose pod was not forgotten."""
        with self._lock:
            return list(self._containers.values())

    def forget(self, pod_uid: str) -> None:
        """Drop the records of a pod's containers that have ended."""
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
            # The group goes first: to an agent a container has ended no later than to the kubelet.
            self.groups.remove(container.spec.pod_uid, container.id)
            container.exit_code = code
        self._on_exit(container)

    def _record(self, container: ContainerAttempt) -> None:
        with self._lock:
            self._containers[container.spec.pod_uid, container.spec.name] = container
