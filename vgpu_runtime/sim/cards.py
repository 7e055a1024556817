"""Cards of a simulated machine, described in YAML; the topology tree and the simulated driver follow from them.

An example, with everything optional but `version` and each card's `preset`::

    version: v1
    cards:
      - preset: hygon-60cu-16gib
        count: 2
      - preset: amd-304cu-192gib
        memoryMiB: 65520     # any key of the preset can be given
        numa: 1
      - preset: nvidia       # a foreign card: in DRM, not in KFD

Keys of a card: `name`, `vendor`, `device` (PCI ids), `memoryMiB`, `computeUnits`, `xcc`, `gfx` ("9.0.6"; from
10 on it is RDNA, whose compute units come in pairs), `kfd` (false: another driver's card), `pci`, `numa`, `uniqueId`,
`hive` (cards of one number are linked by XGMI).
"""

import dataclasses
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

VERSION = "v1"
MAX_CARDS = 16
MAX_COMPUTE_UNITS = 1024
MAX_XCC = 16
FIRST_RENDER_MINOR = 128

_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_GFX = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{1,2})")


Gfx = tuple[int, int, int]


class SpecError(ValueError):
    """The description of the cards is wrong; the message names the card and the key."""


@dataclass(frozen=True, slots=True)
class SimCard:
    """A simulated card. Memory is in MiB; `unique_id` and `pci` are empty until `number` sets them."""

    name: str
    vendor: int
    device: int
    memory_mib: int
    compute_units: int
    xcc: int = 1
    gfx: str = "9.0.6"
    kfd: bool = True
    pci: str = ""
    numa: int = 0
    unique_id: int = 0
    hive: int = 0

    @property
    def gfx_version(self) -> Gfx:
        """Major, minor and stepping of the instruction set."""
        major, minor, step = self.gfx.split(".")
        return int(major), int(minor), int(step)

    @property
    def paired(self) -> bool:
        """True for RDNA, where compute units 2i and 2i+1 are one workgroup processor and are masked together."""
        return self.gfx_version[0] >= 10

    @property
    def arrays(self) -> int:
        """The number of shader arrays of the whole card, as real models of this size have it."""
        large = self.paired or (self.xcc == 1 and self.compute_units > 64)
        return (8 if large else 4) * self.xcc

    @property
    def arrays_per_engine(self) -> int:
        """The number of shader arrays that share one shader engine."""
        return 2 if self.paired else 1

    @property
    def lds_kib(self) -> int:
        """The size of the local data share (LDS) of a compute unit, in KiB."""
        return 160 if self.gfx_version == (9, 5, 0) else 64

    @property
    def engines(self) -> int:
        """The number of shader engines of the whole card."""
        return self.arrays // self.arrays_per_engine

    @property
    def save_area_xccs(self) -> int:
        """The number of XCCs (dies) among which the memory for a preempted queue is divided.

        All XCCs of the card for gfx 9.4 and 9.5, else 1. See PRESETS.
        """
        return self.xcc if self.gfx_version[:2] in ((9, 4), (9, 5)) else 1

    @property
    def gpu_id(self) -> int:
        """A 16-bit id of the card, never 0, computed from its constant properties, as KFD's id is.

        The hash is our own (compare kfd_generate_gpu_id).
        """
        return zlib.crc32(f"{self.pci} {self.device} {self.unique_id}".encode()) % 0xFFFF + 1


# Debian's HIP 5.2.3 knows gfx up to 9.0.10 and 10.3.x, and no HIP of AMD knows Hygon's 9.3.6. So the BW card says
# gfx908, and the 8-XCC card for HIP 5.2.3 gfx90a where hardware says 9.4.2. It is an 8-XCC card by the rules of masks;
# for a queue's save area it is one card of 304 units, as gfx90a has no XCCs. From ROCr 6 on such a card has no queue:
# for newer HIP there are the cards whose names have their gfx.
PRESETS: Mapping[str, SimCard] = {
    "hygon-60cu-16gib": SimCard("Z100", 0x1D94, 0x54B7, 16368, 60),
    "hygon-80cu-64gib": SimCard("BW150", 0x1D94, 0x6320, 65520, 80, gfx="9.0.8"),
    "hygon-120cu-64gib": SimCard("K100-AI", 0x1D94, 0x6210, 65520, 120, gfx="9.0.8"),
    "amd-60cu-16gib": SimCard("vega20", 0x1002, 0x66A1, 16368, 60),
    "amd-104cu-64gib": SimCard("mi210", 0x1002, 0x740F, 65520, 104, gfx="9.0.10"),
    "amd-304cu-192gib": SimCard("mi300x", 0x1002, 0x74A1, 196592, 304, xcc=8, gfx="9.0.10"),
    "amd-rdna-80cu-16gib": SimCard("navi21", 0x1002, 0x73BF, 16368, 80, gfx="10.3.0"),
    "amd-gfx942-304cu-192gib": SimCard("mi300x", 0x1002, 0x74A1, 196592, 304, xcc=8, gfx="9.4.2"),
    "amd-gfx950-256cu-288gib": SimCard("mi350x", 0x1002, 0x75A0, 294896, 256, xcc=8, gfx="9.5.0"),
    "amd-gfx1100-96cu-48gib": SimCard("w7900", 0x1002, 0x7448, 49136, 96, gfx="11.0.0"),
    "amd-gfx1201-64cu-16gib": SimCard("navi48", 0x1002, 0x7550, 16304, 64, gfx="12.0.1"),
    "nvidia": SimCard("GA102", 0x10DE, 0x2235, 46068, 84, kfd=False),
}

