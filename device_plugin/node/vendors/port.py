"""The protocols between the agent, a vendor, and the machine that a vendor reads."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Protocol, TypeVar

from device_plugin.core.contract.cards import Card
from device_plugin.core.errors import VgpuError
from device_plugin.core.machine import DeviceNode, Mount
from vgpu_runtime.config import CardLimit, FamilyLimit

P = TypeVar("P")
"""The facts of a card that only its vendor knows."""


class Machine(Protocol):
    """The machine as its drivers show it. Paths are relative to the machine's root."""

    def text(self, path: str) -> str:
        """The text of the file at `path`; bytes that are not UTF-8 are escaped. Raises OSError."""

    def matching(self, pattern: str) -> Sequence[str]:
        """The paths that match a shell pattern, in order."""

    def names(self, folder: str) -> Sequence[str]:
        """The names in a folder, in any order. Raises OSError."""

    def device(self, path: str) -> DeviceNode:
        """The device file for a container."""

    def host_file(self, path: str) -> Mount | None:
        """The host's file or folder at an absolute path, for a container; None if it is not there, or empty."""

    def mounts(self) -> Sequence[Mount]:
        """Files that every container needs besides ours: none on a real machine."""

    def preloads(self) -> Sequence[str]:
        """Libraries to load after ours: none on a real machine."""


@dataclass(frozen=True, slots=True)
class FoundCard(Generic[P]):
    """A card as its driver describes it. `fault` says why it is unhealthy, `unfit` why it cannot be shared.

    The driver's `uuid` is made unique in the cluster by discover (see card_names). `group_units` compute units are
    granted together. Cards of one `hive` are linked by XGMI.
    """

    uuid: str
    model: str
    pci: str
    mem_mib: int
    compute_units: int
    group_units: int
    max_slices: int
    numa: int
    payload: P
    fault: str = ""
    unfit: str = ""
    hive: str = ""


@dataclass(frozen=True, slots=True)
class Scan(Generic[P]):
    """All cards of a vendor on a machine, and a text for each card that could not be read.

    `others` are cards of the same driver that are not of this vendor: their PCI vendor ids by PCI address.
    """

    cards: tuple[FoundCard[P], ...]
    problems: tuple[str, ...] = ()
    others: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CardUsage:
    """The measured use of a card: bytes used by all processes, and the share of time in which it computed, 0 to 1.

    None where the driver does not measure it.
    """

    used_bytes: int | None = None
    busy_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class CardSlice(Generic[P]):
    """A container's slice of one card: what it may use of what the card has now, and the id that `claim` gave it.

    `request` is the container's limit, as vgpu.conf has it.
    """

    card: Card
    payload: P
    mem_bytes: int
    cores: Sequence[int]
    vendor_id: int | None
    request: str


@dataclass(frozen=True, slots=True)
class ContainerFiles:
    """The files, devices and variables of a container. `limits` go into vgpu.conf, in the order of its slices.

    `texts` are files by name: they are written to the container's folder, and mounted at the vendor's `container_path`.
    """

    limits: Sequence[CardLimit[FamilyLimit]]
    devices: Sequence[DeviceNode]
    texts: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    preloads: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class NoVendorIdError(VgpuError):
    """All ids of a card are taken or were until a moment ago.

    Cure: wait: the kubelet tries again, and an id is free soon after a slice ends.
    """


class VendorIds(Protocol):
    """The ids with which a driver distinguishes the slices of a card. The caller locks."""

    def claim(self, card: str, taken: Collection[int], before: int | None) -> int:
        """An id for a slice of the card, other than those `taken`.

        `before` is the id that the container had at its last start. Raises NoVendorIdError if none is free now.
        """

    def release(self, card: str, vendor_id: int) -> None:
        """Take note that the slice with this id has just ended."""

    def claimed(self, cards: Sequence[str], text: Callable[[str], str | None]) -> Mapping[str, int]:
        """By card, the ids in a container's files, for a record that was lost. `text` reads a file by its name."""


C = TypeVar("C", contravariant=True)
"""P of figures that are only read."""


class ProcessFigures(Protocol[C]):
    """The kernel's figures of the processes that use a driver's cards. Processes have their ids on the host."""

    def processes(self) -> Sequence[int] | None:
        """The processes that have the driver open, lowest first; None if the driver does not list them."""

    def memory(self, process: int, card: C) -> int | None:
        """Bytes of the card's memory that the process holds; None if the driver does not say."""

    def has_queue(self, process: int, card: C) -> bool:
        """True if the process has a queue on the card, to which it can submit work."""

    def busy_units(self, process: int, card: C) -> int | None:
        """Compute units of the card that run work of the process at this moment; None if the driver does not say."""


class Vendor(Protocol[P]):
    """A family of cards. Any thread may call."""

    PCI_VENDOR: ClassVar[int]
    """The PCI vendor id of its cards."""

    @property
    def ids(self) -> VendorIds | None:
        """The ids of slices; None if the driver needs none."""

    def scan(self) -> Scan[P]:
        """All cards of the vendor. A card that cannot be read becomes a problem; the others are not affected."""

    def usage(self, card: Card, payload: P) -> CardUsage:
        """The use of the card, read from the driver now."""

    def memory_region(self, card: Card) -> str:
        """The name under which the kernel counts the memory of the card for cgroups (dmem)."""

    @property
    def figures(self) -> ProcessFigures[P]:
        """The kernel's figures of the processes that use the cards."""

    def files(self, slices: Sequence[CardSlice[P]]) -> ContainerFiles:
        """The files, devices and variables for these slices. Raises ConfigError if they cannot be expressed."""

    def missing_mounts(self) -> Sequence[str]:
        """Paths of the vendor's stack that the settings give to containers and that are not on the node."""

    def container_path(self, name: str) -> str | None:
        """The path in the container of the text `name`; None if it is none of this vendor's."""
