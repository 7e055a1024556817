"""Deletions of pods by the leader, each with an event that says why.

Only one fenced leader makes grants, but two live grants may still overlap: if somebody writes that a pod has ended
while its containers run, its slices are granted again. The running pod keeps the slices. The other pod is deleted; its
owner creates a new pod, which is placed again. The agent of the node decides finally: it starts no container on slices
that another container uses, and reports the refused container. As long as there is no such report, the leader decides
by the status of the two pods. If only one pod runs, the other pod is deleted. If no pod runs, the pod that was bound
later is deleted. If both pods run, the leader waits for the report.

A pod whose limits may not hold is deleted if the operator has configured it: a pod in which something covers the files
that the agent mounted (`coveredPods`), or a pod that bypasses the library (`enforcement` of the card's family). The
agent reports such a pod in the node's inventory, and in an event.
"""

import logging
from collections.abc import Collection

from device_plugin.allocator.service import Service, Shared
from device_plugin.cluster.announce import announce
from device_plugin.core.contract.cards import Inventory, ReportedSlice, SliceState
from device_plugin.core.contract.events import Event
from device_plugin.core.contract.grants import Grant
from device_plugin.core.ledger import Conflict, Holder, Ledger
from device_plugin.core.pods import Pod
from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import ApiError, GoneError
from device_plugin.state.view import read_again

log = logging.getLogger(__name__)

_NOT_SHOWN_YET = "~"  # sorts after every time
_COVERED = (
    "something covers the files that limit container {} on {}: the pod is deleted (coveredPods: delete)"
)
_UNENFORCED = (
    "container {} uses its card on {} and bypasses the library that limits it: the pod is deleted"
    " (enforcement: kill)"
)
_REFUSED = (
    "container {} cannot start on {}, because {} still runs on its slice: the pod is deleted, so that its owner makes"
    " another, which is placed again"
)


def losers(inventory: Inventory | None, held: Collection[tuple[Pod, Grant]]) -> list[Conflict]:
    """The conflicts on one node that end a pod: `holder` is the pod to delete, `other` the pod that keeps the slices.

    The pod to delete does not run; the other pod runs, or was bound earlier. If neither runs, and the time is unknown
    at which one of them was bound, no pod is deleted here: the agent decides.
    """
    running: set[Holder] = {pod.uid for pod, _ in held if _runs(pod)}
    ledger = Ledger()
    found = []
    for pod, grant in sorted(held, key=lambda item: (not _runs(item[0]), *_age(item[0]))):
        if inventory is not None:
            ledger.set_node(grant.node, inventory)
        conflicts = ledger.hold(grant)
        lost = [each for each in conflicts if not _runs(pod) and (each.other in running or pod.bound)]
        if lost:
            found.append(lost[0])
            ledger.release(pod.uid)
    return found