KEYS = {
    "name": "name", "vendor": "vendor", "device": "device", "memoryMiB": "memory_mib",
    "computeUnits": "compute_units", "xcc": "xcc", "gfx": "gfx", "kfd": "kfd", "pci": "pci", "numa": "numa",
    "uniqueId": "unique_id", "hive": "hive",
}  # fmt: skip


def load(path: Path, machine: int = 0) -> list[SimCard]:
    """The cards that a YAML file describes (see `parse`). Raises SpecError, whose message says what to do."""
    try:
        return parse(path.read_text(encoding="utf-8"), machine)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from error
    except (UnicodeDecodeError, SpecError) as error:
        raise SpecError(f"{path}: {error}") from error


def parse(text: str, machine: int = 0) -> list[SimCard]:
    """The cards that a YAML text describes, each with a PCI address and a unique id. Raises SpecError.

    Cards of machines with different numbers get different unique ids, as real cards have.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SpecError(f"not YAML: {error}") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise SpecError(f"the first key must be 'version: {VERSION}'")
    _known(document, ("version", "cards"), "at the top")
    entries = document.get("cards")
    if not isinstance(entries, list) or not entries:
        raise SpecError("'cards' must be a list of at least one card")
    cards = [card for index, entry in enumerate(entries) for card in _cards(entry, f"card {index}")]
    return number(cards, machine)


def number(cards: Sequence[SimCard], machine: int = 0) -> list[SimCard]:
    """The cards, with a PCI address and a unique id added where one was missing.

    Raises SpecError if two cards have the same address or id.
    """
    if len(cards) > MAX_CARDS:
        raise SpecError(f"{len(cards)} cards: at most {MAX_CARDS} can be simulated")
    numbered = [
        dataclasses.replace(
            card,
            pci=card.pci or f"0000:{0x19 + 8 * index:02x}:00.0",
            unique_id=card.unique_id or 0x1122334455000000 + (machine << 8) + index + 1,
        )
        for index, card in enumerate(cards)
    ]
    for what in ("pci", "unique_id", "gpu_id"):
        if len({getattr(card, what) for card in numbered}) != len(numbered):
            raise SpecError(f"two cards have the same {what}; give one of them another uniqueId or pci")
    return numbered


def _cards(entry: object, where: str) -> Iterator[SimCard]:
    if not isinstance(entry, dict):
        raise SpecError(f"{where}: must be a map with 'preset'")
    _known(entry, ("preset", "count", *KEYS), where)
    preset = PRESETS.get(str(entry.get("preset")))
    if preset is None:
        raise SpecError(f"{where}: 'preset' must be one of {', '.join(PRESETS)}")
    count = entry.get("count", 1)
    if type(count) is not int or not 1 <= count <= MAX_CARDS:
        raise SpecError(f"{where}: 'count' must be a number from 1 to {MAX_CARDS}, not {count!r}")
    if count > 1 and {"pci", "uniqueId"} & entry.keys():
        raise SpecError(f"{where}: 'pci' and 'uniqueId' name one card; leave them out or leave 'count' out")
    yield from [_changed(preset, entry, where)] * count


def _changed(preset: SimCard, entry: Mapping[str, Any], where: str) -> SimCard:
    given = {key: value for key, value in entry.items() if key in KEYS}
    for key, value in given.items():
        kind = type(getattr(preset, KEYS[key]))
        if type(value) is not kind:
            raise SpecError(f"{where}: {key} must be of type {kind.__name__}, not {value!r}")
    card = dataclasses.replace(preset, **{KEYS[key]: value for key, value in given.items()})
    rules = {
        "memoryMiB must be positive": 0 < card.memory_mib < 1 << 40,
        f"xcc must be 1 to {MAX_XCC}": 1 <= card.xcc <= MAX_XCC,
        f"computeUnits must be 1 to {MAX_COMPUTE_UNITS}": 1 <= card.compute_units <= MAX_COMPUTE_UNITS,
        "gfx must look like 9.0.6": _GFX.fullmatch(card.gfx) is not None,
        "pci must look like 0000:19:00.0": not card.pci or _PCI.fullmatch(card.pci) is not None,
        "vendor and device must be 16-bit": 0 < card.vendor < 1 << 16 and 0 < card.device < 1 << 16,
    }
    for rule, kept in rules.items():
        if not kept:
            raise SpecError(f"{where}: {rule}")
    if card.compute_units % (card.xcc * (2 if card.paired else 1)):
        raise SpecError(f"{where}: {card.compute_units} computeUnits do not divide into XCCs and pairs")
    return card


def _known(entry: Mapping[Any, Any], keys: Sequence[str], where: str) -> None:
    if unknown := sorted(str(key) for key in entry if key not in keys):
        raise SpecError(f"{where}: unknown key {', '.join(unknown)}; known are {', '.join(keys)}")
