"""The pods that the cluster service knows, from watch events, lists, reads and our own Bindings, in any order."""

from collections import OrderedDict, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from operator import attrgetter

from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import RequestError
from device_plugin.core.ledger import Holder, Reservation
from device_plugin.core.pods import Pod
from device_plugin.core.requests import NO_CLAIMS, PodRequest, RequestSource, pod_request

# Pods that are gone are remembered for as long as a late answer or call could bring one back.
GONE_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _Asked:
    """The request of a pod, and the state of the pod from which the request was read."""

    pod: Pod
    request: PodRequest


@dataclass(slots=True)
class Known:
    """A pod, the time of its latest news, and its request while it is unbound.

    `watched`: the watch has shown the pod. `doubted`: etcd was restored, and there was no news of the pod since.
    """

    pod: Pod
    watched: bool
    since: float
    asked: _Asked | None = None
    doubted: bool = False


_accounted = attrgetter(
    *(
        set(Pod.__struct_fields__)
        - {"phase", "bound", "deleting", "ends", "nominated", "refused", "obstacles"}
    )
)
_waited = attrgetter("deleting", "nominated", "refused")
_asking = attrgetter("containers", "annotations", "labels", "host", "claims")


def concerns_us(pod: Pod, resources: Collection[str], scheduler: str = "") -> bool:
    """True if a container asks for one of `resources`, or the pod carries a grant.

    True also if the pod has ResourceClaims and its scheduler is `scheduler`, which is empty if claims are not served.
    """
    asks = any(name in resources for container in pod.containers for name in container.limits)
    claims = bool(scheduler and pod.claims) and pod.scheduler == scheduler
    return asks or claims or bool(pod.annotation(annotations.GRANT))


def later(known: Pod, news: Pod, *, watched: bool) -> Pod:
    """The version of one pod that counts: `news`, unless it would make a bound pod unbound or an ended pod not ended.

    So old news cannot free a slice. Only news of the watch, which comes in order, can show that an ended pod has not
    ended: somebody may write a false end into a pod's status, and the kubelet corrects it.
    """
    if (known.node and not news.node) or (known.ended and not (news.ended or watched)):
        return known
    return news


def alike(one: Pod, other: Pod) -> bool:
    """True if two versions of one pod are equal in all fields that concern slices and waiting."""
    left = not other.node and _waited(one) != _waited(other)
    return one.ended == other.ended and not left and _accounted(one) == _accounted(other)


def _ask_alike(one: Pod, other: Pod) -> bool:
    """True if two versions of one pod have equal requests."""
    return one is other or _asking(one) == _asking(other)


def taken_back(before: Pod | None, now: Pod, reserved: Reservation) -> bool:
    """True if kube-scheduler has refused or preempted an unbound pod since its slices were reserved.

    There are two signs. First: kube-scheduler withdraws its nomination of the node. Then the pod was preempted, or its
    wait before the binding failed, for a volume for instance (Kubernetes 1.35 and later). Second: a pod without that
    nomination shows a refusal that it did not show when the slices were reserved. The second sign does not count for a
    pod of a gang: the refusal may be older than the reservation, which was made when the gang's last pod came.
    """
    node = reserved.grant.node
    if before is not None and before.nominated == node != now.nominated:
        return True
    told = reserved.pod.refused, 0, before.refused if before is not None else 0
    return reserved.request.gang is None and now.refused not in told and now.nominated != node


def sound_grant(pod: Pod, reserved: Reservation | None) -> Grant | None:
    """The grant of a bound pod; None if it has none. Raises AnnotationError if it is malformed or another pod's.

    The grant is not compared with the present inventory: a card may shrink or be away, and granted slices stay held. A
    grant equal to our reservation is not decoded again.
    """
    ours = reserved.grant if reserved is not None else None
    if ours is not None and ours.node == pod.node and ours.encode() == pod.annotation(annotations.GRANT):
        return ours
    return pod.grant()


