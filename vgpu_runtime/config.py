"""vgpu.conf: what the library in a container holds its processes to.

A line-oriented text that two parsers read, this one and src/config.c; the same texts are accepted and refused
by both (tests/runtime/test_config.py runs one table of texts through each)::

    version = 1
    pod = 6a1f…
    container = main

    [card]
    uuid = DCU-1122334455667788
    gpu_id = 13261
    pci = 0000:19:00.0
    render_minor = 128
    mem_bytes = 4290772992
    compute_units = 60
    xcc = 1
    paired = 0
    mask = 0x7fff

Every key exactly once, in any order within its section; nothing else but blank lines and lines that begin
with `#`. Numbers are decimal without leading zeros, the mask is lower-case hexadecimal, other values are
printable ASCII without spaces.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

VERSION = 1
MAX_BYTES = 65536
MAX_CARDS = 16
MAX_COMPUTE_UNITS = 1024
MAX_XCC = 16
MAX_MEM_BYTES = 1 << 50
UNITS_VARIABLE = "ROC_GLOBAL_CU_MASK"
"""What HIP takes for the units that it may use, and so for how many there are."""

_LINE = re.compile(r"([a-z_]+) = ([!-~]{1,256})")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_MASK = re.compile(r"0x[0-9a-f]{1,256}")
_HEAD_KEYS = ("version", "pod", "container")
_CARD_KEYS = ("uuid", "gpu_id", "pci", "render_minor", "mem_bytes", "compute_units", "xcc", "paired", "mask")

Section = dict[str, str]


class ConfigError(ValueError):
    """A vgpu.conf that the library would refuse; the message names the line or the rule."""


@dataclass(frozen=True, slots=True)
class CardLimit:
    """One card's slice. `mask` has a bit per physical compute unit; `mem_bytes` is the memory limit.

    `gpu_id` is the card's id in the KFD topology. `xcc` and `paired` are the hardware's mask rules: unit i
    belongs to XCC i mod `xcc`, and on RDNA units 2i and 2i+1 go together.
    """

    uuid: str
    gpu_id: int
    pci: str
    render_minor: int
    mem_bytes: int
    compute_units: int
    xcc: int
    paired: bool
    mask: int

    def __post_init__(self) -> None:
        """Refuse with ConfigError what the library would refuse."""
        _in_range("gpu_id", self.gpu_id, 1, 0xFFFFFFFF)
        _in_range("render_minor", self.render_minor, 0, 0xFFFFF)
        _in_range("mem_bytes", self.mem_bytes, 1, MAX_MEM_BYTES)
        _in_range("compute_units", self.compute_units, 1, MAX_COMPUTE_UNITS)
        _in_range("xcc", self.xcc, 1, MAX_XCC)
        if self.mask <= 0 or self.mask >> self.compute_units:
            raise ConfigError(
                f"mask {self.mask:#x} is empty or has a bit beyond unit {self.compute_units - 1}"
            )
        if self.paired and (self.mask ^ self.mask >> 1) & _every(2, self.compute_units):
            raise ConfigError(f"mask {self.mask:#x} splits a pair of units that the card needs whole")
        for xcc in range(self.xcc):
            if not self.mask >> xcc & _every(self.xcc, self.compute_units):
                raise ConfigError(
                    f"mask {self.mask:#x} leaves XCC {xcc} without a unit: it would run unmasked"
                )


@dataclass(frozen=True, slots=True)
class SliceConfig:
    """One container's slices, in the order of the region's card indexes."""

    pod: str
    container: str
    cards: tuple[CardLimit, ...]

    def __post_init__(self) -> None:
        """Refuse with ConfigError what the library would refuse."""
        _in_range("number of cards", len(self.cards), 1, MAX_CARDS)
        if len({card.gpu_id for card in self.cards}) != len(self.cards):
            raise ConfigError("two cards have the same gpu_id")


def environment(config: SliceConfig) -> dict[str, str]:
    """Variables that tell programs of their slice: to HIP, the number of its units.

    HIP has one value for all cards, so only a slice of one card has it; several are whole cards, and need none. It is
    a hint: the masks of queues are what holds a program to its units. src/units.c says the same.
    """
    card = config.cards[0]
    units = card.mask.bit_count()
    if len(config.cards) > 1 or units == card.compute_units:
        return {}
    return {UNITS_VARIABLE: f"{(1 << units) - 1:#x}"}


def render(config: SliceConfig) -> str:
    """The file's text. Raises ConfigError where the text would not be accepted."""
    lines = [f"version = {VERSION}", f"pod = {config.pod}", f"container = {config.container}"]
    for card in config.cards:
        lines += [
            "",
            "[card]",
            f"uuid = {card.uuid}",
            f"gpu_id = {card.gpu_id}",
            f"pci = {card.pci}",
            f"render_minor = {card.render_minor}",
            f"mem_bytes = {card.mem_bytes}",
            f"compute_units = {card.compute_units}",
            f"xcc = {card.xcc}",
            f"paired = {int(card.paired)}",
            f"mask = {card.mask:#x}",
        ]
    text = "\n".join(lines) + "\n"
    if parse(text) != config:
        raise ConfigError(f"a value of {config} does not survive the file format")
    return text


