"""Hygon's cards: cards of the KFD whose slices Hygon's own runtime enforces in the container too (by vdev files).

The driver distinguishes the slices of a card by numbers, their pipes. It needs about a second to free a pipe, so a pipe
is not used again for REST_SECONDS after its slice has ended.
"""

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from device_plugin.node.vendors import models
from device_plugin.node.vendors.host_stack import CARD_NODE
from device_plugin.node.vendors.kfd_processes import KfdCard
from device_plugin.node.vendors.models import Models
from device_plugin.node.vendors.port import (
    About,
    CardSlice,
    ContainerFiles,
    FoundCard,
    Machine,
    NodeSigns,
    NoVendorIdError,
    Scan,
)
from device_plugin.node.vendors.rocm import Rocm
from vgpu_runtime import paths, vdev
from vgpu_runtime.config import CardLimit
from vgpu_runtime.rocm import RocmLimit

REST_SECONDS = 1.0
DRIVER_SLICES = "sys/devices/virtual/kfd/kfd/vgpu"
# Hygon's libraries on the node: its runtime loads one of them in the container, or finds no card.
HYHAL = ("/opt/hyhal", "/usr/local/hyhal")
# The table of models that the driver's package brings.
MODEL_TABLE = "opt/hyhal/bin/update_ids"
# Virtual devices that `hy-smi virtual`, Hygon's plugin or its DRA driver cut; MIG instances; marks of the last two.
CUT, MIG, MARKS = "etc/vdev/vdev*.conf", "etc/dmi_mig_config/ci/*.conf", "etc/vdev/dynamic"
# Most files of each kind that are read: a card has at most four virtual devices, and a node 16 cards.
MOST_FILES = 64
MOST_TEXT = 1 << 16
_RECORD = re.compile(r"0x([0-9a-f]{1,8})@([0-9]{1,2})")
_LIMIT = re.compile(r"^Vram limit: *([0-9]{1,20})$", re.MULTILINE)
_PCI = re.compile(r"^PciBusId: *(\S{1,20})$", re.MULTILINE)
_MODEL = re.compile(r"""\[["']?([0-9A-Fa-f]{4})["']?\] *= *["']([A-Za-z0-9][\w .+/-]{0,39})["']""", re.ASCII)


