"""Claims: which slices a container is to have, and whether it may have them now.

Its slices are in its pod's grant, or in our own record of it. A start is judged by the cards, records and pods of this
moment; nothing is written here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.grants import CardSize, Slice, largest
from device_plugin.core.contract.masks import core_mask
from device_plugin.core.errors import AnnotationError, VgpuError
from device_plugin.core.machine import Holder
from device_plugin.core.pods import Pod
from device_plugin.core.requests import family_of, resource_names
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import Record, Records
from device_plugin.node.slices.tickets import cdi_name
from device_plugin.node.vendors.local_card import LocalCard

Tickets = Mapping[str, frozenset[str]]
"""The tickets that a container holds, by resource."""


class NotNowError(VgpuError):
    """The container cannot start now; the kubelet tries again. `waiting`: the cause may be gone within seconds.

    Cure: wait some minutes; then see the log of the node's agent, or delete the pod, so that it gets another slice.
    """

    def __init__(self, text: str, *, waiting: bool = False) -> None:
        super().__init__(text)
        self.waiting = waiting


class TakenError(NotNowError):
    """A container of another pod still runs on the slices. `sizes` are those of `blocking_record`.

    Cure: wait: the pod is deleted if that lasts, and its owner creates another one.
    """

    def __init__(self, text: str, sizes: Mapping[str, CardSize]) -> None:
        super().__init__(text, waiting=True)
        self.sizes = sizes


@dataclass(frozen=True, slots=True)
class Wanted:
    """The slices that a container is to have, for the `tickets` of the cards' family that it holds.

    `asked` are the resources of that family which it asks for. `pod_slices` are the slices of all containers of the pod
    on the cards of this one. `sizes` are the sizes of these cards when they were granted, by uuid, where the grant has
    them.
    """

    pod: str
    namespace: str
    pod_name: str
    container: str
    slices: tuple[Slice, ...]
    tickets: Tickets
    asked: frozenset[str]
    pod_slices: tuple[Slice, ...]
    sizes: Mapping[str, CardSize]

    @property
    def key(self) -> tuple[str, str]:
        """Pod UID and container name."""
        return self.pod, self.container

    @property
    def names(self) -> Mapping[str, str]:
        """Its CDI names by resource."""
        return {resource: cdi_name(resource, held) for resource, held in self.tickets.items()}

    def record(self, vendor_ids: Mapping[str, int]) -> Record:
        """The record of the container that has these slices. `vendor_ids` are the slices' ids by card uuid."""
        return Record(
            self.pod, self.namespace, self.pod_name, self.container, self.slices, self.names,
            {resource: tuple(sorted(held)) for resource, held in self.tickets.items()}, vendor_ids,
        )  # fmt: skip


def from_pod(pod: Pod, container: str, tickets: Tickets) -> Wanted:
    """The slices of this container by the pod's grant. Raises NotNowError if there is no valid grant."""
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
    family = {each for resource in tickets for each in _family(resource)}
    return Wanted(
        pod.uid, pod.namespace, pod.name, container, slices, tickets, frozenset(family.intersection(limits)),
        _on_cards_of(slices, grant.slices()), grant.cards,
    )  # fmt: skip


def from_records(holder: Holder, tickets: Tickets, records: Iterable[Record]) -> Wanted | None:
    """The slices that the container of these tickets had at its last start; None if not exactly one record matches.

    It is used only for a pod with processes, while the API server does not answer: then the kubelet cannot know of
    another pod of that name either.
    """
    records = tuple(records)
    named = holder.namespace, holder.pod, holder.container
    carrier, held = next(iter(tickets.items()))
    same = [
        record
        for record in records
        if (record.namespace, record.pod_name, record.container) == named
        and frozenset(record.tickets.get(carrier, ())) == held
    ]
    if len(same) != 1:
        return None
    (last,) = same
    others = [slice_ for other in records if other.pod == last.pod for slice_ in other.slices]
    return Wanted(
        last.pod, last.namespace, last.pod_name, last.container, last.slices, tickets, frozenset(last.names),
        _on_cards_of(last.slices, others), {},
    )  # fmt: skip


def of_family(resource: str, tickets: Tickets) -> Tickets:
    """The tickets of all resources of the card family of `resource`; tickets of other plugins are left out.

    The first of them is the carrier, whose CDI device brings everything into the container.
    """
    return {each: tickets[each] for each in _family(resource) if each in tickets}


