"""Cards, and the inventory of a node's cards as the Node annotation `vgpu.io/cards` carries it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, NamedTuple, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from device_plugin.core.contract import units
from device_plugin.core.contract.annotations import MAX_BYTES, MAX_CARDS, MAX_COMPUTE_UNITS, MAX_INT
from device_plugin.core.contract.codec import Count, Reader, Text, json_length, shared, write_object
from device_plugin.core.contract.grants import CardSize, Slice, Slices, slices_fault
from device_plugin.core.contract.units import DEFAULT_UNIT_MIB
from device_plugin.core.errors import AnnotationError

# Far more than the kubelet could count; keeps units times MiB exact in a signed 64-bit integer.
MAX_UNITS = 2**20
# Most reports that a reader accepts; fewer than this fit into a node's annotation.
MAX_REPORTS = 1024
# Most idle pods that a reader accepts: a node has no more slices.
MAX_IDLE = 1024
# Longest namespace and pod name, with the slash.
MAX_NAME = 63 + 1 + 253
# Seconds that the agent waits for the processes of a vanished pod to end, before it reports them. After a forced
# deletion they run for about 2 s; after an ordinary end no process is left, and nothing is written.
AGENT_SECONDS = 1.5
# Seconds that the allocator waits for that report. The goal is that a slice is free at most 5 s after its pod's end.
REPORT_SECONDS = 5.0


class Card(msgspec.Struct, frozen=True, gc=False):
    """One physical accelerator.

    - `family` is the resource prefix that asks for it (`hygon.com/dcu`).
    - `units` are its memory units, of about `unit_mib` MiB by its node's setting. `core_groups` are its core groups, of
      `group_units` compute units each. `max_slices` is the number of slices that the vendor's driver can keep apart.
    - A `cordoned` card gets no new slices; an operator sets this, not the node.
    - Cards of one `hive` are linked by XGMI; empty if the card has no such link.
    """

    uuid: Text
    family: Text
    model: Text
    pci: Text
    mem_mib: Count = msgspec.field(name="memMiB")
    units: Annotated[int, Meta(ge=1, le=MAX_UNITS)]
    compute_units: Annotated[int, Meta(ge=1, le=MAX_COMPUTE_UNITS)] = msgspec.field(name="computeUnits")
    core_groups: Count = msgspec.field(name="coreGroups")
    group_units: Count = msgspec.field(name="groupUnits")
    max_slices: Count = msgspec.field(name="maxSlices")
    numa: Annotated[int, Meta(ge=-1, le=MAX_INT)]
    healthy: bool
    cordoned: bool = False
    unit_mib: Count = msgspec.field(default=DEFAULT_UNIT_MIB, name="memUnitMiB")
    hive: Text = ""

    @property
    def open(self) -> bool:
        """True if the card may get new slices: it is healthy and not cordoned."""
        return self.healthy and not self.cordoned

    @property
    def size(self) -> CardSize:
        """The card's memory and its largest number of slices."""
        return CardSize(self.mem_mib, self.max_slices)

    def mib(self, unit_count: int) -> int:
        """The MiB that `unit_count` memory units of this card grant."""
        return units.units_to_mib(unit_count, self.mem_mib, self.units)


class SliceState(Enum):
    """The states that an agent may report of a container's slices, such as used by processes that outlive their pod."""

    OUTLIVING = "outliving"
    """The pod is gone, replaced or ended, but processes of it still run: the slices are not free."""
    COVERED = "covered"
    """A mount hides files that the agent mounted into the container: its limits may not hold."""
    UNENFORCED = "unenforced"
    """The kernel shows that the container uses a card, but the library does not limit the container."""
    REFUSED = "refused"
    """The container cannot start, because a container of another pod runs on its slices and does not end."""


@dataclass(frozen=True, slots=True)
class ReportedSlice:
    """The `state` of one container's slices, as the node's agent reports it.

    `pod` is the pod's UID. `namespace` and `pod_name` are for texts to people, because the pod object may be gone.
    `end` is true if the allocator must delete the pod: always for REFUSED (the container cannot start), and for
    UNENFORCED (nothing limits the container) if the enforcement mode of the card's family requires it.
    """

    pod: str
    namespace: str
    pod_name: str
    container: str
    state: SliceState
    slices: tuple[Slice, ...]
    end: bool = False


