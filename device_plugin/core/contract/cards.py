"""Cards, and the inventory of a node's cards as the Node annotation `vgpu.io/cards` carries it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from device_plugin.core.contract import annotations, units
from device_plugin.core.contract.annotations import MAX_CARDS, MAX_COMPUTE_UNITS, Fields
from device_plugin.core.contract.card_names import unique
from device_plugin.core.contract.grants import CardSize, Slice, read_slices, slice_objects
from device_plugin.core.contract.units import DEFAULT_UNIT_MIB
from device_plugin.core.errors import AnnotationError

# Far more than the kubelet could count; keeps units times MiB exact in a signed 64-bit integer.
MAX_UNITS = 2**20
# More reports than fit into a node's annotation.
MAX_REPORTS = 1024
# Longest namespace and pod name, with the slash.
MAX_NAME = 63 + 1 + 253
# The processes of a pod that vanished may take this long to end before the agent reports them: a forced deletion alone
# takes about 2 s, and an ordinary end, after which nothing lives, costs no write.
AGENT_SECONDS = 1.5
# The allocator waits this long for that report: a slice is to be free within 5 s of its pod's end.
REPORT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Card:
    """One physical accelerator.

    `family` is the resource prefix that asks for it (`hygon.com/dcu`). `units` are its memory units, of about
    `unit_mib` MiB by its node's setting, `core_groups` its core groups of `group_units` compute units each;
    `max_slices` is how many slices the vendor's driver can keep apart. A `cordoned` card gets no new slices; an
    operator sets this, not the node. `known_as` is the name that an agent uses if it is not `uuid`: see card_names.
    Cards of one `hive` are linked by XGMI; it is empty if the card has no such link.
    """

    uuid: str
    family: str
    model: str
    pci: str
    mem_mib: int
    units: int
    compute_units: int
    core_groups: int
    group_units: int
    max_slices: int
    numa: int = -1
    healthy: bool = True
    cordoned: bool = False
    unit_mib: int = DEFAULT_UNIT_MIB
    known_as: str = ""
    hive: str = ""

    @property
    def open(self) -> bool:
        """True if the card may get new slices."""
        return self.healthy and not self.cordoned

    @property
    def size(self) -> CardSize:
        """Memory and number of slices of the whole card."""
        return CardSize(self.mem_mib, self.max_slices)

    def mib(self, unit_count: int) -> int:
        """MiB that `unit_count` memory units of this card grant."""
        return units.units_to_mib(unit_count, self.mem_mib, self.units)


class SliceState(Enum):
    """The state of a container's slices that an agent reports."""

    OUTLIVING = "outliving"
    """The pod is gone, replaced or ended, but processes of it still run: the slices are not free."""
    COVERED = "covered"
    """A mount hides files that the agent mounted into the container: its limits may not hold."""
    UNENFORCED = "unenforced"
    """The container uses a card by the kernel's figures, and the library does not limit it."""
    REFUSED = "refused"
    """The container cannot start, because one of another pod runs on its slices and does not end."""


@dataclass(frozen=True, slots=True)
class ReportedSlice:
    """A report about the slices of one container: in which `state` they are.

    `pod` is the pod's UID, `namespace` and `pod_name` are for texts to people: the pod object may be gone. `end` is
    true if the allocator is to delete the pod: so for REFUSED slices, and for UNENFORCED ones where the enforcement
    mode of the card's family says so.
    """

    pod: str
    namespace: str
    pod_name: str
    container: str
    state: SliceState
    slices: tuple[Slice, ...]
    end: bool = False


