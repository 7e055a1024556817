"""Remembered refusals: a pod is refused again without a new decision while the cause of its refusal has not changed.

kube-scheduler asks for refused pods often. A request that fits no cards still fits none until a slice ends or an
inventory changes, because new grants only take more.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from device_plugin.allocator.waiting.bounded import Bounded
from device_plugin.allocator.waiting.node_lists import NodeLists
from device_plugin.core.contract.annotations import GROUP, GROUP_SIZE
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer, Refused
from device_plugin.core.placement.card_columns import Mask
from device_plugin.core.placement.offer import marked
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest, Request, Selector
from device_plugin.core.roles import ALONE

# Most refusals in total, and of one namespace's pods: each takes about 500 bytes, and 1 byte per node.
MOST, MOST_OF_NAMESPACE = 1024, 128

# Most refused pods in total, and of one namespace: each takes about 500 bytes, and 1 bit per node.
MOST_WAITING, MOST_WAITING_OF_NAMESPACE = 16_384, 4096

RequestParts = tuple[tuple[Request, ...], Selector, Selector, str, str, bool]
"""The parts of a request that decide a refusal.

These are the containers, card models, uuids, policy and application type, and whether the pod asks by ResourceClaims.
"""
Key = tuple[RequestParts, tuple[str, str] | None]
"""The parts of a request; and the pod's group, if the decision depends on the nodes of the group's other pods."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A refusal on the nodes in `rows` (None: on all nodes), with the ledger's counters at that time.

    `gained` grows when a slice ends or an inventory changes, `restocked` only when an inventory changes. The refusal
    holds until one of them grows; a lasting refusal, which no freed slice can change, holds until `restocked` grows.
    """

    namespace: str
    refused: Refused
    gained: int
    restocked: int
    rows: Mask | None


class Refusals:
    """The remembered refusals, by request; beyond the bounds a namespace loses its least recently used refusal.

    Callers hold the cluster view's lock.
    """

    def __init__(self, ledger: Ledger, placer: Placer) -> None:
        self._ledger = ledger
        self._placer = placer
        self.kept = Bounded[Key, _Entry](MOST, MOST_OF_NAMESPACE, lose_oldest=True)
        self._position = placer.table.position

    def knows(self, request: PodRequest) -> bool:
        """True if an equal request was refused on all nodes, and the refusal still holds. It needs no lock."""
        entry = self.kept.get((_parts(request), None))
        return entry is not None and entry.rows is None and self._holds(entry)

    def get(self, pod: Pod, request: PodRequest, nodes: Sequence[str]) -> Refused | None:
        """The refusal of an equal request that still holds on `nodes`; None if the request must be decided."""
        key = _key(pod, request)
        entry = self.kept.get(key)
        if entry is None:
            return None
        if not self._holds(entry) or self._placer.table.position is not self._position:
            self.kept.drop(key)
            return None
        if entry.rows is not None and (self._rows(request, nodes) & ~entry.rows).any():
            return None
        self.kept.put(entry.namespace, key, entry)
        return entry.refused

    def note(self, pod: Pod, request: PodRequest, nodes: Sequence[str], refused: Refused) -> None:
        """Remember that the pod's request was just refused on `nodes`."""
        table = self._placer.table
        if table.position is not self._position:
            # The rows of the entries belong to an earlier layout.
            self.kept.clear()
            self._position = table.position
        everywhere = refused.everywhere
        key = (_parts(request), None) if everywhere else _key(pod, request)
        rows = None if everywhere else self._rows(request, nodes)
        ledger = self._ledger
        self.kept.put(
            pod.namespace, key, _Entry(pod.namespace, refused, ledger.gained, ledger.restocked, rows)
        )

    def _holds(self, entry: _Entry) -> bool:
        return _hold(entry.refused, entry.gained, entry.restocked, self._ledger)

    def _rows(self, request: PodRequest, nodes: Sequence[str]) -> Mask:
        """An array with True for the nodes that a decision considers: the offered nodes that the pod need not avoid."""
        table, avoid = self._placer.table, request.rank.avoid
        offered = table.chosen(nodes)
        return offered & ~marked(table.position, avoid) if avoid else offered


class WaitsFor(Enum):
    """The kind of change that a refused pod waits for."""

    CARDS = "cards"
    """Only cards were missing: it may fit once the ledger's counter `gained` has grown."""
    ANYTHING = "anything"
    """It may fit without any change of the ledger."""
    DECISION = "a decision"
    """It was refused without a decision: kube-scheduler must ask for it again, whether it fits or not."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that was refused on `nodes` (None: unknown).

    `gained` and `restocked` are the ledger's counters at that time. `hopeless` is the pod's request if no node can take
    it, otherwise None: such a pod may be refused again without a decision.
    """

    pod: Pod
    nodes: Sequence[str] | None
    refused: Refused | None
    gained: int
    restocked: int
    gang: bool
    waits_for: WaitsFor
    hopeless: PodRequest | None = None

    @property
    def alike(self) -> object:
        """A key that pods of one gang, or with one remembered refusal, share.

        If one pod with this key does not fit, none does.
        """
        pod = self.pod
        return (
            (pod.namespace, pod.label(GROUP)) if self.gang else id(self.refused) if self.refused else pod.uid
        )


