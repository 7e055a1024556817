"""What one machine shows of itself: cards, device files, and who holds which tickets."""

from collections.abc import Mapping
from dataclasses import dataclass

from device_plugin.core.errors import VgpuError


@dataclass(frozen=True, slots=True)
class FoundCard:
    """A card as its driver describes it. `vendor` is the PCI vendor id, `xcc` and `paired` the rules of its masks.

    `gpu_id` names the card to its driver, `render_minor` its device node. Neither is an identity: `uuid` is, once
    discover has made it unique in the cluster (see card_names).
    """

    uuid: str
    vendor: int
    model: str
    pci: str
    mem_mib: int
    compute_units: int
    xcc: int
    paired: bool
    numa: int
    gpu_id: int
    render_minor: int
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class Scan:
    """All cards of a machine, and in words what could not be read."""

    cards: tuple[FoundCard, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file for a container: its path there, and on the host."""

    path: str
    host: str


@dataclass(frozen=True, slots=True)
class Mount:
    """A host file for a container."""

    host: str
    path: str
    read_only: bool = True


class KubeletError(VgpuError):
    """The kubelet did not answer."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A container as the kubelet shows it: the tickets that it holds of each resource."""

    namespace: str
    pod: str
    container: str
    tickets: Mapping[str, frozenset[str]]
