"""The protocol of runtimes for the kubelet stand-in, and the parts that both kinds of runtime share."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class CreateError(Exception):
    """A container could not be made, and there is none: `reason` is what the kubelet shows, and it tries again."""

    reason = "CreateContainerError"


class StartError(CreateError):
    """A container was made and did not start: an attempt that ended, and counts as one."""

    reason = "RunContainerError"

    def __init__(self, container: "Stillborn") -> None:
        super().__init__(container.problem)
        self.container = container


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container of a pod, ready to be made. `devices` are CDI names; `pod` is the pod object as JSON gives it.

    `plugin_env` comes from Allocate; the container's own `env` overrides it, and what CDI sets overrides both.
    """

    pod: Mapping[str, Any]
    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    plugin_env: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    attempt: int = 0

    @property
    def pod_uid(self) -> str:
        """The UID of the container's pod."""
        return str(self.pod["metadata"]["uid"])

    @property
    def label(self) -> str:
        """The name of the container's log, `<namespace>_<pod>_<container>`."""
        metadata = self.pod["metadata"]
        return f"{metadata['namespace']}_{metadata['name']}_{self.name}"


class RunningContainer(Protocol):
    """A container that was started."""

    spec: ContainerSpec
    id: str
    exit_code: int | None
    """None while it runs."""
    problem: str
    """Why it did not start; empty if it did."""

    def terminate(self) -> None:
        """SIGTERM to its first process."""

    def kill(self) -> None:
        """SIGKILL to all of it."""


class Stillborn:
    """A container that never started: to the kubelet it ended with 128."""

    def __init__(self, spec: ContainerSpec, problem: str) -> None:
        self.spec = spec
        self.id = secrets.token_hex(16)
        self.exit_code: int | None = 128
        self.problem = problem

    def terminate(self) -> None:
        """Do nothing: no process runs."""

    def kill(self) -> None:
        """Do nothing: no process runs."""


class Runtime(Protocol):
    """Makes containers, keeps those it made, and survives the kubelet."""

    def open_sandbox(self, pod_uid: str) -> None:
        """Create the pod's sandbox, which lasts from its first container to its last; a second call does nothing."""

    def close_sandbox(self, pod_uid: str) -> None:
        """Remove the pod's sandbox."""

    def sandboxes(self) -> set[str]:
        """The UIDs of pods that have one."""

    def listen(self, on_exit: Callable[[RunningContainer], None]) -> None:
        """Call `on_exit`, on any thread, for every container that ends from now on; it replaces an earlier one."""

    def create(self, spec: ContainerSpec) -> RunningContainer:
        """Make and start a container. Raises CreateError and StartError."""

    def containers(self) -> list[RunningContainer]:
        """The newest attempt of every container whose pod was not forgotten."""

    def forget(self, pod_uid: str) -> None:
        """Drop the records of a pod whose containers have all ended."""

    def close(self) -> None:
        """Kill everything and wait for it."""