class IdlePod(NamedTuple):
    """A pod to evict: its UID, and the idle limit (in seconds) for which all of its slices have been idle."""

    uid: Text
    limit: Count


NamedPod = TypeVar("NamedPod", str, IdlePod)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The inventory of one node: its cards, whether its agent serves Allocate, and its reports about containers.

    `idle` are the pods whose slices have all been idle for the pod's idle limit, and whose owners were warned by an
    event: the leading replica of the cluster service evicts these pods. `unmeasured` are the UIDs of the pods with an
    idle limit that are never evicted, because computing is not measured for one of their slices.

    From the reports the allocator learns when the slices of a vanished pod are free:

    1. The agent and the allocator see at about the same time that a bound pod vanished without a terminal phase.
    2. The agent waits AGENT_SECONDS for the pod's processes to end. It reports slices of running processes as
       OUTLIVING; it never reports that a slice is free.
    3. The allocator holds the slices for REPORT_SECONDS, and after that as long as a report names them.

    If the agent or the API server is down in these seconds, the ledger frees the slices too early. Then the agent's
    PreStartContainer, which asks the kernel, keeps the next container from starting, and the report comes later.
    """

    cards: tuple[Card, ...]
    serving: bool = True
    slices: tuple[ReportedSlice, ...] = ()
    idle: tuple[IdlePod, ...] = ()
    unmeasured: tuple[str, ...] = ()
    claims: bool = False
    """True while the kubelet knows the agent as a DRA driver, and so prepares the ResourceClaims of pods."""

    def cordon(self, uuids: Collection[str]) -> "Inventory":
        """A copy of the inventory in which exactly the cards with these uuids are cordoned."""
        cards = [
            card
            if card.cordoned == (card.uuid in uuids)
            else msgspec.structs.replace(card, cordoned=not card.cordoned)
            for card in self.cards
        ]
        return replace(self, cards=tuple(cards))

    def encode(self) -> str:
        """The text of the annotation: one line of JSON of at most MAX_BYTES; equal inventories give equal text.

        Reports about containers that do not fit are left out; reports of the state OUTLIVING (processes outlive their
        pod) are the last to be left out. Next to 16 cards there is room for about 200 reports of one slice each.
        PreStartContainer also waits for containers whose report was left out. Idle and unmeasured pods come after the
        reports: idle pods that do not fit are evicted later.
        """
        fields: dict[str, object] = {"serving": self.serving, "cards": [_card_object(c) for c in self.cards]}
        if self.claims:
            fields["claims"] = True
        text = write_object(fields)
        if reports := _fitting(self.slices, MAX_BYTES - len(text) - len(',"slices":[]')):
            fields["slices"] = reports
            text = write_object(fields)
        if idle := _pods_fitting(self.idle, MAX_BYTES - len(text) - len(',"idlePods":[]')):
            fields["idlePods"] = idle
            text = write_object(fields)
        if unmeasured := _pods_fitting(self.unmeasured, MAX_BYTES - len(text) - len(',"unmeasured":[]')):
            fields["unmeasured"] = unmeasured
            text = write_object(fields)
        return text

    @classmethod
    def decode(cls, text: str) -> "Inventory":
        """The inventory in an annotation's text; unknown keys are ignored. Raises AnnotationError if malformed.

        Reports with a state that this version does not know are left out. A card is never `cordoned` in the result:
        only operators cordon cards, by another annotation.
        """
        read = _READER.read(text)
        for number, card in enumerate(read.cards):
            if fault := _fault(card):
                raise AnnotationError(f"inventory: cards[{number}]: {fault}")
            _share(card)
        if len({card.uuid for card in read.cards}) != len(read.cards):
            raise AnnotationError("inventory: two cards have the same uuid")
        reports = tuple(_reported(report) for report in read.slices if report.state in _STATES)
        if len({(report.pod, report.container) for report in reports}) != len(reports):
            raise AnnotationError("inventory: two reports of one container")
        return cls(read.cards, read.serving, reports, read.idle, read.unmeasured, read.claims)


class _Report(msgspec.Struct, gc=False, omit_defaults=True):
    """A report in its JSON form; `name` is `NAMESPACE/POD`."""

    pod: Text
    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
    container: Text
    state: Text
    slices: Slices
    end: bool = False


class _Inventory(msgspec.Struct, gc=False, rename={"idle": "idlePods"}):
    serving: bool
    cards: Annotated[tuple[Card, ...], Meta(max_length=MAX_CARDS)]
    slices: Annotated[tuple[_Report, ...], Meta(max_length=MAX_REPORTS)] = ()
    idle: Annotated[tuple[IdlePod, ...], Meta(max_length=MAX_IDLE)] = ()
    unmeasured: Annotated[tuple[Text, ...], Meta(max_length=MAX_IDLE)] = ()
    claims: bool = False


_READER = Reader(_Inventory, "inventory")
_STATES = frozenset(state.value for state in SliceState)


def _reported(report: _Report) -> ReportedSlice:
    if fault := slices_fault(report.slices):
        raise AnnotationError(f"inventory: container {report.container[:63]}: {fault}")
    namespace, _, name = report.name.partition("/")
    return ReportedSlice(
        report.pod, namespace, name, report.container, SliceState(report.state), report.slices, report.end
    )


def _fault(card: Card) -> str:
    """A text that says which numbers of the card contradict each other; empty if all numbers agree."""
    if card.core_groups * card.group_units > card.compute_units:
        return (
            f"{card.core_groups} core groups of {card.group_units} units do not fit {card.compute_units} compute"
            " units"
        )
    if card.units > card.mem_mib:
        return f"{card.units} memory units of {card.mem_mib} MiB"
    return ""


def _share(card: Card) -> None:
    """Save memory by sharing equal texts and numbers between cards, and clear `cordoned`, which agents may not set."""
    for name in ("family", "model", "hive", "mem_mib", "unit_mib"):
        force_setattr(card, name, shared(getattr(card, name)))
    force_setattr(card, "cordoned", False)  # noqa: FBT003


def memory_units(inventories: Mapping[str, Inventory]) -> Mapping[str, Mapping[int, Sequence[str]]]:
    """The sizes of a memory unit (MiB) in use, by card family, each with the nodes that use this size; all sorted.

    Each node has a setting for the size. If the nodes of a family differ, a request means different amounts on them.
    """
    found: dict[str, dict[int, list[str]]] = {}
    for name, inventory in sorted(inventories.items()):
        for family, unit in {(card.family, card.unit_mib) for card in inventory.cards}:
            found.setdefault(family, {}).setdefault(unit, []).append(name)
    return {family: dict(sorted(units.items())) for family, units in sorted(found.items())}


def card_list(text: str) -> frozenset[str]:
    """The uuids in a list with commas, such as the text of the annotation `vgpu.io/cordoned`."""
    return frozenset(word.strip() for word in text.split(",")) - {""}


def _card_object(card: Card) -> dict[str, object]:
    return {
        "uuid": card.uuid,
        "family": card.family,
        "model": card.model,
        "pci": card.pci,
        "memMiB": card.mem_mib,
        "memUnitMiB": card.unit_mib,
        "units": card.units,
        "computeUnits": card.compute_units,
        "coreGroups": card.core_groups,
        "groupUnits": card.group_units,
        "maxSlices": card.max_slices,
        "numa": card.numa,
        "healthy": card.healthy,
        **({"hive": card.hive} if card.hive else {}),
    }


def _fitting(reports: Iterable[ReportedSlice], room: int) -> list[dict[str, object]]:
    """The first reports that fit into `room` characters of JSON, in JSON form.

    Reports of the state OUTLIVING (processes of an ended or vanished pod still run) come first, then all others, each
    sorted by the pod's UID and the container's name.
    """
    chosen = list[dict[str, object]]()
    for report in sorted(reports, key=lambda r: (r.state is not SliceState.OUTLIVING, r.pod, r.container)):
        name = f"{report.namespace}/{report.pod_name}"
        written = _Report(report.pod, name, report.container, report.state.value, report.slices, report.end)
        entry = msgspec.to_builtins(written)
        room -= json_length(entry) + 1
        if room < 0:
            break
        chosen.append(entry)
    return chosen


def _pods_fitting(pods: Iterable[NamedPod], room: int) -> list[NamedPod]:
    """The first of the pods, in ascending order, that fit into `room` characters of JSON; at most MAX_IDLE."""
    chosen = list[NamedPod]()
    for pod in sorted(pods)[:MAX_IDLE]:
        room -= json_length(pod) + 1
        if room < 0:
            break
        chosen.append(pod)
    return chosen
