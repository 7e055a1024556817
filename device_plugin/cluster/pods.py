"""What is known of one pod, from whatever source, in whatever order it comes."""

from collections.abc import Collection
from dataclasses import dataclass, fields
from operator import attrgetter

from device_plugin.cluster.reservations import Reservation
from device_plugin.core import annotations
from device_plugin.core.cards import Inventory
from device_plugin.core.errors import AnnotationError
from device_plugin.core.grants import Grant
from device_plugin.core.pods import Pod


@dataclass(slots=True)
class Known:
    """A pod, whether the watch has shown it, and when there was news of it."""

    pod: Pod
    watched: bool
    since: float


_accounted = attrgetter(*({field.name for field in fields(Pod)} - {"phase", "bound", "deleting"}))


def concerns_us(pod: Pod, resources: Collection[str]) -> bool:
    """True if a container asks for one of `resources`, or the pod carries a grant."""
    asks = any(name in resources for container in pod.containers for name in container.limits)
    return asks or bool(pod.annotation(annotations.GRANT))


def later(known: Pod, news: Pod) -> Pod:
    """The later of two views of one pod: a binding and an end are never taken back, so old news cannot free a slice."""
    if (known.node and not news.node) or (known.ended and not news.ended):
        return known
    return news


def alike(one: Pod, other: Pod) -> bool:
    """True if two views of one pod account alike: most of its news, such as that it runs now, makes no difference."""
    leaving = not other.node and one.deleting != other.deleting
    return one.ended == other.ended and not leaving and _accounted(one) == _accounted(other)


def sound_grant(pod: Pod, inventory: Inventory | None, reserved: Reservation | None) -> Grant | None:
    """The grant of a bound pod, or None if it has none. Raises AnnotationError if it cannot be true.

    A card that the inventory does not show is no fault: it may come back, and then the slice is held. What we reserved
    need not be read if it is written as it was.
    """
    ours = reserved.grant if reserved is not None else None
    if ours is not None and ours.node == pod.node and ours.encode() == pod.annotation(annotations.GRANT):
        return ours
    grant = pod.grant()
    if grant is None or inventory is None:
        return grant
    slices = list(grant.slices())
    granted = {s.card for s in slices}
    for card in inventory.cards:
        if card.uuid not in granted:
            continue
        own = [s for s in slices if s.card == card.uuid]
        mib = sum(s.mem_mib for s in own)
        if mib > card.mem_mib:
            raise AnnotationError(f"grant: {mib} MiB of card {card.uuid}, which has {card.mem_mib}")
        core = max(s.cores[-1] for s in own)
        if core >= card.core_groups:
            raise AnnotationError(
                f"grant: core group {core} of card {card.uuid}, which has {card.core_groups}"
            )
    return grant