class Pipes:
    """Gives each slice of a card a pipe: the number by which Hygon's driver distinguishes the slice.

    `clock` is monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, int] = {}
        self._left: dict[tuple[str, int], float] = {}

    def claim(self, card: str, taken: Collection[int], before: int | None = None) -> int:
        """A pipe (slice number) that is not in `taken`, and that no slice of the card had in the last REST_SECONDS.

        `before` is the pipe of the container's previous start; this pipe rests too. Raises NoVendorIdError if no pipe
        is free.
        """
        now = self._clock()
        if before is not None:
            self._left.setdefault((card, before), now)
        resting = [
            pipe for (on, pipe), since in self._left.items() if on == card and now - since < REST_SECONDS
        ]
        pipe = vdev.free_pipe([*taken, *resting], self._last.get(card))
        if pipe is None:
            raise NoVendorIdError(f"card {card} has no free pipe")
        self._last[card] = pipe
        self._left.pop((card, pipe), None)
        return pipe

    def release(self, card: str, vendor_id: int) -> None:
        """Note that the slice with this pipe (number) has ended: the pipe is not used again for REST_SECONDS."""
        self._left[card, vendor_id] = self._clock()

    def claimed(self, cards: Sequence[str], text: Callable[[str], str | None]) -> Mapping[str, int]:
        """The pipes (numbers) of a container's slices by card uuid, read from the container's vdev files.

        Vdev file number i belongs to card number i of `cards`. `text` returns the text of a file by its name; None if
        it cannot be read.
        """
        pipes = ((card, vdev.pipe_of(text(vdev.file_name(i)) or "")) for i, card in enumerate(cards))
        return {card: pipe for card, pipe in pipes if pipe is not None}


class Hygon(Rocm):
    """Reads and shares Hygon's cards. Their driver is AMD's KFD, but Hygon's own runtime enforces slices too."""

    PCI_VENDOR: ClassVar[int] = 0x1D94
    MAX_SLICES: ClassVar[int] = vdev.MAX_SLICES
    CARD_VARIABLES: ClassVar[Mapping[str, str]] = {
        "DCU_VISIBLE_DEVICES": "void",
        "HCU_VISIBLE_DEVICES": "void",
        "HYGON_VISIBLE_DEVICES": "void",
        # If one of these has any text, Hygon's runtime adds at least a mount.
        "MIG_VISIBLE_DEVICES": "",
        "RESOURCE_REGISTER_STRATEGY": "",
        "VHCU_VISIBLE_DEVICES": "",
    }
    MODELS: ClassVar[Models] = models.HYGON
    MOUNTS: ClassVar[Sequence[str]] = (*HYHAL, "/opt/dtk:/opt/hygondriver", CARD_NODE)
    ABOUT: ClassVar[About] = About(
        "Hygon HCU, formerly DCU",
        "`hygon.com/dcu` or `hygon.com/hcu`",
        "Hygon's, with `/dev/kfd` and `/dev/mkfd`",
        "DTK",
    )

    def __init__(self, machine: Machine, mounts: Sequence[str] = ()) -> None:
        super().__init__(machine, mounts)
        self._pipes = Pipes()

    @property
    def ids(self) -> Pipes:
        """The pipes: the numbers by which Hygon's driver distinguishes the slices of a card."""
        return self._pipes

    def scan(self) -> Scan[KfdCard]:
        """The cards of Hygon. A card with too many units, or that another program has cut, has a reason in `unfit`."""
        scan = super().scan()
        if not scan.cards:
            return scan
        of_all, cut = self._unfit_node(), self._cut()
        cards = [
            replace(card, unfit=_too_large(card) or of_all or cut.get(card.pci) or card.unfit)
            for card in scan.cards
        ]
        return replace(scan, cards=tuple(cards))

    def driver_slices(self, payload: KfdCard) -> Mapping[int, int] | None:
        """The memory limits of the slices in the card's driver, in bytes, by the slices' numbers there (pipes).

        None if the driver does not show them.
        """
        try:
            names = self._machine.names(DRIVER_SLICES)
        except OSError:
            return None
        found = {}
        for name in names:
            record = _RECORD.fullmatch(name)
            if record and int(record[1], 16) == payload.gpu_id:
                limit = _LIMIT.search(self._text_if_any(f"{DRIVER_SLICES}/{name}/entry"))
                found[int(record[2])] = int(limit[1]) if limit else 0
        return found

    def rivals(self, signs: Callable[[], NodeSigns]) -> Sequence[str]:
        """A text for each sign of Hygon's own device plugin or DRA driver, which give out the same cards."""
        marks, seen = self._names_if_any(MARKS)[:1], signs()
        return [
            *(f"the file /{MARKS}/{name} (remove it when that program is gone)" for name in marks),
            *(f"the node's annotation {key} (remove it when that program is gone)" for key in seen.registers),
            *(f"the socket {name}" for name in sorted(seen.sockets) if name.startswith("hygon.com_")),
            *(
                f"the CDI file {name}"
                for name in sorted(seen.cdi_files)
                if name.startswith("hcu-dra-driver-")
            ),
        ]

    def files(self, slices: Sequence[CardSlice[KfdCard]]) -> ContainerFiles[RocmLimit]:
        """The files for slices of KFD cards (see Rocm), and for each slice a vdev file for Hygon's runtime."""
        files = super().files(slices)
        texts = {
            vdev.file_name(number): vdev.render(limit, vdev_id=number, pipe_id=s.vendor_id, device_id=number)
            for number, (s, limit) in enumerate(zip(slices, files.limits, strict=True))
            if s.vendor_id is not None
        }
        return replace(files, texts=texts)

    def container_path(self, name: str) -> str | None:
        """The path at which Hygon's runtime reads a vdev file; None for any other file."""
        return f"{paths.CONTAINER_VDEV_FOLDER}/{name}" if vdev.is_file_name(name) else None

    def _limit(self, s: CardSlice[KfdCard]) -> CardLimit[RocmLimit]:
        limit = super()._limit(s)
        return replace(limit, family=replace(limit.family, vendor_masks=s.vendor_id is not None))

    def _unfit_node(self) -> str:
        """The reason why none of the node's cards can be shared, as text; empty if there is none."""
        if not any(self._machine.host_file(path) for path in HYHAL):
            return (
                f"without {HYHAL[0]} or {HYHAL[1]} containers find no card: install Hygon's driver package, and give"
                " the node the label vgpu.io/maker=hygon, so that its agent sees them"
            )
        if mig := self._machine.matching(MIG):
            return f"the node's cards are in MIG mode (/{mig[0]}): leave it with `hy-smi mig`, or exclude the card"
        return ""

    def _cut(self) -> Mapping[str, str]:
        """By PCI address, each card that another program has cut, and the reason why it cannot be shared, as text."""
        found: dict[str, str] = {}
        for path in self._machine.matching(CUT)[:MOST_FILES]:
            if pci := _PCI.search(self._text_if_any(path)):
                name = path.rpartition("/")[2].removesuffix(".conf")
                reason = f"another program has cut it ({name} of `hy-smi virtual`): destroy {name}, or exclude the card"
                found.setdefault(pci[1], reason)
        return found

    def _model(self, node: str, values: Mapping[str, int], pci: str) -> str:
        """The model as the driver's package on the node names it; if the package does not name it, as Rocm finds it.

        `values` are the properties of `node`, the card's node in the KFD topology; `pci` is the card's PCI address.
        """
        table = {
            int(device, 16): name
            for device, name in _MODEL.findall(self._text_if_any(MODEL_TABLE)[:MOST_TEXT])
        }
        return table.get(values.get("device_id", 0)) or super()._model(node, values, pci)

    def _names_if_any(self, folder: str) -> Sequence[str]:
        try:
            return sorted(self._machine.names(folder))
        except OSError:
            return ()

    def _text_if_any(self, path: str) -> str:
        try:
            return self._machine.text(path)
        except OSError:
            return ""


def _too_large(card: FoundCard[KfdCard]) -> str:
    """The reason why a card has too many compute units for a vdev file, as text; empty if they are not too many."""
    if card.compute_units <= vdev.MAX_UNITS:
        return ""
    return f"it has {card.compute_units} compute units, its vendor's slices hold at most {vdev.MAX_UNITS}"