class WaitingPods(Bounded[str, Waiting]):
    """The refused pods by UID, each with its latest refusal."""

    def __init__(self, ledger: Ledger, node_lists: NodeLists) -> None:
        super().__init__(MOST_WAITING, MOST_WAITING_OF_NAMESPACE)
        self._ledger = ledger
        self._node_lists = node_lists

    def note(
        self, pod: Pod, nodes: Sequence[str], refused: Refused, *, gang: bool, waits_for: WaitsFor,
        request: PodRequest | None = None,
    ) -> None:  # fmt: skip
        """Keep a pod that was just refused, alone or with its gang, among the waiting pods.

        `request` is given only if the refusal depends on nothing but the ledger: then the pod may be refused again
        without a decision.
        """
        here, hopeless = self._node_lists.of(nodes), request if refused.everywhere else None
        self.keep(self._waiting(pod, here, refused, gang, waits_for, hopeless))

    def again(self, pod: Pod, request: PodRequest, nodes: Sequence[str]) -> Refused | None:
        """The pod's latest refusal, if a new decision on the same `nodes` would certainly refuse too; else None.

        The refusal is certain until a slice ends or an inventory changes: no node had the cards for `request`, new
        grants only take more, and the nodes of the pod's group did not matter. A lasting refusal, which no freed slice
        can change, holds until an inventory changes. The pod is recorded as refused now, as after a decision.
        """
        found = self.get(pod.uid)
        if found is None or found.refused is None or found.hopeless != request:
            return None
        refused, gained = found.refused, self._ledger.gained
        if not _hold(refused, found.gained, found.restocked, self._ledger):
            return None
        if self._node_lists.of(nodes) is not found.nodes:
            return None
        # kube-scheduler writes a refusal to the pod, so that the pod may be another version now.
        if found.gained != gained or found.pod is not pod:
            self.keep(replace(found, pod=pod, gained=gained))
        return refused

    def inherit(self, pod: Pod, waits_for: WaitsFor) -> None:
        """Record a pod that was refused before this replica's term, on unknown nodes, unless it is recorded already."""
        if self.get(pod.uid) is None:
            self.keep(self._waiting(pod, None, None, bool(pod.label(GROUP_SIZE)), waits_for))

    def keep(self, waiting: Waiting) -> None:
        """Record a refused pod; it replaces the pod's earlier refusal."""
        self.put(waiting.pod.namespace, waiting.pod.uid, waiting)

    def outdated(self, waiting: Waiting) -> bool:
        """True if the refused pod may fit now; false if `waiting` is not the pod's latest refusal any more."""
        may_fit = waiting.waits_for is not WaitsFor.CARDS or waiting.gained != self._ledger.gained
        return may_fit and self.get(waiting.pod.uid) is waiting

    def _waiting(
        self, pod: Pod, nodes: Sequence[str] | None, refused: Refused | None, gang: bool, waits_for: WaitsFor,
        hopeless: PodRequest | None = None,
    ) -> Waiting:  # fmt: skip
        ledger = self._ledger
        return Waiting(pod, nodes, refused, ledger.gained, ledger.restocked, gang, waits_for, hopeless)


class PostponedPods(Bounded[str, Pod]):
    """The pods, by UID, that were refused without a decision because this replica does not place pods yet.

    They have a lock of their own, so that a /filter without a decision does not wait for the cluster view's lock.
    """

    def __init__(self) -> None:
        super().__init__(MOST_WAITING, MOST_WAITING_OF_NAMESPACE)
        self._lock = threading.RLock()

    def put(self, namespace: str, key: str, value: Pod) -> None:
        """Add the pod `value` with the UID `key`; beyond the bounds, one pod is left out."""
        with self._lock:
            super().put(namespace, key, value)

    def drop(self, key: str) -> Pod | None:
        """Remove and return the pod with this UID; None if the pod is not kept here."""
        with self._lock:
            return super().drop(key)

    def take(self) -> list[Pod]:
        """Remove and return all pods that were refused without a decision."""
        with self._lock:
            pods = self.values()
            self.clear()
        return pods


def _hold(refused: Refused, gained: int, restocked: int, ledger: Ledger) -> bool:
    """True if a refusal still holds: the ledger's counters that it depends on have not grown beyond these values."""
    return restocked == ledger.restocked and (gained == ledger.gained or refused.lasting)


def _key(pod: Pod, request: PodRequest) -> Key:
    return _parts(request), None if request.rank is ALONE else (pod.namespace, pod.label(GROUP))


def _parts(request: PodRequest) -> RequestParts:
    return (
        tuple(asked for _, asked in request.containers), request.models, request.uuids, request.policy,
        request.app_type, bool(request.claims),
    )  # fmt: skip
