"""vgpu.conf: the limits that the library in a container enforces on the processes of this container.

The file is a line-oriented text that two parsers read, this one and native/common/config.c. Both accept and refuse the
same texts: tests/runtime/test_config.py runs one table of texts through each::

    version = 6
    pod = 6a1f…
    container = main
    enforcement = observe

    [card]
    uuid = DCU-1122334455667788
    pci = 0000:19:00.0
    model = MI300X
    request = hygon.com/dcu-mem:4
    mem_bytes = 4290772992
    [rocm]
    gpu_id = 13261
    …

A section `[card]` has the keys that cards of every vendor have. The next section has the name of the card's driver
family, and the keys of that family alone (rocm.py). Every key occurs exactly once, in any order within its section.
Only blank lines and lines that begin with `#` may be added. Numbers are decimal without leading zeros, masks are
lower-case hexadecimal, other values are printable ASCII without spaces. Only `model` may have spaces (RX 6950 XT):
vgpu-smi shows this value to people.

`request` is the limit in the pod's spec that decides the slice's memory: a resource and an amount, or `?` if they are
not known. For a slice by a ResourceClaim it is the memory in the claim's status (`dcu.vgpu.io/memory:4096Mi`). The
library's line on stderr names it.

`enforcement` is the mode of the agent. It decides what happens to a container that uses a card without the library
(device_plugin/core/enforcement.py). The library enforces in every mode, and vgpu-smi shows it.

A file of another version is refused. A container's library and its file come from one agent; an agent of another
version reads the uuids of the cards alone (`card_uuids`).
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, Self, TypeVar

VERSION = 6
MAX_BYTES = 65536
MAX_CARDS = 16
MAX_MEM_BYTES = 1 << 50
# A `model` or `request` that the agent cannot write.
UNKNOWN = "?"

_LINE = re.compile(r"(?:(model) = ([!-~](?:[ -~]{0,254}[!-~])?)|([a-z_]+) = ([!-~]{1,256}))")
_VALUE = re.compile(r"[!-~]{1,256}")
_SECTION = re.compile(r"\[([a-z]+)\]")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
MODES = ("observe", "enforce", "kill")
_HEAD_KEYS = frozenset({"version", "pod", "container", "enforcement"})
_CARD_KEYS = frozenset({"uuid", "pci", "model", "request", "mem_bytes"})

Section = Mapping[str, str]


class ConfigError(ValueError):
    """A vgpu.conf that the library would refuse; the message names the line or the rule."""


class FamilyLimit(Protocol):
    """The limits of a slice that exist only in one family of drivers: one section of vgpu.conf."""

    SECTION: ClassVar[str]
    """The section's name in vgpu.conf."""
    KEYS: ClassVar[frozenset[str]]

    @property
    def device(self) -> str:
        """The driver's name for the card, unique among the cards of a container."""

    def values(self) -> Section:
        """Every key of the section with its value, as text."""

    @classmethod
    def read(cls, section: Section) -> Self:
        """The limits that a section of vgpu.conf describes. Raises ConfigError if its keys are not exactly KEYS."""


Family = TypeVar("Family", bound=FamilyLimit, covariant=True)


@dataclass(frozen=True, slots=True)
class CardLimit(Generic[Family]):
    """The limits of one slice: `mem_bytes` is its memory limit; `family` has the limits of the card's driver family.

    `model` is the card's model, and `request` the limit in the pod's spec that decided the memory. Both are only shown
    to people.
    """

    uuid: str
    pci: str
    model: str
    request: str
    mem_bytes: int
    family: Family

    def __post_init__(self) -> None:
        """Raise ConfigError for values that the library would refuse."""
        in_range("mem_bytes", self.mem_bytes, 1, MAX_MEM_BYTES)


@dataclass(frozen=True, slots=True)
class SliceConfig(Generic[Family]):
    """A container's vgpu.conf: its slices, in the order of the file's cards. `enforcement` is one of MODES.

    The cards have the same order in the usage region, the file of the container's counters (region.py).
    """

    pod: str
    container: str
    cards: tuple[CardLimit[Family], ...]
    enforcement: str = MODES[0]

    def __post_init__(self) -> None:
        """Raise ConfigError for values that the library would refuse."""
        in_range("number of cards", len(self.cards), 1, MAX_CARDS)
        if self.enforcement not in MODES:
            raise ConfigError(f"enforcement {self.enforcement} is none of {', '.join(MODES)}")
        if len({(card.family.SECTION, card.family.device) for card in self.cards}) != len(self.cards):
            raise ConfigError("two cards have the same device")


