"""Holders: the containers that hold tickets (device IDs of the kubelet), as the kubelet shows them."""

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from device_plugin.core.machine import Holder
from device_plugin.core.requests import family_of, resource_names
from device_plugin.node.ports import PodResources

_Seen = Mapping[tuple[str, frozenset[str]], Sequence[Holder]]


class Holders:
    """Holds the containers that have tickets (device IDs), as the kubelet last showed them. Safe from any thread.

    The kubelet shows all containers in one answer, so one question serves many containers that start together. Once the
    holder of some tickets is known, the kubelet is not asked for it again until Allocate gives out one of these
    tickets.
    """

    def __init__(self, kubelet: PodResources) -> None:
        self._kubelet = kubelet
        self._lock = threading.Lock()
        self._allocated = 0
        self._last: dict[tuple[str, str], int] = {}
        self._looked = -1
        self._seen: _Seen = {}

    def allocate(self, resource: str, tickets: Collection[str]) -> None:
        """Note that Allocate gave out these tickets (device IDs): the holder known so far may be wrong from now on."""
        with self._lock:
            self._allocated += 1
            self._last.update(dict.fromkeys(((resource, ticket) for ticket in tickets), self._allocated))

    def of(self, resource: str, tickets: frozenset[str], *, anew: bool) -> Sequence[Holder]:
        """The containers that hold exactly these tickets (device IDs) of `resource`.

        Each container has all its tickets of that card family here, and no other tickets. The first resource of a
        container is its carrier: the CDI device of this resource brings everything into the container. With `anew` the
        kubelet is asked even if the holder is known. The kubelet may show a container before it shows all of the
        container's tickets. Raises KubeletError.
        """
        with self._lock:
            begin = self._allocated
            known = self._seen.get((resource, tickets), ())
            stale = any(self._last.get((resource, ticket), 0) > self._looked for ticket in tickets)
        # No holder, or two: the kubelet may have given the tickets to another container without an Allocate.
        if len(known) != 1 or stale or anew:
            seen = _by_tickets(self._kubelet.list())
            with self._lock:
                if begin >= self._looked:
                    self._looked, self._seen = begin, seen
            known = seen.get((resource, tickets), ())
        family = resource_names(family_of(resource))
        return [
            replace(each, tickets={name: each.tickets[name] for name in family if name in each.tickets})
            for each in known
        ]


def _by_tickets(holders: Sequence[Holder]) -> _Seen:
    found: defaultdict[tuple[str, frozenset[str]], list[Holder]] = defaultdict(list)
    for holder in holders:
        for resource, tickets in holder.tickets.items():
            found[resource, tickets].append(holder)
    return found
