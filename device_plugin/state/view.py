"""The cluster as the watches show it: pods, inventories, reports, promises and loads, and who holds what in the ledger.

The ledger holds the grant of every bound pod that has not ended, every reservation, what containers hold that outlive
their pod, and what is kept for jobs. The known state of a pod only moves forward (unbound, bound, ended, gone), so
watch events, lists, reads and our own bindings may come in any order. Only an end may be taken back, by the watch
alone.

Nothing is decided here: the followers decide what a change means for waiting pods.
"""

import threading
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

from device_plugin.core.batch import QueuedJob
from device_plugin.core.cards import Inventory
from device_plugin.core.errors import AnnotationError
from device_plugin.core.grants import Grant
from device_plugin.core.hosts import NOTHING, HostAmounts
from device_plugin.core.ledger import Holder, Holding, Ledger, ReportHolder, ReservationStage, Snapshot
from device_plugin.core.pods import Node, Pod
from device_plugin.core.requests import resource_names
from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import GoneError
from device_plugin.state.faults import Fault, Faults
from device_plugin.state.loads import MeasuredLoads
from device_plugin.state.pods import KnownPods, alike, concerns_us, sound_grant
from device_plugin.state.promises import Promises
from device_plugin.state.reports import CardChanges, Outliving, Reports

# Objects of a list that are recorded at a time with the lock held: other threads wait for it a few milliseconds.
BATCH = 20
Item = TypeVar("Item")


class Follower(Protocol):
    """Observes changes of pods that ask for slices or hold some. The view's lock is held."""

    def see(self, pod: Pod, before: Pod | None) -> None:
        """Take news of a pod, which was `before` until now; the ledger does not show it yet."""

    def account(self, pod: Pod, before: Pod | None, *, changed: bool) -> None:
        """The ledger shows the news; `changed` is false where that makes no difference to slices or to waiting."""

    def forget(self, uid: str) -> None:
        """The pod is gone, or cannot be read any more."""

    def give_back(self, holder: Holder) -> None:
        """Release the holder's reservation if it is WAITING: it overlaps with slices that others hold."""


