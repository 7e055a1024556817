"""Admission: reads which slices a starting container is to have, and decides whether it may have them now.

The slices are in its pod's grant; while the API server does not answer, in the record of the container's previous
start. The decision depends on the cards, records and pods of this moment. No file is written here.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.claims import AllocatedDevice
from device_plugin.core.contract.grants import CardSize, Grant, Slice, largest
from device_plugin.core.contract.masks import core_mask
from device_plugin.core.errors import AnnotationError, VgpuError
from device_plugin.core.machine import Holder
from device_plugin.core.pods import Pod
from device_plugin.core.requests import family_of, resource_names
from device_plugin.kube.errors import ApiError, UnknownError
from device_plugin.node.api import NodeApi
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import CLAIM, CONFIG, Record, Records
from device_plugin.node.slices.tickets import cdi_name
from device_plugin.node.vendors.local_card import LocalCard

Tickets = Mapping[str, frozenset[str]]
"""The tickets that a container holds, by resource."""


class NotNowError(VgpuError):
    """The container cannot start now; the kubelet tries again. `waiting` is true if the cause may end within seconds.

    Cure: wait some minutes; then see the log of the node's agent, or delete the pod, so that it gets another slice.
    """

    def __init__(self, text: str, *, waiting: bool = False) -> None:
        super().__init__(text)
        self.waiting = waiting


class TakenError(NotNowError):
    """A container of another pod still runs on the slices. `sizes` are the card sizes given to `blocking_record`.

    Cure: wait: the pod is deleted if that lasts, and its owner creates another one.
    """

    def __init__(self, text: str, sizes: Mapping[str, CardSize]) -> None:
        super().__init__(text, waiting=True)
        self.sizes = sizes


@dataclass(frozen=True, slots=True)
class Wanted:
    """The slices that a container must get, and the tickets of their card family that the kubelet gave the container.

    Tickets are device IDs. `pod_slices` are the slices of the whole pod on the cards of this container. `sizes` are the
    sizes that these cards had at the time of the grant, by uuid; empty where the grant does not name them. `claim` is
    the UID of the container's ResourceClaim, and `devices` are the claim's devices; both are empty without a claim.
    """

    pod: str
    namespace: str
    pod_name: str
    container: str
    slices: tuple[Slice, ...]
    tickets: Tickets
    pod_slices: tuple[Slice, ...]
    sizes: Mapping[str, CardSize]
    claim: str = ""
    devices: tuple[AllocatedDevice, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Pod UID and container name."""
        return self.pod, self.container

    @property
    def names(self) -> Mapping[str, str]:
        """The names of the container's CDI devices, by resource; `claim-<uid>` for a ResourceClaim."""
        if self.claim:
            return {CLAIM: f"claim-{self.claim}"}
        return {resource: cdi_name(resource, held) for resource, held in self.tickets.items()}

    def record(self, vendor_ids: Mapping[str, int]) -> Record:
        """The agent's record (state) of the container with these slices.

        `vendor_ids` are the ids by which drivers distinguish the slices, by card uuid.
        """
        return Record(
            self.pod, self.namespace, self.pod_name, self.container, self.slices, self.names,
            {resource: tuple(sorted(held)) for resource, held in self.tickets.items()}, vendor_ids,
            self.claim, self.devices,
        )  # fmt: skip


def read(holder: Holder, api: NodeApi, records: Records, pods: NodePods) -> Wanted:
    """The container's slices by its pod's grant; if the API server does not answer, by the container's record (state).

    Raises NotNowError if neither gives the slices now.
    """
    try:
        pod = api.pod(holder.namespace, holder.pod)
    except ApiError as error:
        silent = isinstance(error, UnknownError)
        known = _from_records(holder, records, pods) if silent else None
        if known is None:
            raise NotNowError(f"pod {holder.namespace}/{holder.pod}: {error}", waiting=True) from error
        return known
    return from_pod(pod, holder.container, holder.tickets)


