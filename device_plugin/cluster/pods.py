"""What is known of one pod, from whatever source, in whatever order it comes."""

from collections.abc import Collection
from dataclasses import dataclass, fields
from operator import attrgetter

from device_plugin.core import annotations
from device_plugin.core.grants import Grant
from device_plugin.core.ledger import Reservation
from device_plugin.core.pods import Pod


@dataclass(slots=True)
class Known:
    """A pod, whether the watch has shown it, and when there was news of it."""

    pod: Pod
    watched: bool
    since: float


_accounted = attrgetter(
    *(
        {field.name for field in fields(Pod)}
        - {"phase", "bound", "deleting", "nominated", "refused", "obstacles"}
    )
)
_waited = attrgetter("deleting", "nominated", "refused")


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
    left = not other.node and _waited(one) != _waited(other)
    return one.ended == other.ended and not left and _accounted(one) == _accounted(other)


def taken_back(before: Pod | None, now: Pod, reserved: Reservation) -> bool:
    """True if kube-scheduler has taken an unbound pod back since its slices were reserved: it was preempted or refused.

    It names the node of a pod that waits before its binding, for a volume for instance, and withdraws that name when
    the pod is preempted or what it waits for failed (1.35 and later). Otherwise the pod shows a refusal that it did not
    show when it was asked for; that of a gang may be told late, because the gang's last pod reserves for all.
    """
    node = reserved.grant.node
    if before is not None and before.nominated == node != now.nominated:
        return True
    told = reserved.pod.refused, 0, before.refused if before is not None else 0
    return reserved.request.gang is None and now.refused not in told and now.nominated != node


def sound_grant(pod: Pod, reserved: Reservation | None) -> Grant | None:
    """The grant of a bound pod, or None if it has none. Raises AnnotationError if it is not this pod's.

    What its cards report now makes no difference: a card may shrink, or be away, and what was granted stays held. What
    we reserved need not be read if it is written as it was.
    """
    ours = reserved.grant if reserved is not None else None
    if ours is not None and ours.node == pod.node and ours.encode() == pod.annotation(annotations.GRANT):
        return ours
    return pod.grant()