class ClusterView:
    """Take `lock` around several calls that belong together; each call takes it too.

    `decode` reads the grants of pods. It returns and raises what Grant.decode does; an adapter has a faster one.
    """

    def __init__(
        self, prefixes: Sequence[str], clock: Callable[[], float], stale_seconds: float = 60.0,
        wall: Callable[[], float] = time.time, decode: Callable[[str], Grant] = Grant.decode,
    ) -> None:  # fmt: skip
        self.lock = threading.RLock()
        self.ledger = Ledger()
        self.measured = MeasuredLoads(self.ledger, stale_seconds, clock)
        self.faults = Faults()
        self.reports = Reports()
        self.pods_listed = False
        self.nodes_listed = False
        self.jobs_listed = False
        self._card_changes = CardChanges()
        # By name of each node: the number of the last change that was seen.
        self._node_versions: dict[str, int] = {}
        self._clock = clock
        self._decode = decode
        self._resources = {name for prefix in prefixes for name in resource_names(prefix)}
        self.pods = KnownPods(tuple(prefixes))
        self.promises = Promises(self.ledger, self.pods, self.reports, self.faults, clock, wall)
        self._suspects: set[str] = set()
        self._followers: list[Follower] = []

    def follow(self, follower: Follower) -> None:
        """Tell `follower` of every change from now on."""
        self._followers.append(follower)

    def why_not_synced(self) -> str:
        """The kinds of objects that were not listed yet, as text; empty if all were."""
        missing = [("nodes", self.nodes_listed), ("pods", self.pods_listed), ("jobs", self.jobs_listed)]
        absent = ", ".join(what for what, listed in missing if not listed)
        return f"not listed yet: {absent}" if absent else ""

    def snapshot(self) -> Snapshot:
        """An immutable snapshot of the ledger, to be read without the lock."""
        with self.lock:
            return self.ledger.snapshot()

    def expire(self) -> None:
        """Remove old loads and the slices of pods that vanished, and apply changes of cards that had to wait."""
        with self.lock:
            self.measured.expire()
            now = self._clock()
            if now >= self.promises.first_end:
                self.promises.expire(now)
            for uid in self.reports.expired(now):
                self._free_ended(uid)
            for node in self._card_changes.due(now):
                self.see_node(node)

    def take(self, listed: Sequence[Item], see: Callable[[Item], object]) -> None:
        """Call `see` with each of the listed, BATCH of them at a time: meanwhile other threads can have the lock."""
        for start in range(0, len(listed), BATCH):
            with self.lock:
                for item in listed[start : start + BATCH]:
                    see(item)

    # Pods

    def see_pod(self, pod: Pod, *, watched: bool) -> None:
        """Take news of a pod, from the watch or from elsewhere."""
        with self.lock:
            if self.pods.misplaced(pod):
                self._lose_pod(pod.uid)
            before = self.pods.get(pod.uid)
            if self.pods.is_gone(pod.uid):
                return
            if before is None and not concerns_us(pod, self._resources):
                self._account_host(pod)
                return
            now = self.pods.see(pod, self._clock(), watched=watched)
            for follower in self._followers:
                follower.see(now, before)
            changed = before is None or not alike(before, now)
            if changed:
                self._account(now)
            for follower in self._followers:
                follower.account(now, before, changed=changed)

    def known(self, pod: Pod) -> Pod:
        """The pod as it is known here; a pod that the watch has not shown yet is recorded as `pod` shows it.

        kube-scheduler may be ahead of our watch, and does not ask again before something changes.
        """
        with self.lock:
            if self.pods.get(pod.uid) is None:
                self.see_pod(pod, watched=False)
            return self.pods.get(pod.uid) or pod

    def forget_pod(self, uid: str, *, ended: bool = False) -> None:
        """Forget a pod whose object is gone, and free its slices.

        If it was bound and was not seen to end, they stay held for 4 s, or as long as its agent reports them.
        """
        with self.lock:
            pod, grant = self.pods.get(uid), self.ledger.grant(uid)
            reservation = self.ledger.reservation(uid)
            unknown = reservation is not None and reservation.stage is ReservationStage.UNKNOWN
            if pod is not None and grant is not None and (pod.node or unknown) and not (pod.ended or ended):
                self.reports.vanish(pod, grant, self._clock())
            if pod is not None or reservation is not None:
                self.pods.forget(uid)
                self._forgotten(uid)
            self.free(uid)

    def sync_pods(self, pods: Iterable[Pod]) -> None:
        """Take a list of all pods from the watch; pods that it had shown before and does not list are gone."""
        # In the order of their arrival: the newer count more for what is to be expected.
        pods = sorted(pods, key=lambda pod: pod.created)
        listed = {pod.uid for pod in pods}
        self.take(pods, partial(self.see_pod, watched=True))
        self.take(self.pods.vanished(listed), self.forget_pod)
        with self.lock:
            self._end_list(listed)

    def doubt_pods(self) -> None:
        """Let the next news of each pod count as it is: etcd was restored, and a list of all pods follows.

        News that comes from now on stays, whatever that list says: it may be read before a Binding of ours is done.
        """
        with self.lock:
            self.pods.doubt()

    def work_without_pods(self) -> None:
        """Work though pods cannot be read: none is known until a list shows them again, and none counts as gone."""
        self.take([pod.uid for pod in self.pods.all()], self._lose_pod)
        with self.lock:
            self._end_list(())

    def free(self, uid: str) -> None:
        """End the pod's holding; slices that its processes may still use stay held."""
        with self.lock:
            before, vanished = self.ledger.holding(uid), self.reports.vanished(uid)
            if vanished is not None:
                self._keep(vanished)
            else:
                self.ledger.release(uid)
            if before is not None:
                self._hold_reported(before.node, uid)

    # Nodes

    def see_node(self, node: Node) -> None:
        """Take a node's inventory; an unusable one counts as none, and the grants on the node stay held.

        News that is older than what is known changes nothing: the watch may be ahead of a list.
        """
        with self.lock:
            if node.version < self._node_versions.get(node.name, 0):
                return
            self._node_versions[node.name] = node.version
            fault, inventory = "", None
            try:
                inventory = node.shared()
            except AnnotationError as error:
                fault = str(error)
            taken = self._card_changes.taken(node, self.inventory(node.name), inventory, self._clock())
            if self._card_changes.waits(node.name):
                fault = fault or "its cards change too often"
            if fault:
                self.faults.put(node.name, Fault("inventory", node.name, fault))
            else:
                self.faults.clear("inventory", node.name)
            # Nothing need be known of the thousands of nodes without cards.
            self._set_inventory(node.name, taken, node.room)

    def forget_node(self, name: str) -> None:
        """The node object is gone; the grants of its pods stay held until the pods are gone."""
        with self.lock:
            self._node_versions.pop(name, None)
            self.faults.clear("inventory", name)
            self._card_changes.forget(name)
            self._set_inventory(name, None)

    def sync_nodes(self, nodes: Iterable[Node]) -> None:
        """Take a list of all nodes."""
        listed = {node.name: node for node in nodes}
        self.take([*listed.values()], self.see_node)
        with self.lock:
            known = set(self.ledger.nodes()) | self.faults.keys("inventory") | self._node_versions.keys()
            gone = known - listed.keys()
        self.take([*gone], self.forget_node)
        with self.lock:
            self.nodes_listed = True
            self._begin_promises()

    def doubt_nodes(self) -> None:
        """Let the next news of each node count, whatever its version: etcd was restored, and a list follows."""
        with self.lock:
            self._node_versions = dict.fromkeys(self._node_versions, 0)
            self._card_changes = CardChanges()

    # Jobs

    def see_job(self, job: QueuedJob) -> None:
        """Take news of a Job with the queue label."""
        with self.lock:
            self.promises.see(job)

    def forget_job(self, uid: str) -> None:
        """The Job is gone, or no longer has the label."""
        with self.lock:
            self.promises.forget(uid)

    def sync_jobs(self, jobs: Iterable[QueuedJob]) -> None:
        """Take a list of all Jobs with the queue label."""
        listed = {job.uid: job for job in jobs}
        self.take([*listed.values()], self.promises.see)
        with self.lock:
            gone = self.promises.jobs() - listed.keys()
        self.take([*gone], self.promises.forget)
        with self.lock:
            self.jobs_listed = True
            self._begin_promises()

    def inventory(self, node: str) -> Inventory | None:
        """The node's inventory, if its agent publishes one."""
        with self.lock:
            known = self.ledger.node(node)
        return known.inventory if known is not None else None

    def written(self, grant: Grant) -> str:
        """The grant's annotation, with the names that the agent of its node has for the cards."""
        inventory = self.inventory(grant.node)
        cards = inventory.cards if inventory is not None else ()
        return grant.renamed({card.uuid: card.known_as for card in cards if card.known_as}).encode()

    def notes(self, nodes: Container[str]) -> Mapping[str, str]:
        """A text for refusals, by node, about any slices that outlive their pod or are kept for a job.

        It has no counts or times, so it seldom changes.
        """
        with self.lock:
            found = dict(self.reports.notes(nodes))
            for node, text in self.promises.notes(nodes).items():
                found[node] = f"{found[node]}; {text}" if node in found else text
            return found

    def suspects(self) -> set[str]:
        """Nodes where grants may overlap; each is returned once."""
        with self.lock:
            suspects, self._suspects = self._suspects, set()
            return suspects

    def suspect(self, node: str) -> None:
        """Look at the node's grants again later."""
        with self.lock:
            self._suspects.add(node)

    # With the lock held

    def _end_list(self, listed: Collection[str]) -> None:
        """Finish a list of pods: free what pods without slices hold that are not `listed`."""
        hosts = [holder for holder, held in self.ledger.holdings().items() if held.grant is None]
        for holder in hosts:
            if isinstance(holder, str) and holder not in listed and self.pods.get(holder) is None:
                self.free(holder)
        self.pods_listed = True
        self._begin_promises()

    def _lose_pod(self, uid: str) -> None:
        self.pods.remove(uid)
        self._forgotten(uid)
        self.free(uid)

    def _forgotten(self, uid: str) -> None:
        """Remove what was noted of a pod that is not known any more."""
        self.faults.clear("grant", uid)
        for follower in self._followers:
            follower.forget(uid)

    def _account_host(self, pod: Pod) -> None:
        """Record the host amounts of a pod that asks for no slice."""
        if pod.ended or not pod.node:
            self.free(pod.uid)
        else:
            self.ledger.put(Holding(holder=pod.uid, node=pod.node, host=pod.host))

    def _account(self, pod: Pod) -> None:
        if pod.ended:
            self.faults.clear("grant", pod.uid)
            self.free(pod.uid)
        elif pod.node:
            self._account_bound(pod)

    def _account_bound(self, pod: Pod) -> None:
        try:
            grant = sound_grant(pod, self.ledger.reservation(pod.uid), self._decode)
            self.faults.clear("grant", pod.uid)
        except AnnotationError as error:
            grant = None
            self.faults.put(pod.uid, Fault("grant", f"{pod.namespace}/{pod.name}", str(error)))
        held = Holding(holder=pod.uid, node=pod.node, grant=grant, host=pod.host)
        for conflict in self.ledger.put(held):
            reserved = self.ledger.reservation(conflict.other) is not None
            self._give_back(conflict.other)
            if not reserved and self._lives(conflict.other):
                # A pod that overlaps with an ended pod's slice is not deleted: the agent makes it wait.
                self._suspects.add(pod.node)
        self._hold_reported(pod.node, pod.uid)

    def _set_inventory(self, name: str, inventory: Inventory | None, whole: HostAmounts = NOTHING) -> None:
        known = self.ledger.node(name)
        if inventory is None:
            self.ledger.drop_node(name)
        else:
            self.ledger.set_node(name, inventory, whole)
        if inventory != (known.inventory if known is not None else None):
            for uid in self.reports.report(name, inventory):
                own = self.ledger.grant(uid)
                if own is not None and own.node == name:
                    self._free_ended(uid)
                self._hold_reported(name, uid)
            self.promises.changed(name)

    def _free_ended(self, uid: str) -> None:
        if not self._lives(uid) and self.ledger.reservation(uid) is None:
            self.free(uid)

    def _hold_reported(self, node: str, uid: str) -> None:
        """Hold the slices that the agent of a node reports of a pod, unless the pod itself holds slices there."""
        own, left = self.ledger.holding(uid), self.reports.reported(node, uid)
        if left is not None and (own is None or own.node != node):
            self._keep(left)
        else:
            self.ledger.release(ReportHolder(node, uid))
        self.promises.changed(node, uid)

    def _keep(self, left: Outliving) -> None:
        """Hold the slices that outlive a pod; reservations that overlap with them are released."""
        holding = Holding(holder=left.holder, node=left.grant.node, grant=left.grant)
        if self.ledger.holding(left.holder) == holding:
            return
        self.ledger.put(holding)
        for conflict in self.ledger.in_the_way(left.grant, left.holder):
            self._give_back(conflict.other)

    def _begin_promises(self) -> None:
        if not self.why_not_synced():
            self.promises.begin()

    def _give_back(self, holder: Holder) -> None:
        for follower in self._followers:
            follower.give_back(holder)

    def _lives(self, holder: Holder) -> bool:
        """True if the holder is a pod that exists and has not ended, as far as we know."""
        pod = self.pods.get(holder)
        return pod is not None and not pod.ended


def read_again(api: Api, view: ClusterView, pod: Pod) -> Pod | None:
    """The pod as the API server has it now, which is recorded; None if it is gone. Raises ApiError."""
    found: Pod | None = None
    with suppress(GoneError):
        found = api.get(PODS, pod)
    if found is None or found.uid != pod.uid:
        view.forget_pod(pod.uid)
        return None
    view.see_pod(found, watched=False)
    return found
