"""Refusals, remembered until something they depend on changes: kube-scheduler asks for refused pods again and again.

A pod that found no cards finds none until a slice ends, or a node shows other cards; placing others only takes more.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from device_plugin.cluster.node_lists import NodeLists
from device_plugin.core.annotations import GROUP, GROUP_SIZE
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer, Refused
from device_plugin.core.placement.table import Mask
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest, Request, Selector
from device_plugin.core.roles import ALONE

# Refusals remembered in all, and of pods of one namespace: each takes a byte for every node, and some 500 for itself.
MOST, MOST_OF_NAMESPACE = 1024, 128

# Refused pods that are remembered in all, and of one namespace: each is some 500 bytes, and a bit for every node.
MOST_WAITING, MOST_WAITING_OF_NAMESPACE = 16_384, 4096

# What `gained` is of a pod that may fit again without a node that became better.
UNKNOWN = -1

Shape = tuple[tuple[Request, ...], Selector, Selector, str, str]
"""What a refusal depends on of a request: containers, card models, uuids, policy, application type."""
Key = tuple[Shape, tuple[str, str] | None]
"""A shape, and the group (namespace and name) where the nodes of the group's other pods made a difference."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A refusal by the ledger at `gained`, on the nodes in `rows`; None if no node whatever would do."""

    namespace: str
    refused: Refused
    gained: int
    rows: Mask | None


class Refusals:
    """Remembered refusals by request shape; beyond the bounds the least recently used is forgotten.

    Callers hold the view's lock.
    """

    def __init__(self, ledger: Ledger, placer: Placer) -> None:
        self._ledger = ledger
        self._placer = placer
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._of: Counter[str] = Counter()
        self._position = placer.table.position
        self.left_out = 0
        """Refusals that were forgotten because there were too many."""

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._entries)

    def knows(self, request: PodRequest) -> bool:
        """True if the request was refused and no node became better since. It may be called without the lock."""
        entry = self._entries.get((_shape(request), None))
        return entry is not None and entry.rows is None and entry.gained == self._ledger.gained

    def get(self, pod: Pod, request: PodRequest, nodes: Collection[str]) -> Refused | None:
        """The refusal of an equal request that still holds on `nodes`; None if it must be decided."""
        key = _key(pod, request)
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.gained != self._ledger.gained or self._placer.table.position is not self._position:
            self._drop(key)
            return None
        if entry.rows is not None and (self._rows(request, nodes) & ~entry.rows).any():
            return None
        self._entries.move_to_end(key)
        return entry.refused

    def note(self, pod: Pod, request: PodRequest, nodes: Collection[str], refused: Refused) -> None:
        """The pod's request was refused on `nodes` just now."""
        table, namespace = self._placer.table, pod.namespace
        if table.position is not self._position:
            # The entries are about other rows.
            self.clear()
            self._position = table.position
        key = (_shape(request), None) if refused.everywhere else _key(pod, request)
        self._drop(key)
        if self._of[namespace] >= MOST_OF_NAMESPACE:
            self._drop(next(k for k, entry in self._entries.items() if entry.namespace == namespace))
            self.left_out += 1
        elif len(self._entries) >= MOST:
            self._drop(next(iter(self._entries)))
            self.left_out += 1
        rows = None if refused.everywhere else self._rows(request, nodes)
        self._entries[key] = _Entry(namespace, refused, self._ledger.gained, rows)
        self._of[namespace] += 1

    def _rows(self, request: PodRequest, nodes: Collection[str]) -> Mask:
        """The nodes that a decision looks at: those offered, without those of other pods of the group."""
        table, avoid = self._placer.table, request.rank.avoid
        offered = table.chosen(nodes)
        return offered & ~table.looked_up(avoid) if avoid else offered

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()
        self._of.clear()

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            _take_one(self._of, entry.namespace)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that was refused on `nodes`, None for unknown ones, when the ledger was at `gained` (or UNKNOWN)."""

    pod: Pod
    nodes: Sequence[str] | None
    refused: Refused | None
    gained: int
    gang: bool

    @property
    def alike(self) -> object:
        """Equal for pods of which none fits if one does not."""
        pod = self.pod
        return (
            (pod.namespace, pod.label(GROUP)) if self.gang else id(self.refused) if self.refused else pod.uid
        )


class WaitingPods:
    """The pods that were refused, each as it was asked for last. Callers hold the view's lock.

    Where there are too many, the namespace with the most of them loses the one that was refused last.
    """

    def __init__(self, ledger: Ledger, node_lists: NodeLists) -> None:
        self._ledger = ledger
        self._node_lists = node_lists
        self._by_pod: dict[str, Waiting] = {}
        self._of: dict[str, dict[str, Waiting]] = {}
        self.left_out = 0
        """Pods that are not remembered because there were too many."""

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._by_pod)

    def all(self) -> list[Waiting]:
        """All of them. It needs no lock."""
        return list(self._by_pod.values())

    def get(self, uid: str) -> Waiting | None:
        """The pod of this uid, if it was refused when it was asked for last."""
        return self._by_pod.get(uid)

    def note(
        self, pod: Pod, nodes: Sequence[str], refused: Refused, *, gang: bool, by_cards: bool = True
    ) -> None:
        """The pod was refused just now, alone or with its gang; `by_cards` says that nothing but cards was missing."""
        gained = self._ledger.gained if by_cards else UNKNOWN
        self._put(Waiting(pod, self._node_lists.of(nodes), refused, gained, gang))

    def inherit(self, pod: Pod) -> None:
        """The pod was refused by another process of ours, or by kube-scheduler; nobody knows where it may go."""
        if pod.uid not in self._by_pod:
            self._put(Waiting(pod, None, None, UNKNOWN, bool(pod.label(GROUP_SIZE))))

    def outdated(self, waiting: Waiting) -> bool:
        """True if it was not asked for since, and may fit by now: a node became better, or its group changed."""
        return self._by_pod.get(waiting.pod.uid) is waiting and waiting.gained != self._ledger.gained

    def keep(self, waiting: Waiting) -> None:
        """Take back one that was dropped."""
        self._put(waiting)

    def drop(self, uid: str) -> None:
        """Forget a pod that is gone or has been placed."""
        waiting = self._by_pod.pop(uid, None)
        if waiting is not None:
            pods = self._of[waiting.pod.namespace]
            del pods[uid]
            if not pods:
                del self._of[waiting.pod.namespace]

    def clear(self) -> None:
        """Forget all pods: another replica leads."""
        self._by_pod.clear()
        self._of.clear()

    def _put(self, waiting: Waiting) -> None:
        namespace, uid = waiting.pod.namespace, waiting.pod.uid
        self.drop(uid)
        pods = self._of.setdefault(namespace, {})
        pods[uid] = self._by_pod[uid] = waiting
        if len(pods) > MOST_WAITING_OF_NAMESPACE:
            self._leave_out(pods)
        elif len(self._by_pod) > MOST_WAITING:
            self._leave_out(max(self._of.values(), key=len))

    def _leave_out(self, pods: dict[str, Waiting]) -> None:
        self.drop(next(reversed(pods)))
        self.left_out += 1


def _take_one(counts: Counter[str], namespace: str) -> None:
    counts[namespace] -= 1
    if not counts[namespace]:
        del counts[namespace]


def _key(pod: Pod, request: PodRequest) -> Key:
    return _shape(request), None if request.rank is ALONE else (pod.namespace, pod.label(GROUP))


def _shape(request: PodRequest) -> Shape:
    return (
        tuple(asked for _, asked in request.containers), request.models, request.uuids, request.policy,
        request.app_type,
    )  # fmt: skip