def from_pod(pod: Pod, container: str, tickets: Tickets) -> Wanted:
    """The slices that the pod's grant gives to the container.

    Raises NotNowError without a valid grant for the container, or while tickets (the kubelet's device IDs) are missing.
    """
    grant = _grant(pod, "it was not placed by the allocator; delete it and create it again")
    if container not in grant.containers:
        raise NotNowError(f"{_where(pod)}: its grant gives nothing to container {container}")
    claim = grant.claims.get(container, "")
    if claim and tickets:
        raise NotNowError(
            f"{_where(pod)}: its grant gives container {container} slices by a ResourceClaim and none by its limits:"
            " write one of them"
        )
    slices = grant.containers[container]
    limits = next((c.limits for c in pod.containers if c.name == container), {})
    family = {each for resource in tickets for each in resource_names(family_of(resource))}
    _wait_for_tickets(family.intersection(limits), tickets)
    return Wanted(
        pod.uid, pod.namespace, pod.name, container, slices, tickets, _on_cards_of(slices, grant.slices()),
        grant.cards, claim,
    )  # fmt: skip


def from_claim(pod: Pod, claim: str) -> Wanted:
    """The slices that the pod's grant gives by the ResourceClaim `claim`. Raises NotNowError if it gives none."""
    grant = _grant(pod, "it was placed by another scheduler: write schedulerName: vgpu-scheduler")
    containers = [container for container, uid in grant.claims.items() if uid == claim]
    if len(containers) != 1:
        raise NotNowError(
            f"{_where(pod)}: its grant gives nothing by the ResourceClaim {claim}: delete the pod and create it again"
        )
    return from_pod(pod, containers[0], {})


def _where(pod: Pod) -> str:
    return f"pod {pod.namespace}/{pod.name}"


def _grant(pod: Pod, without: str) -> Grant:
    """The pod's grant. Raises NotNowError if it is invalid or missing; `without` is the text if it is missing."""
    try:
        grant = pod.grant()
    except AnnotationError as error:
        raise NotNowError(f"{_where(pod)}: {error}") from error
    if grant is None:
        raise NotNowError(f"{_where(pod)} holds no grant: {without}")
    return grant


def _from_records(holder: Holder, records: Records, pods: NodePods) -> Wanted | None:
    """The container's slices at its previous start, read from its record while the API server does not answer.

    A record is the agent's state of a container. Returns None unless exactly one record has the container's names and
    tickets (device IDs), its files were written, and its pod has processes. While a pod has processes, the kubelet
    knows no other pod of its name. Raises NotNowError while tickets of the previous start are missing.
    """
    every = records.all()
    named = holder.namespace, holder.pod, holder.container
    carrier, held = next(iter(holder.tickets.items()))
    same = [
        record
        for record in every
        if (record.namespace, record.pod_name, record.container) == named
        and frozenset(record.tickets.get(carrier, ())) == held
    ]
    if len(same) != 1:
        return None
    (last,) = same
    if not pods.running(last.pod) or not (records.folder(*last.key) / CONFIG).exists():
        return None
    _wait_for_tickets(last.names.keys(), holder.tickets)
    others = [slice_ for other in every if other.pod == last.pod for slice_ in other.slices]
    return Wanted(
        last.pod, last.namespace, last.pod_name, last.container, last.slices, holder.tickets,
        _on_cards_of(last.slices, others), {},
    )  # fmt: skip


def _wait_for_tickets(asked: Collection[str], tickets: Tickets) -> None:
    """Raise NotNowError if `tickets` lacks one of the `asked` resources, because the kubelet does not show it yet.

    `tickets` has the container's tickets (device IDs) by resource.
    """
    if missing := set(asked) - tickets.keys():
        raise NotNowError(f"the kubelet does not show its {min(missing)} yet", waiting=True)


def _on_cards_of(slices: Iterable[Slice], candidates: Iterable[Slice]) -> tuple[Slice, ...]:
    cards = {slice_.card for slice_ in slices}
    return tuple(slice_ for slice_ in candidates if slice_.card in cards)