@dataclass(frozen=True, slots=True)
class Inventory:
    """The inventory of one node: its cards, whether its agent serves Allocate, and the containers it reports.

    The allocator learns from it when a vanished pod has left its slices. The agent never reports "free": it writes only
    slices that must be held. It sees a pod vanish at about the time the allocator does, waits AGENT_SECONDS for the
    pod's processes to end, and then reports those that still run as OUTLIVING. So the allocator holds the slices of a
    bound pod that vanished without a terminal phase for REPORT_SECONDS, and after that exactly as long as a report
    names them. If agent or API server are down in these seconds, the slices become free in the ledger; the agent's
    PreStartContainer, which asks the kernel, still keeps a successor from starting, and the report comes late.
    """

    cards: tuple[Card, ...]
    serving: bool = True
    slices: tuple[ReportedSlice, ...] = ()

    def named(self, node: str) -> "Inventory":
        """The inventory with cards, and those of its reports, named as the cluster names those of `node`.

        An agent before card_names still calls a card by its PCI address alone, and a grant for it must do so as well.
        Raises AnnotationError if two cards have one name.
        """
        names = {card.uuid: unique(card.uuid, node) for card in self.cards}
        if len(set(names.values())) != len(names):
            raise AnnotationError("inventory: two cards have the same uuid")
        cards = [
            card
            if names[card.uuid] == card.uuid
            else replace(card, uuid=names[card.uuid], known_as=card.uuid)
            for card in self.cards
        ]
        reports = [
            replace(report, slices=tuple(replace(s, card=unique(s.card, node)) for s in report.slices))
            for report in self.slices
        ]
        return replace(self, cards=tuple(cards), slices=tuple(reports))

    def cordon(self, uuids: Collection[str]) -> "Inventory":
        """Returns a copy in which exactly the cards with these uuids are cordoned."""
        cards = [
            card if card.cordoned == (card.uuid in uuids) else replace(card, cordoned=not card.cordoned)
            for card in self.cards
        ]
        return replace(self, cards=tuple(cards))

    def encode(self) -> str:
        """The text of the annotation: one line of JSON, keys in a fixed order, so equal values give equal text.

        Reports that would make it longer than a reader takes are left out, those of outliving slices last: next to 16
        cards there is room for about 200 reports of one slice each. PreStartContainer still waits for a container that
        is left out.
        """
        fields: dict[str, object] = {"serving": self.serving, "cards": [_card_object(c) for c in self.cards]}
        text = annotations.write_object(fields)
        reports = _fitting(self.slices, annotations.MAX_BYTES - len(text) - len(',"slices":[]'))
        return annotations.write_object({**fields, "slices": reports}) if reports else text

    @classmethod
    def decode(cls, text: str) -> "Inventory":
        """The inventory in an annotation's text; unknown keys are ignored. Raises AnnotationError if malformed."""
        fields = annotations.read_object(text, "inventory")
        entries = fields.items("cards", most=MAX_CARDS)
        cards = tuple(_card(Fields(entry, f"inventory: card {i}")) for i, entry in enumerate(entries))
        if len({card.uuid for card in cards}) != len(cards):
            raise AnnotationError("inventory: two cards have the same uuid")
        reports = fields.items("slices", most=MAX_REPORTS) if fields.has("slices") else []
        slices = [_report(Fields(entry, f"inventory: report {i}")) for i, entry in enumerate(reports)]
        known = tuple(report for report in slices if report is not None)
        if len({(report.pod, report.container) for report in known}) != len(known):
            raise AnnotationError("inventory: two reports of one container")
        return cls(cards, fields.flag("serving"), known)


def memory_units(inventories: Mapping[str, Inventory]) -> Mapping[str, Mapping[int, Sequence[str]]]:
    """The sizes in MiB of a memory unit, by card family, each with the names of its nodes; sorted.

    The unit is a setting of each node. If nodes of a family differ, a request means different amounts on them.
    """
    found: dict[str, dict[int, list[str]]] = {}
    for name, inventory in sorted(inventories.items()):
        for family, unit in {(card.family, card.unit_mib) for card in inventory.cards}:
            found.setdefault(family, {}).setdefault(unit, []).append(name)
    return {family: dict(sorted(units.items())) for family, units in sorted(found.items())}


def card_list(text: str) -> frozenset[str]:
    """The uuids of a comma list such as `vgpu.io/cordoned` carries."""
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
    """The reports that fit into `room` characters, outliving slices first, in a fixed order."""
    chosen = []
    for report in sorted(reports, key=lambda r: (r.state is not SliceState.OUTLIVING, r.pod, r.container)):
        entry: dict[str, object] = {
            "pod": report.pod,
            "name": f"{report.namespace}/{report.pod_name}",
            "container": report.container,
            "state": report.state.value,
            "slices": slice_objects(report.slices),
        }
        if report.end:
            entry["end"] = True
        room -= annotations.json_length(entry) + 1
        if room < 0:
            break
        chosen.append(entry)
    return chosen


def _report(fields: Fields) -> ReportedSlice | None:
    """A report, or None if it is of a state that only later agents know."""
    state = fields.text("state")
    if state not in {known.value for known in SliceState}:
        return None
    container = fields.text("container")
    namespace, _, pod_name = fields.text("name", max_length=MAX_NAME).partition("/")
    slices = read_slices(fields.items("slices", most=MAX_CARDS), f"inventory: container {container[:63]}")
    end = fields.has("end") and fields.flag("end")
    return ReportedSlice(fields.text("pod"), namespace, pod_name, container, SliceState(state), slices, end)


def _card(fields: Fields) -> Card:
    mem_mib, unit_count = fields.integer("memMiB", least=1), fields.integer("units", least=1)
    card = Card(
        uuid=fields.text("uuid"),
        family=fields.text("family"),
        model=fields.text("model"),
        pci=fields.text("pci"),
        mem_mib=mem_mib,
        units=unit_count,
        compute_units=fields.integer("computeUnits", least=1),
        core_groups=fields.integer("coreGroups", least=1),
        group_units=fields.integer("groupUnits", least=1),
        max_slices=fields.integer("maxSlices", least=1),
        numa=fields.integer("numa", least=-1),
        healthy=fields.flag("healthy"),
        unit_mib=(
            fields.integer("memUnitMiB", least=1)
            if fields.has("memUnitMiB")
            else units.unit_mib(mem_mib, unit_count)  # an agent before this key
        ),
        hive=fields.text("hive") if fields.has("hive") else "",
    )
    if card.compute_units > MAX_COMPUTE_UNITS or card.core_groups * card.group_units > card.compute_units:
        raise AnnotationError(
            f"inventory: card {card.uuid}: {card.core_groups} core groups of {card.group_units} units"
            f" do not fit {card.compute_units} compute units"
        )
    if card.units > min(card.mem_mib, MAX_UNITS):
        raise AnnotationError(f"inventory: card {card.uuid}: {card.units} memory units of {card.mem_mib} MiB")
    return card
