"""Deletions of pods by the leader, each with an event that says why.

Of two live grants that overlap the one bound later loses. It should never happen (one leader, fenced), and is looked
for all the same. A pod whose limits may not hold, because something covers the files that its agent mounted, is deleted
where the operator wants that (`coveredPods`); its agent reports it in the node's inventory, and in an event.
"""

import logging
from collections.abc import Iterable

from device_plugin.cluster.lead.leader import Leader
from device_plugin.cluster.watch.view import ClusterView
from device_plugin.core.cards import Inventory
from device_plugin.core.events import Event
from device_plugin.core.grants import Grant
from device_plugin.core.ledger import Conflict, Ledger
from device_plugin.core.pods import Pod
from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import ApiError, GoneError

log = logging.getLogger(__name__)

_NOT_SHOWN_YET = "~"  # sorts after every time


def losers(inventory: Inventory | None, held: Iterable[tuple[Pod, Grant]]) -> list[Conflict]:
    """The conflicts on one node that end a pod: the later pod of each, with an earlier one that it conflicts with."""
    ledger = Ledger()
    found = []
    for pod, grant in sorted(held, key=lambda item: _age(item[0])):
        if inventory is not None:
            ledger.set_node(grant.node, inventory)
        conflicts = ledger.hold(grant)
        if conflicts:
            found.append(conflicts[0])
            ledger.release(pod.uid)
    return found


class Deletions:
    """Deletes pods, with a log line and one event for each, however often its deletion fails."""

    def __init__(self, api: Api, view: ClusterView) -> None:
        self._api = api
        self._view = view
        self._told: set[str] = set()

    def delete(self, pod: Pod, event: Event, text: str) -> None:
        """Delete the pod of this UID, and report it with `event` and `text`. Raises ApiError."""
        self._told = {uid for uid in self._told if self._view.pod(uid) is not None}
        try:
            if pod.uid not in self._told:
                log.warning("%s pod=%s/%s: %s", event, pod.namespace, pod.name, text)
                self._api.post_event(PODS, pod, event, text)
                self._told.add(pod.uid)
            self._api.delete(PODS, pod)
        except GoneError:
            self._view.forget_pod(pod.uid)


class OverlapJudge:
    """Deletes pods with conflicting grants on nodes that the state suspects. `sweep` is called about once a second."""

    def __init__(self, api: Api, view: ClusterView, leader: Leader, deletions: Deletions) -> None:
        self._api = api
        self._view = view
        self._leader = leader
        self._deletions = deletions

    def sweep(self) -> None:
        """Check each suspect node, if this replica leads; otherwise they stay suspect."""
        if self._leader.why_not():
            return
        for node in self._view.suspects():
            try:
                self._judge(node)
            except ApiError as error:
                log.warning("overlapping grants on %s: %s; trying again", node, error)
                self._view.suspect(node)

    def _judge(self, node: str) -> None:
        for conflict in self._losers(node):
            # Our view may be out of date: read both pods before one is deleted.
            self._look(conflict.pod)
            self._look(conflict.other)
        for conflict in self._losers(node):
            pod, other = self._view.pod(conflict.pod), self._view.pod(conflict.other)
            if pod is None or other is None or pod.deleting:
                continue
            self._delete(pod, other, conflict)

    def _losers(self, node: str) -> list[Conflict]:
        with self._view.lock:
            return losers(self._view.inventory(node), self._view.grants_on(node))

    def _look(self, uid: str) -> None:
        known = self._view.pod(uid)
        if known is None:
            return
        try:
            pod = self._api.get(PODS, known)
        except GoneError:
            self._view.forget_pod(uid)
            return
        if pod.uid == uid:
            self._view.see_pod(pod, watched=False)
        else:
            self._view.forget_pod(uid)

    def _delete(self, pod: Pod, other: Pod, conflict: Conflict) -> None:
        text = (
            f"{pod.namespace}/{pod.name} and {other.namespace}/{other.name} were granted {conflict.over.value}"
            f" of card {conflict.card} on {conflict.node}; {pod.namespace}/{pod.name} was bound later"
            " and is deleted"
        )
        self._deletions.delete(pod, Event.SLICE_CONFLICT, text)


class CoveredPods:
    """Deletes pods whose containers agents report as covered. `sweep` is called about once a second."""

    def __init__(self, view: ClusterView, leader: Leader, deletions: Deletions) -> None:
        self._view = view
        self._leader = leader
        self._deletions = deletions

    def sweep(self) -> None:
        """Delete the pods that are reported as covered now, if this replica leads."""
        if self._leader.why_not():
            return
        for pod, container in self._found():
            text = (
                f"something covers the files that limit container {container} on {pod.node}: the pod is deleted"
                " (coveredPods: delete)"
            )
            try:
                self._deletions.delete(pod, Event.COVERED_POD_DELETED, text)
            except ApiError as error:
                log.warning("%s/%s stays for now: %s", pod.namespace, pod.name, error)

    def _found(self) -> list[tuple[Pod, str]]:
        """The running pods that the agent of their own node reports, each with one of its covered containers."""
        with self._view.lock:
            found = {
                pod.uid: (pod, report.container)
                for node in self._view.reports.nodes_with_covered()
                for report in self._view.reports.covered(node)
                if (pod := self._view.pod(report.pod)) is not None and pod.node == node
            }
        return [(pod, container) for pod, container in found.values() if not (pod.deleting or pod.ended)]


def _age(pod: Pod) -> tuple[str, str, str]:
    return pod.bound or _NOT_SHOWN_YET, pod.created, pod.uid