def admit(
    wanted: Wanted, cards: Mapping[str, LocalCard], records: Records, pods: NodePods
) -> Sequence[Record]:
    """Decide whether the container may have its slices now; returns outdated records, to be removed before it starts.

    A record is the agent's state of a container. A record of another container is outdated if it has one of this
    container's CDI names: a runtime that still has the old spec of that name must not find the old files. The
    container's own record is outdated if its CDI names have changed, as when a kubelet that lost its checkpoint gives
    other tickets (device IDs). The caller admits no other container until this one is recorded. Raises TakenError if
    another container is known to use the slices, and NotNowError if another container may still use the slices or the
    tickets.
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
    outdated = [each for each in records.all() if each.key != wanted.key and same & set(each.names.values())]
    for other in outdated:
        if other.pod != wanted.pod and pods.holding(other.pod):
            raise NotNowError(f"its tickets are still used by {who(other)}: waiting", waiting=True)
    return [*outdated, before] if before is not None and before.names != names else outdated


def who(holder: Record | Wanted) -> str:
    """The container, its pod and the pod's UID, as messages name them."""
    return f"container {holder.container} of pod {holder.namespace}/{holder.pod_name} ({holder.pod})"


def _own_cards(wanted: Wanted, cards: Mapping[str, LocalCard]) -> Mapping[str, Card]:
    """The cards of the pod's slices, by uuid. Raises NotNowError if a card cannot serve its slices now."""
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
    """By card uuid, the larger one of the card's size now and its size at the time of the grant.

    Raises NotNowError if the slices need more memory than that.
    """
    sizes = {uuid: largest((card.size, wanted.sizes.get(uuid))) for uuid, card in cards.items()}
    for uuid, size in sizes.items():
        if sum(s.mem_mib for s in wanted.pod_slices if s.card == uuid) > size.mem_mib:
            raise NotNowError(f"its grant is larger than the card {uuid}: delete the pod")
    return sizes


def _wait_for_damaged(
    wanted: Wanted, cards: Mapping[str, LocalCard], records: Records, pods: NodePods
) -> None:
    """Raise NotNowError while a container whose record (state on disk) is damaged may hold slices of these cards.

    A damaged record does not show which slices the container holds, so its cards are closed as a whole.
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
    """The record of a container of another pod that still blocks the `wanted` slices; None if no record does.

    A record is the agent's state of a container. It blocks only while its pod is `alive`; with a claim it blocks until
    it is removed, because pods that share the claim may use its slices (claim_users.py). A slice is free when its
    container is gone, whatever the ledger says: the containers of a force-deleted pod can outlive its object. A pod
    that the allocator has placed there must wait for these containers.

    `wanted` are the slices of all containers of `pod`: each may fit alone although all together do not fit. A record
    clashes with them if they share a core group, or if all slices of a card exceed its memory or its slice count.
    `sizes` are the sizes of the cards, by uuid; on a card without a size, only core groups are compared.
    """
    others = [record for record in records if record.pod != pod]
    for uuid in sorted({s.card for s in wanted}):
        own = [s for s in wanted if s.card == uuid]
        beside = [(r, s) for r in others for s in r.slices if s.card == uuid]
        cores = core_mask(core for s in own for core in s.cores)
        for record, held in beside:
            if core_mask(held.cores) & cores and (record.claim or alive(record.pod)):
                return record
        # `alive` reads cgroups, so it is called only where the answer matters.
        size = sizes.get(uuid)
        if size is not None and _exceeds(size, own, beside):
            beside = [(r, s) for r, s in beside if r.claim or alive(r.pod)]
            if beside and _exceeds(size, own, beside):
                return beside[-1][0]
    return None


def _exceeds(size: CardSize, own: Sequence[Slice], beside: Sequence[tuple[Record, Slice]]) -> bool:
    memory = sum(s.mem_mib for s in own) + sum(held.mem_mib for _, held in beside)
    return memory > size.mem_mib or len(own) + len(beside) > size.max_slices
