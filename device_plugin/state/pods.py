"""The pods that the cluster service knows, from watch events, lists, reads and our own Bindings, in any order."""

from collections import OrderedDict, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, fields
from operator import attrgetter

from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import RequestError
from device_plugin.core.ledger import Holder, Reservation
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest, pod_request

# Pods that are gone are remembered for as long as a late answer or call could bring one back.
GONE_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _Asked:
    """The request of a pod, and the view of the pod that it was read from."""

    pod: Pod
    request: PodRequest


@dataclass(slots=True)
class Known:
    """A pod, whether the watch has shown it, and when there was news of it; its request while it is unbound.

    It is `doubted` after a restored etcd, until there is news of it.
    """

    pod: Pod
    watched: bool
    since: float
    asked: _Asked | None = None
    doubted: bool = False


_accounted = attrgetter(
    *(
        {field.name for field in fields(Pod)}
        - {"phase", "bound", "deleting", "ends", "nominated", "refused", "obstacles"}
    )
)
_waited = attrgetter("deleting", "nominated", "refused")
_asking = attrgetter("containers", "annotations", "labels", "host")


def concerns_us(pod: Pod, resources: Collection[str]) -> bool:
    """True if a container asks for one of `resources`, or the pod carries a grant."""
    asks = any(name in resources for container in pod.containers for name in container.limits)
    return asks or bool(pod.annotation(annotations.GRANT))


def later(known: Pod, news: Pod, *, watched: bool) -> Pod:
    """The later of two views of one pod: a binding is never taken back, so old news cannot free a slice.

    An end is taken back only by the watch, whose news is in order: its kubelet rewrites an end that somebody forged.
    """
    if (known.node and not news.node) or (known.ended and not (news.ended or watched)):
        return known
    return news


def alike(one: Pod, other: Pod) -> bool:
    """True if the difference of two views of one pod, such as that it runs now, concerns no slices and no waiting."""
    left = not other.node and _waited(one) != _waited(other)
    return one.ended == other.ended and not left and _accounted(one) == _accounted(other)


def _ask_alike(one: Pod, other: Pod) -> bool:
    """True if two views of one pod have equal requests."""
    return one is other or _asking(one) == _asking(other)


def taken_back(before: Pod | None, now: Pod, reserved: Reservation) -> bool:
    """True if kube-scheduler has taken an unbound pod back since its slices were reserved: it was preempted or refused.

    It names the node of a pod that waits before its binding, for a volume for instance, and withdraws that name when
    the pod is preempted or what it waits for failed (1.35 and later). Otherwise the pod shows a refusal that it did not
    show when it was asked for. This does not count for a gang's pods: their refusal may predate the reservation that
    the gang's last pod made for all.
    """
    node = reserved.grant.node
    if before is not None and before.nominated == node != now.nominated:
        return True
    told = reserved.pod.refused, 0, before.refused if before is not None else 0
    return reserved.request.gang is None and now.refused not in told and now.nominated != node


def sound_grant(pod: Pod, reserved: Reservation | None) -> Grant | None:
    """The grant of a bound pod, or None if it has none. Raises AnnotationError if it is not this pod's.

    The present inventory makes no difference: a card may shrink, or be away, and granted slices stay held. A grant that
    is written as we reserved it need not be read again.
    """
    ours = reserved.grant if reserved is not None else None
    if ours is not None and ours.node == pod.node and ours.encode() == pod.annotation(annotations.GRANT):
        return ours
    return pod.grant()


class KnownPods:
    """The pods that ask for slices or hold some, by uid: as they were last heard of, where they are, which are gone.

    Callers hold the view's lock, unless a method says otherwise.
    """

    def __init__(self, prefixes: Collection[str]) -> None:
        self._prefixes = prefixes
        self._known: dict[Holder, Known] = {}
        self._on_node: dict[str, set[str]] = defaultdict(set)
        self._gone: OrderedDict[str, None] = OrderedDict()

    def get(self, holder: Holder) -> Pod | None:
        """The pod of this UID. It needs no lock."""
        known = self._known.get(holder)
        return known.pod if known else None

    def all(self) -> list[Pod]:
        """All of them, with ended pods that still exist. It needs no lock."""
        # A list of values is made in one step of the interpreter, whatever other threads do.
        return [known.pod for known in list(self._known.values())]

    def request_of(self, pod: Pod) -> PodRequest | None:
        """The pod's request; None if it asks for no slice. Raises RequestError. It needs no lock.

        kube-scheduler shows a pod again with each question, and it is read once: when it is seen.
        """
        known = self._known.get(pod.uid)
        # It may be another in the next moment.
        asked = known.asked if known is not None else None
        if asked is not None and _ask_alike(asked.pod, pod):
            return asked.request
        return pod_request(pod, self._prefixes)

    def is_gone(self, uid: str) -> bool:
        """True if the pod existed and was seen to be gone. It needs no lock."""
        return uid in self._gone

    def unconfirmed(self, before: float) -> list[Pod]:
        """Pods that the watch has not shown, without news since `before`, which may be gone. It needs no lock."""
        known = list(self._known.values())
        return [each.pod for each in known if not each.watched and each.since <= before]

    def vanished(self, listed: Collection[str]) -> list[str]:
        """The UIDs of the pods that the watch had shown and that are not `listed` now. It needs no lock."""
        watched = (known.pod.uid for known in list(self._known.values()) if known.watched)
        return [uid for uid in watched if uid not in listed]

    def doubt(self) -> None:
        """Take the next news of each pod as it is, even if it takes a binding or an end back: etcd was restored."""
        for known in self._known.values():
            known.doubted = True
        self._gone.clear()

    def misplaced(self, pod: Pod) -> bool:
        """True if the pod is known as bound elsewhere, and that is doubted."""
        known = self._known.get(pod.uid)
        return known is not None and known.doubted and known.pod.node not in ("", pod.node)

    def see(self, pod: Pod, now: float, *, watched: bool) -> Pod:
        """Take news of a pod; returns the pod as it is known now. Old news changes nothing."""
        known = self._known.get(pod.uid)
        if known is None:
            known = self._known[pod.uid] = Known(pod, watched, now)
        known.pod = pod if known.doubted else later(known.pod, pod, watched=watched)
        known.doubted = False
        known.watched |= watched
        known.since = now
        if known.pod.node and not known.pod.ended:
            self._on_node[known.pod.node].add(pod.uid)
        else:
            self._on_node[known.pod.node].discard(pod.uid)
        known.asked = self._asked(known.pod)
        return known.pod

    def _asked(self, pod: Pod) -> _Asked | None:
        """The request of an unbound pod; None if the pod asks for no slice or its request is malformed."""
        if pod.node or pod.ended:
            return None
        try:
            request = self.request_of(pod)
        except RequestError:
            return None
        return _Asked(pod, request) if request is not None else None

    def remove(self, uid: str) -> None:
        """The pod is not known any more; it may exist, and be seen again."""
        known = self._known.pop(uid, None)
        if known is not None:
            self._on_node[known.pod.node].discard(uid)

    def forget(self, uid: str) -> None:
        """The pod is gone, whether it was known or only expected."""
        self.remove(uid)
        self._gone[uid] = None
        if len(self._gone) > GONE_REMEMBERED:
            self._gone.popitem(last=False)

    def on(self, node: str) -> list[Pod]:
        """Bound pods on a node that have not ended."""
        return [self._known[uid].pod for uid in self._on_node.get(node, ())]
