"""Claims: what the holder of some tickets may have, from its pod's grant, or from our own record of it."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from device_plugin.core.errors import AnnotationError, VgpuError
from device_plugin.core.grants import CardSize, Slice
from device_plugin.core.machine import Holder
from device_plugin.core.pods import Pod
from device_plugin.core.requests import family_of, resource_names
from device_plugin.node.records import Record


class NotNowError(VgpuError):
    """The container cannot start now; the kubelet tries again. `waiting` may help within seconds."""

    def __init__(self, text: str, *, waiting: bool = False) -> None:
        super().__init__(text)
        self.waiting = waiting


@dataclass(frozen=True, slots=True)
class Claim:
    """A container's right to `slices`. `pod` is its pod's UID, `asked` what it asks of the cards' three resources.

    `pod_slices` are those of all containers of the pod on the cards of this one. `sizes` are what these cards had when
    they were granted, by uuid, as far as the grant says.
    """

    pod: str
    namespace: str
    pod_name: str
    container: str
    slices: tuple[Slice, ...]
    pod_slices: tuple[Slice, ...]
    asked: frozenset[str]
    sizes: Mapping[str, CardSize]

    @property
    def key(self) -> tuple[str, str]:
        """Pod UID and container name."""
        return self.pod, self.container


def from_pod(pod: Pod, container: str, resource: str) -> Claim:
    """What the pod's grant gives to this container. Raises NotNowError if there is none to trust."""
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
        pod.uid,
        pod.namespace,
        pod.name,
        container,
        slices,
        _on_cards_of(slices, grant.slices()),
        frozenset(_family(resource)).intersection(limits),
        grant.cards,
    )


def from_records(
    holder: Holder, resource: str, tickets: frozenset[str], records: Iterable[Record]
) -> Claim | None:
    """What the container of these tickets had at its last start; None if nobody can be sure which that was.

    Only for a pod that lives, while the API server does not answer: the kubelet would hear from that server, too, of
    another pod with the same name.
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
    return Claim(
        record.pod,
        record.namespace,
        record.pod_name,
        record.container,
        record.slices,
        _on_cards_of(record.slices, others),
        frozenset(record.names),
        {},
    )


def carrying(resource: str, asked: Container[str]) -> str:
    """Of the resources that a container has `asked`, the first of (whole, mem, cores): it carries the slices."""
    return next((each for each in _family(resource) if each in asked), resource)


def of_family(resource: str, tickets: Mapping[str, frozenset[str]]) -> Mapping[str, frozenset[str]]:
    """The tickets of this resource and of those that go with it; a container may hold other plugins' as well."""
    return {each: tickets[each] for each in _family(resource) if each in tickets}


def _family(resource: str) -> Iterable[str]:
    return resource_names(family_of(resource))


def _on_cards_of(slices: Iterable[Slice], candidates: Iterable[Slice]) -> tuple[Slice, ...]:
    cards = {slice_.card for slice_ in slices}
    return tuple(slice_ for slice_ in candidates if slice_.card in cards)
