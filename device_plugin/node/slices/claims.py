"""Claims: which container holds some tickets, what it may have, and which other container is in its way.

The container's slices are in its pod's grant, or in our own record of it.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from device_plugin.core.errors import AnnotationError, VgpuError
from device_plugin.core.grants import CardSize, Slice
from device_plugin.core.machine import Holder
from device_plugin.core.masks import core_mask
from device_plugin.core.pods import Pod
from device_plugin.core.requests import family_of, resource_names
from device_plugin.node.ports import PodResources
from device_plugin.node.slices.records import Record

_Seen = Mapping[tuple[str, frozenset[str]], Sequence[Holder]]


class NotNowError(VgpuError):
    """The container cannot start now; the kubelet tries again. `waiting`: the cause may be gone within seconds.

    Cure: wait some minutes; then see the log of the node's agent, or delete the pod, so that it gets another slice.
    """

    def __init__(self, text: str, *, waiting: bool = False) -> None:
        super().__init__(text)
        self.waiting = waiting


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


@dataclass(frozen=True, slots=True)
class Claim:
    """A container's right to slices: the `record` that it gets, without tickets, CDI names and vendor ids.

    `asked` is what it asks of the cards' resources. `pod_slices` are those of all containers of the pod on the
    cards of this one. `sizes` are what these cards had when they were granted, by uuid, as far as the grant says.
    """

    record: Record
    pod_slices: tuple[Slice, ...]
    asked: frozenset[str]
    sizes: Mapping[str, CardSize]


def from_pod(pod: Pod, container: str, resource: str) -> Claim:
    """The claim of this container by the pod's grant. Raises NotNowError if there is no valid grant."""
    where = f"pod {pod.namespace}/{pod.name}"
    try:
        grant = pod.grant()
    except AnnotationError as error:
        raise NotNowError(f"{where}: {error}") from error
    if grant is None:
        raise NotNowError(
            f"{where} holds no grant: it was not placed by the allocator; delete it and create it again"
        )
    if container not in grant.containers:
        raise NotNowError(f"{where}: its grant gives nothing to container {container}")
    slices = grant.containers[container]
    limits = next((c.limits for c in pod.containers if c.name == container), {})
    return Claim(
        Record(pod.uid, pod.namespace, pod.name, container, slices),
        _on_cards_of(slices, grant.slices()),
        frozenset(_family(resource)).intersection(limits),
        grant.cards,
    )


def from_records(
    holder: Holder, resource: str, tickets: frozenset[str], records: Iterable[Record]
) -> Claim | None:
    """The claim that the container of these tickets had at its last start; None if not exactly one record matches.

    It is used only for a pod with processes, while the API server does not answer: then the kubelet cannot know of
    another pod of that name either.
    """
    records = tuple(records)
    who = holder.namespace, holder.pod, holder.container
    same = [
        record
        for record in records
        if (record.namespace, record.pod_name, record.container) == who
        and frozenset(record.tickets.get(resource, ())) == tickets
    ]
    if len(same) != 1:
        return None
    (record,) = same
    others = [slice_ for other in records if other.pod == record.pod for slice_ in other.slices]
    claimed = replace(record, names={}, tickets={}, vendor_ids={})
    return Claim(claimed, _on_cards_of(record.slices, others), frozenset(record.names), {})


def carrying(resource: str, asked: Container[str]) -> str:
    """The first resource in the order of SUFFIXES that a container has `asked` for: it carries the slices."""
    return next((each for each in _family(resource) if each in asked), resource)


def of_family(resource: str, tickets: Mapping[str, frozenset[str]]) -> Mapping[str, frozenset[str]]:
    """The tickets of all resources of the card family of `resource`; tickets of other plugins are left out."""
    return {each: tickets[each] for each in _family(resource) if each in tickets}


def _family(resource: str) -> Iterable[str]:
    return resource_names(family_of(resource))


def _on_cards_of(slices: Iterable[Slice], candidates: Iterable[Slice]) -> tuple[Slice, ...]:
    cards = {slice_.card for slice_ in slices}
    return tuple(slice_ for slice_ in candidates if slice_.card in cards)


def blocking_record(
    pod: str,
    wanted: Sequence[Slice],
    sizes: Mapping[str, CardSize],
    records: Iterable[Record],
    alive: Callable[[str], bool],
) -> Record | None:
    """A record of another pod that is still `alive` and clashes with the `wanted` slices; None if there is none.

    A slice is free when its container is gone, whatever the ledger says: the containers of a force-deleted pod can
    outlive its object, and a successor that the allocator has already placed there must wait for them.

    `wanted` are the slices of all containers of the pod: each alone may fit where together they do not. Two slices
    clash if they share a core group, or if all slices of a card exceed its memory or its slice count. `sizes` are what
    the cards may hold, by uuid; of a card without one only core groups are compared.
    """
    others = [record for record in records if record.pod != pod]
    for uuid in sorted({s.card for s in wanted}):
        own = [s for s in wanted if s.card == uuid]
        beside = [(r, s) for r in others for s in r.slices if s.card == uuid]
        cores = core_mask(core for s in own for core in s.cores)
        for record, held in beside:
            if core_mask(held.cores) & cores and alive(record.pod):
                return record
        # `alive` reads cgroups, so it is called only where the answer matters.
        size = sizes.get(uuid)
        if size is not None and _exceeds(size, own, beside):
            beside = [(r, s) for r, s in beside if alive(r.pod)]
            if beside and _exceeds(size, own, beside):
                return beside[-1][0]
    return None


def _exceeds(size: CardSize, own: Sequence[Slice], beside: Sequence[tuple[Record, Slice]]) -> bool:
    memory = sum(s.mem_mib for s in own) + sum(held.mem_mib for _, held in beside)
    return memory > size.mem_mib or len(own) + len(beside) > size.max_slices
