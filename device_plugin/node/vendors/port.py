"""The protocols between the agent, a vendor, and the machine that a vendor reads."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Protocol, TypeVar

from device_plugin.core.contract.cards import Card
from device_plugin.core.errors import VgpuError
from device_plugin.core.machine import DeviceNode, Mount
from device_plugin.node.vendors.models import Models
from vgpu_runtime.config import CardLimit, Family, FamilyLimit

P = TypeVar("P")
"""The type of a card's facts that only its vendor knows."""


class Machine(Protocol):
    """The machine as its drivers show it. Paths are relative to the machine's root."""

    def text(self, path: str) -> str:
        """The text of the file at `path`; bytes that are not UTF-8 are escaped. Raises OSError."""

    def matching(self, pattern: str) -> Sequence[str]:
        """The paths that match a shell pattern, in order."""

    def names(self, folder: str) -> Sequence[str]:
        """The names in a folder, in any order. Raises OSError."""

    def device(self, path: str) -> DeviceNode:
        """The device file at `path`, for a container."""

    def host_file(self, path: str) -> Mount | None:
        """The mount of the host's file or folder at an absolute path; None if it is missing or empty."""

    def mounts(self) -> Sequence[Mount]:
        """The further mounts that every container needs: none on a real machine."""

    def preloads(self) -> Sequence[str]:
        """The libraries that every container loads after ours: none on a real machine."""


@dataclass(frozen=True, slots=True)
class FoundCard(Generic[P]):
    """A card as its driver describes it. `fault` says why it is unhealthy, `unfit` why it cannot be shared.

    `uuid` is the driver's; discover makes it unique in the cluster (card_names). `group_units` compute units are
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
    """All cards of a vendor on a machine. `problems` has a text for each card that could not be read.

    `others` are cards of another vendor that the same driver runs: their PCI vendor ids, by PCI address.
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
    """A container's slice of one card, reduced to what the card has now.

    `vendor_id` is the id by which the card's driver distinguishes the slice; None if the driver needs no ids. `request`
    is the container's limit that decided the memory, as vgpu.conf writes it.
    """

    card: Card
    payload: P
    mem_bytes: int
    cores: Sequence[int]
    vendor_id: int | None
    request: str


@dataclass(frozen=True, slots=True)
class ContainerFiles(Generic[Family]):
    """The files, devices and variables that a container gets for its slices.

    `limits` are the slices' limits for vgpu.conf, in the order of the slices. `texts` has the text of each file by the
    file's name; the files are written to the container's folder and mounted at the vendor's `container_path`.
    """

    limits: Sequence[CardLimit[Family]]
    devices: Sequence[DeviceNode]
    texts: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    preloads: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeSigns:
    """The traces that other programs leave on a node.

    `registers` are annotations of the node (annotations.REGISTERS), `sockets` those of other programs in the kubelet's
    folder of device plugins, and `cdi_files` the files in the CDI folder.
    """

    registers: Collection[str]
    sockets: Collection[str]
    cdi_files: Collection[str]


class NoVendorIdError(VgpuError):
    """All ids of a card are taken or were until a moment ago.

    Cure: wait: the kubelet tries again, and an id is free soon after a slice ends.
    """


class VendorIds(Protocol):
    """The ids with which a driver distinguishes the slices of a card. The caller holds a lock."""

    def claim(self, card: str, taken: Collection[int], before: int | None) -> int:
        """An id for a slice of the card that is not in `taken`. Raises NoVendorIdError if none is free now.

        `before` is the id that the container had at its previous start.
        """

    def release(self, card: str, vendor_id: int) -> None:
        """Note that the slice with this driver's id has just ended."""

    def claimed(self, cards: Sequence[str], text: Callable[[str], str | None]) -> Mapping[str, int]:
        """The ids of a container's slices by card, read from the container's files because its record was lost.

        Cards without an id are left out. `text` returns the text of a file of the container by its name; None if it
        cannot be read.
        """


C = TypeVar("C", contravariant=True)
"""Like P, for protocols that only take a card's facts."""


class ProcessFigures(Protocol[C]):
    """The kernel's figures of the processes that use a driver's cards. Processes are named by their ids on the host."""

    def processes(self) -> Sequence[int] | None:
        """The processes that have the driver open, lowest first; None if the driver does not list them."""

    def memory(self, process: int, card: C) -> int | None:
        """Bytes of the card's memory that the process holds; None if the driver does not say."""

    def has_queue(self, process: int, card: C) -> bool:
        """True if the process has a queue on the card, to which it can submit work."""

    def busy_units(self, process: int, card: C) -> int | None:
        """Compute units of the card that run work of the process at this moment; None if the driver does not say."""


@dataclass(frozen=True, slots=True)
class About:
    """A family's row on the page of supported cards: its name, resources, driver, and the software that images need."""

    name: str
    resource: str
    driver: str
    image: str


class Vendor(Protocol[P]):
    """A family of cards with one driver. Any thread may call it."""

    PCI_VENDOR: ClassVar[int]
    """The PCI vendor id of its cards."""
    MAX_SLICES: ClassVar[int]
    """Most slices of one of its cards."""
    RESERVE_BYTES: ClassVar[int]
    """Bytes that a slice may use beyond its limit, for small allocations only."""
    CARD_VARIABLES: ClassVar[Mapping[str, str]] = {}
    """Variables by which some runtimes give a container cards of this family, each with a value that gives none."""
    MODELS: ClassVar[Models]
    MOUNTS: ClassVar[Sequence[str]] = ()
    """The vendor's own files that containers get if the node has them. Each is written as in the setting `mounts`."""
    ABOUT: ClassVar[About]

    def __init__(self, machine: Machine, mounts: Sequence[str] = ()) -> None:
        """`mounts` are the paths that the setting `mounts` names for this family."""

    @property
    def ids(self) -> VendorIds | None:
        """The object that gives slices of this vendor's cards their ids; None if the driver needs no ids."""

    def scan(self) -> Scan[P]:
        """All cards of the vendor. A card that cannot be read becomes a problem; the others are not affected."""

    def usage(self, card: Card, payload: P) -> CardUsage:
        """The use of the card, read from the driver now."""

    def memory_region(self, card: Card) -> str:
        """The name under which the kernel counts the memory of the card for cgroups (dmem)."""

    @property
    def figures(self) -> ProcessFigures[P]:
        """The reader of the kernel's figures about processes that use the cards, such as the memory that each holds."""

    def driver_slices(self, payload: P) -> Mapping[int, int] | None:
        """The memory limits, in bytes, of the card's slices that processes use now, by the driver's ids of the slices.

        None if the driver enforces no slices; only the library does then.
        """

    def rivals(self, signs: Callable[[], NodeSigns]) -> Sequence[str]:
        """The other programs that give out this vendor's cards on the node: a text for each sign, with what to do.

        `signs` reads the node's traces. A call of `signs` costs a request to the API server: only vendors with such
        programs call it.
        """

    def files(self, slices: Sequence[CardSlice[P]]) -> ContainerFiles[FamilyLimit]:
        """The files, devices and variables for these slices.

        Raises ConfigError if vgpu.conf cannot express the slices.
        """

    def missing_mounts(self) -> Sequence[str]:
        """The paths that the setting `mounts` names for this vendor's containers and that do not exist on the node."""

    def container_path(self, name: str) -> str | None:
        """The container's path for the vendor's file `name` (ContainerFiles.texts); None if there is no such file."""
