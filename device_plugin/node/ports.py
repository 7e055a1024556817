"""Protocols of the services that the node agent uses; `wiring` connects them to the adapters."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from device_plugin.core.machine import Holder


class PodResources(Protocol):
    """The kubelet's PodResources API."""

    def list(self) -> Sequence[Holder]:
        """Every container that holds tickets. Never call it during Allocate. Raises KubeletError."""

    def devices(self) -> Mapping[str, frozenset[str]]:
        """The IDs of the healthy devices of every resource, whichever plugin's. May be called at any time.

        Raises KubeletError.
        """


class Processes(Protocol):
    """Processes of pods on this machine."""

    def live(self, pod: str) -> bool:
        """True while any process of the pod of this UID runs, its sandbox included."""


class HostProcesses(Protocol):
    """Processes of this machine by the pod that they belong to, and their mounts."""

    def look(self) -> None:
        """Read which processes there are now."""

    def of(self, pod: str, most: int | None = None) -> Sequence[int]:
        """The oldest processes of each container of the pod of this UID at the last look, its sandbox included.

        At most `most` of each container; a few if None.
        """

    def mounts(self, process: int) -> tuple[str, bool] | None:
        """The process's mountinfo and whether it is whole, or None if there is no such process of a pod any more."""

    def container(self, process: int) -> tuple[str, str] | None:
        """UID of the pod and name of the container's cgroup that a process is in now; None if in none, or gone."""

    def open_files(self, process: int) -> Iterator[str]:
        """The kernel's text on each of the first open files of a process; empty if the agent may not read them."""

    def own_mounts(self) -> str:
        """The mountinfo of the agent's own process."""


class PodCgroups(Protocol):
    """The cgroups of the pods of this machine."""

    def limit_card_memory(self, pod: str, limits: Mapping[str, int]) -> str:
        """Set the limits of the pod of this UID: bytes by the kernel's name of the memory.

        Returns the reason why that failed, as text; empty if it did not.
        """


class Plugin(Protocol):
    """One resource's device plugin server."""

    @property
    def serving(self) -> bool:
        """True while its socket is there; the kubelet removes it when it restarts."""

    @property
    def streaming(self) -> bool:
        """True while the kubelet listens to our tickets."""

    def start(self) -> None:
        """Serve on a new socket. Raises KubeletError."""

    def register(self) -> None:
        """Register with the kubelet. Raises KubeletError."""

    def update(self, devices: Mapping[str, bool]) -> None:
        """Send the kubelet all tickets and whether each is healthy."""

    def stop(self) -> None:
        """Stop serving."""