class Deletions(Service):
    """Deletes pods that lose a conflict of grants, and pods that a node's agent reports.

    Each deletion has a log line and one event; the events are written after all deletions. A pod in which a mount hides
    the files that limit it (reported as covered) is deleted only if `covered_too`. A pod that bypasses the library is
    deleted only if the agent's report asks for its end.
    """

    def __init__(self, shared: Shared, api: Api, *, covered_too: bool) -> None:
        super().__init__(shared)
        self._api = api
        self._covered_too = covered_too
        # The UIDs of deleted pods that the watch may still show; and the events that are not written yet.
        self._deleted: set[str] = set()
        self._unsaid: list[tuple[Pod, Event, str]] = []

    def sweep(self) -> None:
        """Delete the pods that lose a conflict of grants, and the pods that their agents report as unable to run.

        Does nothing unless this replica leads. Called about once a second.
        """
        if self._why_not_leading():
            return
        for node in self._view.suspects():
            try:
                self._judge(node)
            except ApiError as error:
                log.warning("overlapping grants on %s: %s; trying again", node, error)
                self._view.suspect(node)
        for pod, report in self._reported():
            try:
                self._delete(pod, *self._why(pod, report))
            except ApiError as error:
                log.warning("%s/%s stays for now: %s", pod.namespace, pod.name, error)
        unsaid, self._unsaid = self._unsaid, []
        for pod, event, text in unsaid:
            announce(self._api, pod, event, text)

    def _judge(self, node: str) -> None:
        """Read the pods on a node whose grants conflict, and delete those that lose (`losers`). Raises ApiError."""
        # Our view may be out of date: read all pods in conflict before a pod is deleted.
        for known in self._in_conflict(node):
            read_again(self._api, self._view, known)
        for conflict in self._losers(node):
            pod, other = self._view.pods.get(conflict.holder), self._view.pods.get(conflict.other)
            if pod is None or other is None or pod.deleting:
                continue
            less = "does not run" if _runs(other) else "was bound later"
            text = (
                f"{pod.namespace}/{pod.name} and {other.namespace}/{other.name} were granted {conflict.over.value}"
                f" of card {conflict.card} on {conflict.node}; {pod.namespace}/{pod.name} {less} and is deleted"
            )
            self._delete(pod, Event.SLICE_CONFLICT, text)

    def _in_conflict(self, node: str) -> list[Pod]:
        """The pods on a node that have not ended and whose grants conflict with slices of other holders."""
        with self._view.lock:
            ledger = self._view.ledger
            held = [(pod, ledger.grant(pod.uid)) for pod in self._view.pods.on(node)]
            return [pod for pod, grant in held if grant is not None and ledger.conflicts(grant)]

    def _losers(self, node: str) -> list[Conflict]:
        with self._view.lock:
            held = [(pod, self._view.ledger.grant(pod.uid)) for pod in self._view.pods.on(node)]
            granted = [(pod, grant) for pod, grant in held if grant is not None]
            return losers(self._view.node_news.inventory(node), granted)

    def _reported(self) -> list[tuple[Pod, ReportedSlice]]:
        """The pods to delete because the agent of their own node reports them, each with one of the agent's reports."""
        with self._view.lock:
            found = {
                pod.uid: (pod, report)
                for node in self._view.reports.nodes_with_living()
                for report in self._view.reports.of_living(node)
                if report.end or (self._covered_too and report.state is SliceState.COVERED)
                if (pod := self._view.pods.get(report.pod)) is not None and pod.node == node
            }
        return [(pod, report) for pod, report in found.values() if not (pod.deleting or pod.ended)]

    def _why(self, pod: Pod, report: ReportedSlice) -> tuple[Event, str]:
        """The event and the text that say why a reported pod is deleted."""
        if report.state is SliceState.REFUSED:
            others = " and ".join(self._in_the_way(pod)) or "another container"
            return Event.SLICE_CONFLICT, _REFUSED.format(report.container, pod.node, others)
        if report.state is SliceState.UNENFORCED:
            return Event.UNENFORCED_POD_DELETED, _UNENFORCED.format(report.container, pod.node)
        return Event.COVERED_POD_DELETED, _COVERED.format(report.container, pod.node)

    def _in_the_way(self, pod: Pod) -> list[str]:
        """The namespaces and names of other pods, ended pods too, that hold slices of this pod's grant."""
        with self._view.lock:
            grant = self._view.ledger.grant(pod.uid)
            holders = {each.other for each in self._view.ledger.conflicts(grant)} if grant is not None else ()
            found = [self._view.pods.get(each) or self._view.reports.outliving(each) for each in holders]
        return sorted(f"{other.namespace}/{other.name}" for other in found if other is not None)

    def _delete(self, pod: Pod, event: Event, text: str) -> None:
        """Delete the pod; at its first deletion, log why and queue an event for `sweep`. Raises ApiError."""
        self._deleted = {uid for uid in self._deleted if self._view.pods.get(uid) is not None}
        try:
            self._api.delete(PODS, pod)
        except GoneError:
            self._view.pod_news.gone(pod.uid)
            return
        if pod.uid not in self._deleted:
            self._deleted.add(pod.uid)
            log.warning("%s pod=%s/%s: %s", event, pod.namespace, pod.name, text)
            self._unsaid.append((pod, event, text))


def _runs(pod: Pod) -> bool:
    return pod.phase == "Running"


def _age(pod: Pod) -> tuple[str, str, str]:
    return pod.bound or _NOT_SHOWN_YET, pod.created, pod.uid