def _family(resource: str) -> Iterable[str]:
    return resource_names(family_of(resource))


def _on_cards_of(slices: Iterable[Slice], candidates: Iterable[Slice]) -> tuple[Slice, ...]:
    cards = {slice_.card for slice_ in slices}
    return tuple(slice_ for slice_ in candidates if slice_.card in cards)


def admit(
    wanted: Wanted, cards: Mapping[str, LocalCard], records: Records, pods: NodePods
) -> Sequence[Record]:
    """Decide that the container may have its slices now; returns the records that have to be removed first.

    These are of other containers that had one of its CDI names, so that a stale spec of it points at nothing, and its
    own one if it has other names: a kubelet that lost its checkpoint gives other tickets. The caller lets no other
    container be admitted before this one is recorded. Raises NotNowError while another container may still use the
    slices or the tickets, TakenError if it is known to use the slices.
    """
    own = _own_cards(wanted, cards)
    before, names = records.get(*wanted.key), wanted.names
    sizes: Mapping[str, CardSize] = {}
    # A container that held these slices before was granted them along with all others, whatever its cards report now.
    if before is None or before.slices != wanted.slices:
        sizes = _sizes(wanted, own)
        _wait_for_damaged(wanted, cards, records, pods)
    blocking = blocking_record(wanted.pod, wanted.pod_slices, sizes, records.all(), pods.holding)
    if blocking is not None:
        gone = "" if pods.active(blocking.pod) else ", which is deleted or has ended,"
        raise TakenError(
            f"{who(blocking)}{gone} still runs on this slice: waiting until its processes have ended", sizes
        )
    same = set(names.values())
    others = [each for each in records.all() if each.key != wanted.key and same & set(each.names.values())]
    for other in others:
        if other.pod != wanted.pod and pods.holding(other.pod):
            raise NotNowError(f"its tickets are still used by {who(other)}: waiting", waiting=True)
    return [*others, before] if before is not None and before.names != names else others


def who(holder: Record | Wanted) -> str:
    """The container in messages."""
    return f"container {holder.container} of pod {holder.namespace}/{holder.pod_name} ({holder.pod})"


def _own_cards(wanted: Wanted, cards: Mapping[str, LocalCard]) -> Mapping[str, Card]:
    """The cards of the slices, by uuid. Raises NotNowError if one cannot serve them now."""
    found: dict[str, Card] = {}
    for s in wanted.pod_slices:
        local = cards.get(s.card)
        if local is None:
            raise NotNowError(
                f"its grant names the card {s.card[:63]}, which this node does not offer: delete the pod"
            )
        card = found[s.card] = local.card
        if not card.healthy:
            raise NotNowError(
                f"its card {s.card} is unhealthy: see the events of the node, or delete the pod"
            )
        if s.cores[0] >= card.core_groups:
            raise NotNowError(
                f"the card {s.card} now has {card.core_groups} core groups, and none of those in the grant:"
                " delete the pod"
            )
    return found


def _sizes(wanted: Wanted, cards: Mapping[str, Card]) -> Mapping[str, CardSize]:
    """The sizes that count for the slices: a card may report less than when it was granted. Raises NotNowError."""
    sizes = {uuid: largest((card.size, wanted.sizes.get(uuid))) for uuid, card in cards.items()}
    for uuid, size in sizes.items():
        if sum(s.mem_mib for s in wanted.pod_slices if s.card == uuid) > size.mem_mib:
            raise NotNowError(f"its grant is larger than the card {uuid}: delete the pod")
    return sizes


def _wait_for_damaged(
    wanted: Wanted, cards: Mapping[str, LocalCard], records: Records, pods: NodePods
) -> None:
    """Raise NotNowError while a container whose record is damaged may hold any of the slices.

    Which these are is not known, only the cards.
    """
    for (pod, container), damaged in records.damaged().items():
        shared = {s.card for s in wanted.slices} & damaged.closed(cards)
        if pod != wanted.pod and shared and pods.holding(pod):
            raise NotNowError(
                f"the record of container {container} of pod {pod} is damaged, so card {min(shared)} gets no new"
                " slices until it is made again or its processes end",
                waiting=True,
            )


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
