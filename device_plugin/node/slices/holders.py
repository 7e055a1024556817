"""Holders: the containers that hold tickets, as the kubelet shows them."""

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from device_plugin.core.machine import Holder
from device_plugin.node.ports import PodResources

_Seen = Mapping[tuple[str, frozenset[str]], Sequence[Holder]]


class Holders:
    """The containers that hold tickets, as the kubelet last showed them. Safe from any thread.

    The kubelet shows all containers at once, so one look answers for many that start together. The shown holder of
    some tickets is believed until Allocate gives one of them out again, and while only one container holds them.
    """

    def __init__(self, kubelet: PodResources) -> None:
        self._kubelet = kubelet
        self._lock = threading.Lock()
        self._allocated = 0
        self._last: dict[tuple[str, str], int] = {}
        self._looked = -1
        self._seen: _Seen = {}

    def allocate(self, resource: str, tickets: Collection[str]) -> None:
        """Note an Allocate: from now on another container may hold these tickets."""
        with self._lock:
            self._allocated += 1
            self._last.update(dict.fromkeys(((resource, ticket) for ticket in tickets), self._allocated))

    def of(self, resource: str, tickets: frozenset[str], *, anew: bool) -> Sequence[Holder]:
        """The containers that hold exactly these tickets; with `anew` the kubelet is asked even if they are known.

        A container may be shown before all of its resources are. Raises KubeletError.
        """
        with self._lock:
            begin = self._allocated
            known = self._seen.get((resource, tickets), ())
            stale = any(self._last.get((resource, ticket), 0) > self._looked for ticket in tickets)
        # No holder, or two: the kubelet may have given the tickets to another container without an Allocate.
        if len(known) == 1 and not (stale or anew):
            return known
        seen = _by_tickets(self._kubelet.list())
        with self._lock:
            if begin >= self._looked:
                self._looked, self._seen = begin, seen
        return seen.get((resource, tickets), ())


def _by_tickets(holders: Sequence[Holder]) -> _Seen:
    found: defaultdict[tuple[str, frozenset[str]], list[Holder]] = defaultdict(list)
    for holder in holders:
        for resource, tickets in holder.tickets.items():
            found[resource, tickets].append(holder)
    return found