class KnownPods:
    """Holds the pods that ask for slices or hold some, by UID, and the UIDs of pods that are gone.

    `source` reads requests from ResourceClaims. Callers hold the cluster view's lock, unless a method says otherwise.
    """

    def __init__(self, prefixes: Collection[str], source: RequestSource = NO_CLAIMS) -> None:
        self._prefixes = prefixes
        self._source = source
        # By namespace and name of each ResourceClaim that pods name: their UIDs, the first pod first.
        self._naming: dict[tuple[str, str], dict[str, None]] = {}
        self._known: dict[Holder, Known] = {}
        self._on_node: dict[str, set[str]] = defaultdict(set)
        self._gone: OrderedDict[str, None] = OrderedDict()

    def get(self, holder: Holder) -> Pod | None:
        """The pod of this UID; None if it is not known. It needs no lock."""
        known = self._known.get(holder)
        return known.pod if known else None

    def all(self) -> list[Pod]:
        """All known pods, ended pods included. It needs no lock."""
        # A list of values is made in one step of the interpreter, whatever other threads do.
        return [known.pod for known in list(self._known.values())]

    def request_of(self, pod: Pod) -> PodRequest | None:
        """The pod's request; None if the pod asks for no slice. Raises RequestError. It needs no lock.

        kube-scheduler sends the pod with each call. The request of a known unbound pod was read when the pod was
        recorded; it is read again only if the pod asks differently now.
        """
        known = self._known.get(pod.uid)
        # Another thread may replace it in the next moment.
        asked = known.asked if known is not None else None
        if asked is not None and _ask_alike(asked.pod, pod):
            return asked.request
        return pod_request(pod, self._prefixes, self._source)

    def read_from(self, source: RequestSource) -> None:
        """Read requests by ResourceClaims from `source` from now on; requests that were read before are forgotten."""
        self._source = source
        for known in self._known.values():
            known.asked = None

    def doubt_request(self, uid: str) -> None:
        """Forget the request of a known pod, because a ResourceClaim of it has changed.

        The request is read again only when it is needed, because a tenant may create and delete one claim all the time,
        and thousands of pods may name it.
        """
        known = self._known.get(uid)
        if known is not None:
            known.asked = None

    def naming(self, namespace: str, claim: str) -> list[str]:
        """The UIDs of the known pods that name this ResourceClaim, the earliest recorded first. It needs no lock."""
        return list(self._naming.get((namespace, claim), ()))

    def is_gone(self, uid: str) -> bool:
        """True if the pod with this UID is known as gone. It needs no lock."""
        return uid in self._gone

    def unconfirmed(self, before: float) -> list[Pod]:
        """The pods that the watch has not shown, and of which there is no news since `before`. It needs no lock."""
        known = list(self._known.values())
        return [each.pod for each in known if not each.watched and each.since <= before]

    def vanished(self, listed: Collection[str]) -> list[str]:
        """The UIDs of the pods that the watch had shown and that are not `listed` now. It needs no lock."""
        watched = (known.pod.uid for known in list(self._known.values()) if known.watched)
        return [uid for uid in watched if uid not in listed]

    def doubt(self) -> None:
        """Accept the next news of each pod, whatever it says, because etcd was restored.

        The news may say that a bound pod is not bound, or that an ended pod has not ended. Pods that are known as gone
        may come back.
        """
        for known in self._known.values():
            known.doubted = True
        self._gone.clear()

    def misplaced(self, pod: Pod) -> bool:
        """True if the pod is known as bound to another node, but that news is older than the latest restore of etcd."""
        known = self._known.get(pod.uid)
        return known is not None and known.doubted and known.pod.node not in ("", pod.node)

    def see(self, pod: Pod, now: float, *, watched: bool) -> Pod:
        """Record a pod's state; returns the pod as it is known now.

        News that is older than the known state changes only the time of the pod's latest news.
        """
        known = self._known.get(pod.uid)
        if known is None:
            known = self._known[pod.uid] = Known(pod, watched, now)
            self._name(pod.uid, pod)
        before = known.pod
        known.pod = pod if known.doubted else later(known.pod, pod, watched=watched)
        if known.pod.claims != before.claims:
            self._unname(pod.uid, before)
            self._name(pod.uid, known.pod)
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
        """Remove a pod that cannot be read any more; it may exist, and may be recorded again."""
        known = self._known.pop(uid, None)
        if known is not None:
            self._on_node[known.pod.node].discard(uid)
            self._unname(uid, known.pod)

    def _name(self, uid: str, pod: Pod) -> None:
        for claim in filter(None, (pod.claims or {}).values()):
            self._naming.setdefault((pod.namespace, claim), {})[uid] = None

    def _unname(self, uid: str, pod: Pod) -> None:
        for claim in (pod.claims or {}).values():
            users = self._naming.get((pod.namespace, claim), {})
            users.pop(uid, None)
            if not users:
                self._naming.pop((pod.namespace, claim), None)

    def forget(self, uid: str) -> None:
        """Remove a pod that is gone, and remember its UID even if the pod was not known."""
        self.remove(uid)
        self._gone[uid] = None
        if len(self._gone) > GONE_REMEMBERED:
            self._gone.popitem(last=False)

    def on(self, node: str) -> list[Pod]:
        """The pods bound to a node that have not ended."""
        return [self._known[uid].pod for uid in self._on_node.get(node, ())]
