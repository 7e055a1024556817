"""Remembered refusals: valid until something changes that they depend on. kube-scheduler asks for refused pods often.

A request that fits no cards fits none until a slice ends or an inventory changes; new grants only take more.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from device_plugin.cluster.refused.node_lists import NodeLists
from device_plugin.core.annotations import GROUP, GROUP_SIZE
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer, Refused
from device_plugin.core.placement.table import Mask, marked
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest, Request, Selector
from device_plugin.core.roles import ALONE

# Most refusals in all, and of pods of one namespace: each takes about 500 bytes, and 1 byte for every node.
MOST, MOST_OF_NAMESPACE = 1024, 128

# Most refused pods in all, and of one namespace: each takes about 500 bytes, and 1 bit for every node.
MOST_WAITING, MOST_WAITING_OF_NAMESPACE = 16_384, 4096

# The value of `gained` for a pod that may fit without any change of the ledger.
UNKNOWN = -1

Shape = tuple[tuple[Request, ...], Selector, Selector, str, str]
"""The parts of a request that decide a refusal: containers, card models, uuids, policy, application type."""
Key = tuple[Shape, tuple[str, str] | None]
"""A shape, with the group (namespace and name) if the decision depends on the nodes of the group's other pods."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A refusal with the ledger's counter `gained`, on the nodes in `rows`; None if no node can take the request."""

    namespace: str
    refused: Refused
    gained: int
    rows: Mask | None


class Refusals:
    """Refusals by request shape; beyond the bounds the least recently used is dropped.

    Callers hold the view's lock.
    """

    def __init__(self, ledger: Ledger, placer: Placer) -> None:
        self._ledger = ledger
        self._placer = placer
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._of: Counter[str] = Counter()
        self._position = placer.table.position
        self.left_out = 0
        """Number of refusals that were dropped because there were too many."""

    def __len__(self) -> int:
        """Number of remembered refusals."""
        return len(self._entries)

    def knows(self, request: PodRequest) -> bool:
        """True if an equal request was refused on all nodes, and that still holds. It needs no lock."""
        entry = self._entries.get((_shape(request), None))
        return entry is not None and entry.rows is None and entry.gained == self._ledger.gained

    def get(self, pod: Pod, request: PodRequest, nodes: Collection[str]) -> Refused | None:
        """The refusal of an equal request that still holds on `nodes`; None if the request must be decided."""
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
        """Remember that the pod's request was just refused on `nodes`."""
        table, namespace = self._placer.table, pod.namespace
        if table.position is not self._position:
            # The rows of the entries belong to an earlier layout.
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
        """The rows that a decision considers: those of offered nodes, without those of other pods of the group."""
        table, avoid = self._placer.table, request.rank.avoid
        offered = table.chosen(nodes)
        return offered & ~marked(table.position, avoid) if avoid else offered

    def clear(self) -> None:
        self._entries.clear()
        self._of.clear()

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            _take_one(self._of, entry.namespace)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that was refused on `nodes` (None: unknown), with the ledger's `gained` (or UNKNOWN) at that time."""

    pod: Pod
    nodes: Sequence[str] | None
    refused: Refused | None
    gained: int
    gang: bool

    @property
    def alike(self) -> object:
        """A key that is equal for pods of which none fits if one does not."""
        pod = self.pod
        return (
            (pod.namespace, pod.label(GROUP)) if self.gang else id(self.refused) if self.refused else pod.uid
        )


class WaitingPods:
    """The refused pods, each with its last refusal. Callers hold the view's lock.

    When there are too many, the namespace with the most pods loses the one that was refused last.
    """

    def __init__(self, ledger: Ledger, node_lists: NodeLists) -> None:
        self._ledger = ledger
        self._node_lists = node_lists
        self._by_pod: dict[str, Waiting] = {}
        self._of: dict[str, dict[str, Waiting]] = {}
        self.left_out = 0
        """Number of pods that were left out because there were too many."""

    def __len__(self) -> int:
        """Number of refused pods."""
        return len(self._by_pod)

    def all(self) -> list[Waiting]:
        """A list of all refused pods. It needs no lock."""
        return list(self._by_pod.values())

    def get(self, uid: str) -> Waiting | None:
        """The pod of this UID, if its last decision was a refusal."""
        return self._by_pod.get(uid)

    def note(
        self, pod: Pod, nodes: Sequence[str], refused: Refused, *, gang: bool, by_cards: bool = True
    ) -> None:
        """Record a pod that was just refused, alone or with its gang; `by_cards` if only cards were missing."""
        gained = self._ledger.gained if by_cards else UNKNOWN
        self._put(Waiting(pod, self._node_lists.of(nodes), refused, gained, gang))

    def inherit(self, pod: Pod) -> None:
        """Record a pod that another process of ours, or kube-scheduler, refused; its nodes are unknown."""
        if pod.uid not in self._by_pod:
            self._put(Waiting(pod, None, None, UNKNOWN, bool(pod.label(GROUP_SIZE))))

    def outdated(self, waiting: Waiting) -> bool:
        """True if this is the pod's last refusal, and the pod may fit now: `gained` has grown, or was UNKNOWN."""
        return self._by_pod.get(waiting.pod.uid) is waiting and waiting.gained != self._ledger.gained

    def keep(self, waiting: Waiting) -> None:
        """Record a refused pod again after it was dropped."""
        self._put(waiting)

    def drop(self, uid: str) -> None:
        """Remove a pod that is gone or has been placed."""
        waiting = self._by_pod.pop(uid, None)
        if waiting is not None:
            pods = self._of[waiting.pod.namespace]
            del pods[uid]
            if not pods:
                del self._of[waiting.pod.namespace]

    def clear(self) -> None:
        """Remove all pods, after the term of this replica has ended."""
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
