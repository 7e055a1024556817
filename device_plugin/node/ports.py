"""Protocols of the services that the node agent uses; `wiring` connects them to the adapters."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from device_plugin.core.machine import DeviceHealth, Holder


class PodResources(Protocol):
    """The kubelet's PodResources API."""

    def list(self) -> Sequence[Holder]:
        """Every container that holds tickets, the device IDs that the kubelet counts.

        Never call it during Allocate, when it could make the kubelet give a ticket twice. Raises KubeletError.
        """

    def devices(self) -> Mapping[str, frozenset[str]]:
        """The IDs of the healthy devices of all plugins, by resource. May be called at any time.

        Raises KubeletError.
        """


class Processes(Protocol):
    """Tells which pods have processes on this machine."""

    def live(self, pod: str) -> bool:
        """True while any process of the pod of this UID runs, its sandbox included."""


class HostProcesses(Protocol):
    """The processes of this machine by their pod, and their mounts."""

    def look(self) -> None:
        """Read which processes run now, and the pod of each; `of` returns them until the next look."""

    def of(self, pod: str, most: int | None = None) -> Sequence[int]:
        """The oldest processes of each container of the pod of this UID at the latest look, its sandbox included.

        At most `most` of each container; a few of each if None.
        """

    def live_pods(self) -> Collection[str]:
        """The UIDs of the pods that had processes at the latest look."""

    def mounts(self, process: int) -> tuple[str, bool] | None:
        """The process's mountinfo text, and whether it is complete; None if the process is gone or in no pod."""

    def container(self, process: int) -> tuple[str, str] | None:
        """The pod UID and the container's cgroup name of a process now.

        None if the process is in no container, or gone.
        """

    def open_files(self, process: int) -> Iterator[str]:
        """The kernel's fdinfo of each of the first open files of a process; empty if the agent may not read it."""

    def own_mounts(self) -> str:
        """The mountinfo of the agent's own process."""


class PodCgroups(Protocol):
    """The cgroups of the pods of this machine."""

    def limit_card_memory(self, pod: str, limits: Mapping[str, int]) -> str:
        """Limit the card memory of the pod of this UID; `limits` are bytes by the kernel's name of the memory.

        Returns the reason of a failure as text; empty after success.
        """


class Plugin(Protocol):
    """The device plugin server of one resource."""

    @property
    def serving(self) -> bool:
        """True while the plugin's socket exists; the kubelet removes the socket when it restarts."""

    @property
    def streaming(self) -> bool:
        """True while the kubelet reads the stream of our tickets (device IDs)."""

    def start(self) -> None:
        """Serve on a new socket. Raises KubeletError if the socket cannot be made."""

    def register(self) -> None:
        """Tell the kubelet that this plugin serves its resource. Raises KubeletError."""

    def update(self, devices: Mapping[str, bool]) -> None:
        """Send the kubelet all tickets (device IDs), and for each whether it is healthy."""

    def stop(self) -> None:
        """End the streams, and stop serving."""


class Driver(Protocol):
    """The DRA driver of one card family."""

    @property
    def serving(self) -> bool:
        """True while the driver's socket exists."""

    @property
    def registered(self) -> bool:
        """True while the kubelet that runs now has registered the driver."""

    @property
    def refusal(self) -> str:
        """The reason why the kubelet did not register the driver, as the kubelet gave it; empty without one."""

    def update(self, devices: Mapping[str, DeviceHealth]) -> None:
        """Send the kubelet the health of all devices, by name, if it has changed."""

    def start(self) -> None:
        """Serve on a new socket, so that the kubelet registers the driver. Raises KubeletError."""

    def stop(self) -> None:
        """Stop serving."""
