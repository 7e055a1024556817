"""What the kubelet stand-in needs of a runtime, and what both kinds of runtime share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class CreateError(Exception):
    """A container could not be made. `reason` is what the kubelet shows: CreateContainerError or RunContainerError."""

    def __init__(self, message: str, reason: str = "CreateContainerError") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container of a pod, ready to be made. `devices` are CDI names; `pod` is the pod object as JSON gives it.

    `plugin_env` comes from Allocate; the container's own `env` overrides it and what CDI sets.
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
        """The pod's UID."""
        return str(self.pod["metadata"]["uid"])

    @property
    def label(self) -> str:
        """`<namespace>_<pod>_<container>`: the name of its log."""
        metadata = self.pod["metadata"]
        return f"{metadata['namespace']}_{metadata['name']}_{self.name}"


class Container(Protocol):
    """A container that was started."""

    spec: ContainerSpec
    id: str
    exit_code: int | None
    """None while it runs."""

    def terminate(self) -> None:
        """SIGTERM to its first process."""

    def kill(self) -> None:
        """SIGKILL to all of it."""


class Runtime(Protocol):
    """Makes containers, keeps those it made, and survives the kubelet."""

    def open_sandbox(self, pod_uid: str) -> None:
        """Make what a pod has before its first container and keeps until after its last; again is no error."""

    def close_sandbox(self, pod_uid: str) -> None:
        """End it."""

    def sandboxes(self) -> set[str]:
        """The UIDs of pods that have one."""

    def listen(self, on_exit: Callable[[Container], None]) -> None:
        """Call `on_exit`, on any thread, for every container that ends from now on; it replaces an earlier one."""

    def create(self, spec: ContainerSpec) -> Container:
        """Make and start a container. Raises CreateError."""

    def containers(self) -> list[Container]:
        """The newest attempt of every container whose pod was not forgotten."""

    def forget(self, pod_uid: str) -> None:
        """Drop the records of a pod whose containers have all ended."""

    def close(self) -> None:
        """Kill everything and wait for it."""