def render(config: SliceConfig[FamilyLimit]) -> str:
    """The text of vgpu.conf. Raises ConfigError if the library would not accept it."""
    head = {"version": str(VERSION), "pod": config.pod, "container": config.container}
    text = "\n".join(
        [
            *_lines({**head, "enforcement": config.enforcement}),
            *(line for card in config.cards for line in ("", *_card_lines(card))),
            "",
        ]
    )
    if parse(text, {type(card.family) for card in config.cards}) != config:
        raise ConfigError(f"a value of {config} does not survive the file format")
    return text


def parse(text: str, families: Collection[type[Family]]) -> SliceConfig[Family]:
    """The limits that `text`, a vgpu.conf with cards of these driver families, describes.

    Raises ConfigError if the library would refuse the text.
    """
    if len(text.encode("utf-8", "surrogateescape")) > MAX_BYTES:
        raise ConfigError(f"longer than {MAX_BYTES} bytes")
    if not text.endswith("\n"):
        raise ConfigError("the last line is not ended: the file may be truncated")
    (_, head), *sections = _sections(text)
    version = head.get("version", "")
    if version != str(VERSION):
        raise ConfigError(f"version {version or 'missing'} is not {VERSION}")
    _exactly(head, _HEAD_KEYS)
    known = {family.SECTION: family for family in families}
    parts, cards = iter(sections), []
    for name, card in parts:
        family, values = next(parts, ("", {}))
        if name != "card" or family not in known:
            raise ConfigError(f"[{name}] and [{family}] are not a card and what its family has")
        _exactly(card, _CARD_KEYS)
        _exactly(values, known[family].KEYS)
        limit = known[family].read(values)
        mem_bytes = number(card, "mem_bytes")
        cards.append(CardLimit(card["uuid"], card["pci"], card["model"], card["request"], mem_bytes, limit))
    return SliceConfig(head["pod"], head["container"], tuple(cards), head["enforcement"])


def model_value(name: str) -> str:
    """The name of a card's model as vgpu.conf has it; `?` replaces an empty name and each unprintable character."""
    return re.sub(r"[^ -~]", "?", name[:256]).strip() or UNKNOWN


def request_value(resource: str, amount: int | str) -> str:
    """The amount of `resource` that a container or its claim asks for, in the form of the key `request`.

    UNKNOWN if vgpu.conf cannot express it.
    """
    value = f"{resource}:{amount}"
    return value if _VALUE.fullmatch(value) else UNKNOWN


def card_uuids(text: str) -> frozenset[str]:
    """The uuids of all cards in a vgpu.conf of any family and version. Raises ConfigError if a uuid may be missing."""
    (_, head), *sections = _sections(text)
    found = {section.get("uuid", "") for name, section in sections if name == "card"}
    if not text.endswith("\n") or not head.keys() >= {"version", "pod"} or not found or "" in found:
        raise ConfigError("not every card has a uuid, or the file is truncated")
    return frozenset(found)


def _sections(text: str) -> Iterator[tuple[str, Section]]:
    name, section = "", dict[str, str]()
    for line_number, line in enumerate(text[:-1].split("\n"), start=1):
        if not line or line.startswith("#"):
            continue
        if begin := _SECTION.fullmatch(line):
            yield name, section
            name, section = begin[1], {}
            continue
        match = _LINE.fullmatch(line)
        if not match:
            raise ConfigError(f"line {line_number} is not 'key = value'")
        key, value = match[1] or match[3], match[2] or match[4]
        if key in section:
            raise ConfigError(f"line {line_number} repeats {key}")
        section[key] = value
    yield name, section


def _card_lines(card: CardLimit[FamilyLimit]) -> Iterator[str]:
    yield "[card]"
    yield from _lines({"uuid": card.uuid, "pci": card.pci, "model": card.model, "request": card.request})
    yield from _lines({"mem_bytes": str(card.mem_bytes)})
    yield f"[{card.family.SECTION}]"
    yield from _lines(card.family.values())


def _lines(section: Section) -> Iterator[str]:
    return (f"{key} = {value}" for key, value in section.items())


def _exactly(section: Section, keys: frozenset[str]) -> None:
    if wrong := sorted(set(section) ^ keys):
        raise ConfigError(f"keys unknown or missing: {', '.join(wrong)}")


def number(section: Section, key: str) -> int:
    """The value of `key` in the section, as a number. Raises ConfigError if it is not a decimal number."""
    if not _NUMBER.fullmatch(section[key]):
        raise ConfigError(f"{key} {section[key]} is not a decimal number")
    return int(section[key])


def in_range(what: str, value: int, low: int, high: int) -> None:
    """Raise ConfigError if the value is not between `low` and `high`, both allowed."""
    if not low <= value <= high:
        raise ConfigError(f"{what} {value} is not between {low} and {high}")
