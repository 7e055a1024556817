"""Tickets: the device IDs that the kubelet counts. Only their number counts: no ticket belongs to a certain card.

A ticket ID is the end of the resource's name and a number (dcu-mem-17). So it stays the same over restarts, and is far
shorter than the kubelet's 63 characters.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from device_plugin.core import percent
from device_plugin.core.contract import units
from device_plugin.core.contract.cards import Card
from device_plugin.core.requests import family_of, resource_names

# Most tickets of a resource: a kubelet needs 1.9 s after a restart for 4,000 IDs, and 28.6 s for 16,000.
MOST_TICKETS = 4096


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of a card family, and the number of tickets (device IDs) that the kubelet gets for it."""

    name: str
    count: int

    @property
    def tail(self) -> str:
        """The part of the resource's name after the slash, such as `dcu-mem`."""
        return self.name.rpartition("/")[2]

    @property
    def family(self) -> str:
        """The family's resource prefix, such as `hygon.com/dcu`."""
        return family_of(self.name)

    def tickets(self) -> list[str]:
        """All tickets (device IDs) of the resource, in order."""
        return [f"{self.tail}-{i}" for i in range(self.count)]

    def is_ticket(self, device: str) -> bool:
        """True if a device ID has the form of this resource's tickets: `tail`, a hyphen, a number (`dcu-mem-17`)."""
        tail, _, number = device.rpartition("-")
        return tail == self.tail and number.isdecimal()


def resources(cards: Iterable[Card]) -> tuple[Resource, ...]:
    """The resources of these cards, with at most MOST_TICKETS tickets (device IDs) each."""
    return tuple(Resource(name, min(count, MOST_TICKETS)) for name, count, _ in _counts(cards))


def not_advertised(cards: Iterable[Card]) -> Iterator[str]:
    """A text for each resource with more than MOST_TICKETS tickets: how many are advertised, and what to do.

    Tickets are device IDs. The agent does not choose a larger memory unit by itself, because one ticket would then mean
    another amount of memory on its node.
    """
    for name, count, members in _counts(cards):
        if count > MOST_TICKETS:
            yield (
                f"{name}: {MOST_TICKETS} of {count} are advertised, more slow the kubelet down: {_cure(name, members)}"
            )


def _cure(resource: str, cards: Collection[Card]) -> str:
    if not any(resource == resource_names(card.family)[1] for card in cards):
        return "leave some cards to others (excludeCards)"
    unit = max(card.unit_mib for card in cards)
    while sum(units.unit_count(card.mem_mib, unit) for card in cards) > MOST_TICKETS:
        unit *= 2
    return f"set memUnitMiB to {unit} on all nodes"


def _counts(cards: Iterable[Card]) -> Iterator[tuple[str, int, Collection[Card]]]:
    """Each resource, the number of its tickets (device IDs) before the limit MOST_TICKETS, and its cards."""
    families: dict[str, list[Card]] = {}
    for card in cards:
        families.setdefault(card.family, []).append(card)
    for family, members in sorted(families.items()):
        for name in resource_names(family):
            yield name, sum(size(card, name) for card in members), members


def size(card: Card, resource: str) -> int:
    """The number of tickets (device IDs) of `resource` for this card."""
    counts = (1, card.units, card.core_groups, percent.MOST, card.max_slices)
    return dict(zip(resource_names(card.family), counts, strict=True)).get(resource, 0)


def unhealthy(
    resource: Resource, sick: Iterable[Card], granted: Mapping[str, Collection[str]], held: Collection[str]
) -> frozenset[str]:
    """The tickets (device IDs that the kubelet counts) to report as unhealthy because of the sick cards.

    A ticket belongs to no card. For each sick card all tickets of its containers are reported, and free tickets in
    addition until both together are as many as the card has. `granted` has the tickets of the containers on a card, by
    the card's uuid; `held` are all tickets that the kubelet has given to containers. If other tickets were unhealthy,
    the kubelet would fail pods on healthy cards.
    """
    bad: set[str] = set()
    free = [ticket for ticket in reversed(resource.tickets()) if ticket not in held]
    for card in sick:
        own = set(granted.get(card.uuid, ()))
        missing = max(0, size(card, resource.name) - len(own))
        bad |= own | set(free[:missing])
        free = free[missing:]
    return frozenset(bad)


def cdi_name(resource: str, tickets: Collection[str]) -> str:
    """The name of the CDI device for a set of tickets (device IDs): `dcu-mem-` and a hash, whatever their order."""
    digest = hashlib.sha256(",".join(sorted(tickets)).encode()).hexdigest()[:16]
    return f"{resource.rpartition('/')[2]}-{digest}"
