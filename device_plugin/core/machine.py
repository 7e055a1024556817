"""Values about one machine: device files, mounts, and what the kubelet shows of containers and claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from device_plugin.core.contract.claims import AllocatedDevice
from device_plugin.core.errors import VgpuError


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file for a container: its path in the container, and its path on the host."""

    path: str
    host: str


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the host that is mounted into a container."""

    host: str
    path: str
    read_only: bool = True


class KubeletError(VgpuError):
    """The kubelet did not answer.

    Cure: check that the kubelet runs and, if only its pod-resources socket does not answer, that the parameter
    kubeletRootDir names the kubelet's folder. The agent tries again by itself.
    """


@dataclass(frozen=True, slots=True)
class Holder:
    """A container as the kubelet shows it, with its tickets (device IDs, which the kubelet counts), by resource."""

    namespace: str
    pod: str
    container: str
    tickets: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A ResourceClaim whose container may start: the full name of its one CDI device, and the claim's devices."""

    cdi: str
    devices: Sequence[AllocatedDevice]


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """The health of a card, as the status of the pods that use it shows it; `message` names the card and its fault."""

    healthy: bool
    message: str