def parse(text: str) -> SliceConfig:
    """Read vgpu.conf. Raises ConfigError for anything that the library would refuse."""
    if len(text.encode("utf-8", "surrogateescape")) > MAX_BYTES:
        raise ConfigError(f"longer than {MAX_BYTES} bytes")
    if not text.endswith("\n"):
        raise ConfigError("the last line is not ended: the file may be truncated")
    head, *cards = _sections(text)
    _exactly(head, _HEAD_KEYS)
    if head["version"] != str(VERSION):
        raise ConfigError(f"version {head['version']} is not {VERSION}")
    return SliceConfig(head["pod"], head["container"], tuple(_card(section) for section in cards))


def _sections(text: str) -> Iterator[Section]:
    section: Section = {}
    for number, line in enumerate(text[:-1].split("\n"), start=1):
        if not line or line.startswith("#"):
            continue
        if line == "[card]":
            yield section
            section = {}
            continue
        match = _LINE.fullmatch(line)
        if not match:
            raise ConfigError(f"line {number} is not 'key = value'")
        if match[1] in section:
            raise ConfigError(f"line {number} repeats {match[1]}")
        section[match[1]] = match[2]
    yield section


def _card(section: Section) -> CardLimit:
    _exactly(section, _CARD_KEYS)
    if not _MASK.fullmatch(section["mask"]):
        raise ConfigError(f"mask {section['mask']} is not 0x and lower-case hexadecimal digits")
    if section["paired"] not in ("0", "1"):
        raise ConfigError(f"paired {section['paired']} is neither 0 nor 1")
    return CardLimit(
        uuid=section["uuid"],
        gpu_id=_number(section, "gpu_id"),
        pci=section["pci"],
        render_minor=_number(section, "render_minor"),
        mem_bytes=_number(section, "mem_bytes"),
        compute_units=_number(section, "compute_units"),
        xcc=_number(section, "xcc"),
        paired=section["paired"] == "1",
        mask=int(section["mask"], 16),
    )


def _exactly(section: Section, keys: tuple[str, ...]) -> None:
    if wrong := sorted(set(section) ^ set(keys)):
        raise ConfigError(f"keys unknown or missing: {', '.join(wrong)}")


def _number(section: Section, key: str) -> int:
    if not _NUMBER.fullmatch(section[key]):
        raise ConfigError(f"{key} {section[key]} is not a decimal number")
    return int(section[key])


def _in_range(what: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{what} {value} is not between {low} and {high}")


def _every(step: int, bits: int) -> int:
    """The mask of bits 0, step, 2·step, … below `bits`."""
    return sum(1 << bit for bit in range(0, bits, step))
