"""News of pods, nodes and Jobs, from watches, lists, reads and our own writes, in any order.

The known state of a pod only moves forward: unbound, bound, ended, gone. Only the watch can show that an ended pod has
not ended. This module only records: the followers decide what a change means for waiting pods.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from device_plugin.core.batch import Job
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.errors import AnnotationError
from device_plugin.core.ledger import Ledger
from device_plugin.core.pods import Node, Pod
from device_plugin.core.workload_kinds import JOB, MAKERS, WorkloadKind
from device_plugin.state.accounts import Accounts
from device_plugin.state.faults import Fault, Faults
from device_plugin.state.pods import KnownPods, alike, concerns_us
from device_plugin.state.promises import Promises
from device_plugin.state.records import QueuedJob
from device_plugin.state.reports import CardChanges
from device_plugin.state.workload_gangs import WorkloadGangs

# Objects of a list that are recorded at a time with the lock held: other threads wait for it a few milliseconds.
BATCH = 20
Item = TypeVar("Item")
Lock = AbstractContextManager[object]


class Listed:
    """Records which kinds of objects were listed; calls `begin` once all were, and again after each further list."""

    KINDS = ("nodes", "pods", "jobs")

    def __init__(self, begin: Callable[[], None], *more: str) -> None:
        """`more` are kinds that must be listed besides KINDS."""
        self._begin = begin
        self._kinds = (*self.KINDS, *more)
        self._done = set[str]()
        # Each decision asks for it.
        self._why_not = self._absent()

    def __contains__(self, kind: str) -> bool:
        return kind in self._done

    def add(self, kind: str) -> None:
        """Record that all objects of this kind were listed; if all kinds are listed now, call `begin`.

        The cluster view's lock is held.
        """
        self._done.add(kind)
        self._why_not = self._absent()
        if not self._why_not:
            self._begin()

    def why_not(self) -> str:
        """The kinds of objects that were not listed yet, as text; empty if all were."""
        return self._why_not

    def _absent(self) -> str:
        absent = ", ".join(kind for kind in self._kinds if kind not in self._done)
        return f"not listed yet: {absent}" if absent else ""


class PodNews:
    """Brings news of pods (new, changed, gone, listed) into the cluster's view.

    Each public method takes the cluster view's lock.
    """

    def __init__(
        self, lock: Lock, pods: KnownPods, accounts: Accounts, listed: Listed, resources: Collection[str],
        clock: Callable[[], float], scheduler: str = "",
    ) -> None:  # fmt: skip
        """`scheduler` is the scheduler whose pods may ask by ResourceClaims; empty if claims are not served."""
        self._lock = lock
        self._scheduler = scheduler
        self.gangs = WorkloadGangs(self._again)
        """The gangs of queued workloads, to which pods are assigned as they are seen."""
        self._pods = pods
        self._accounts = accounts
        self._listed = listed
        self._resources = resources
        self._clock = clock

    def see(self, pod: Pod, *, watched: bool = True) -> None:
        """Record a pod's state; `watched` is false if it comes not from the watch, but from a list, a read or a write.

        A pod that neither asks for a slice nor has a grant is not kept: only the CPU, memory and disk that it takes are
        recorded. A pod that is known as gone changes nothing. A pod of a queued workload gets the labels of its gang.
        """
        with self._lock:
            if self._pods.misplaced(pod):
                self._lose(pod.uid)
            before = self._pods.get(pod.uid)
            if self._pods.is_gone(pod.uid):
                return
            if before is None and not concerns_us(pod, self._resources, self._scheduler):
                self._accounts.account_host(pod)
                return
            self.gangs.note(pod)
            pod = self.gangs.labelled(pod)
            now = self._pods.see(pod, self._clock(), watched=watched)
            for follower in self._accounts.followers:
                follower.see(now, before)
            changed = before is None or not alike(before, now)
            if changed:
                self._accounts.account(now)
            for follower in self._accounts.followers:
                follower.account(now, before, changed=changed)

    def known(self, pod: Pod) -> Pod:
        """The pod as it is known here; a pod that is not known yet is recorded first.

        kube-scheduler may ask for a pod before our watch has shown it, and does not ask again until something changes.
        """
        with self._lock:
            if self._pods.get(pod.uid) is None:
                self.see(pod, watched=False)
            return self._pods.get(pod.uid) or pod

    def _again(self, uid: str) -> None:
        """Record a known pod again, with the labels of its changed gang."""
        pod = self._pods.get(uid)
        if pod is not None:
            self.see(pod, watched=False)

    def claim_changed(self, uid: str) -> None:
        """Forget the request of an unbound pod whose ResourceClaim has changed, and report the pod to the followers."""
        with self._lock:
            pod = self._pods.get(uid)
            if pod is not None and not pod.node:
                self._pods.doubt_request(uid)
                for follower in self._accounts.followers:
                    follower.claim_changed(pod)

    def forget(self, pod: Pod) -> None:
        """Remove a pod of which the watch shows that it is gone."""
        self.gone(pod.uid, ended=pod.ended)

    def gone(self, uid: str, *, ended: bool = False) -> None:
        """Remove the pod with this UID, which is gone, and free its slices.

        If the pod was bound and `ended` is false, its slices stay held for 4 s, or as long as the pod's agent reports
        them.
        """
        with self._lock:
            self.gangs.drop(uid)
            if not ended:
                self._accounts.vanish(uid, self._clock())
            if self._pods.get(uid) is not None or self._accounts.reserves(uid):
                self._pods.forget(uid)
                self._accounts.forget_pod(uid)
            else:
                self._accounts.free(uid)

    def sync(self, pods: Iterable[Pod]) -> None:
        """Record a list of all pods from the watch; pods that the watch had shown, and does not list, are removed."""
        # In the order of their arrival: newer requests weigh more in the model of requests.
        pods = sorted(pods, key=lambda pod: pod.created)
        listed = {pod.uid for pod in pods}
        take(self._lock, pods, self.see)
        take(self._lock, self._pods.vanished(listed), self.gone)
        self._end_list(listed)

    def doubt(self) -> None:
        """Accept the next news of each pod even if it seems old: etcd was restored, and a list of all pods follows.

        News between this call and the list takes precedence over the list, which may have been read before a Binding of
        ours.
        """
        with self._lock:
            self._pods.doubt()

    def go_without(self) -> None:
        """Remove all pods because pods cannot be read any more; they do not count as gone, and may be listed again."""
        take(self._lock, [pod.uid for pod in self._pods.all()], self._lose)
        self._end_list(())

    def _lose(self, uid: str) -> None:
        self.gangs.drop(uid)
        self._pods.remove(uid)
        self._accounts.forget_pod(uid)

    def _end_list(self, listed: Collection[str]) -> None:
        with self._lock:
            self._accounts.free_hosts(listed)
            self._listed.add("pods")


class NodeNews:
    """Brings news of nodes (new, changed, gone, listed) into the cluster's view.

    Each public method takes the cluster view's lock.
    """

    def __init__(
        self, lock: Lock, ledger: Ledger, accounts: Accounts, faults: Faults, listed: Listed,
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._lock = lock
        self._ledger = ledger
        self._accounts = accounts
        self._faults = faults
        self._listed = listed
        self._clock = clock
        self._changes = CardChanges()
        # By name of each node: the number of the last change that was seen.
        self._versions: dict[str, int] = {}
        self._registrations: dict[str, int] = {}

    def see(self, node: Node) -> None:
        """Record a node's inventory; an inventory with a fault counts as none, but the grants on the node stay held.

        A version older than the known version changes nothing: the watch may be ahead of a list. If the cards change
        too often, the change must wait; until then the node gets no new slices.
        """
        with self._lock:
            if node.version < self._versions.get(node.name, 0):
                return
            self._versions[node.name] = node.version
            fault, inventory = "", None
            try:
                inventory = node.shared()
            except AnnotationError as error:
                fault = str(error)
            before = self.inventory(node.name)
            taken = self._changes.taken(node, before, inventory, self._clock())
            if taken is not None and taken.claims and not (before is not None and before.claims):
                self._registrations[node.name] = self.registrations(node.name) + 1
            if self._changes.waits(node.name):
                fault = fault or "its cards change too often"
            if fault:
                self._faults.put(node.name, Fault("inventory", node.name, fault))
            else:
                self._faults.clear("inventory", node.name)
            # Thousands of nodes without cards are not kept.
            self._accounts.set_inventory(node.name, taken, node.room)

    def apply_due(self, now: float) -> None:
        """Apply the changes of nodes' cards that came too often and have waited long enough. The lock is held."""
        for node in self._changes.due(now):
            self.see(node)

    def forget(self, node: Node) -> None:
        """Remove a node of which the watch shows that it is gone."""
        self.gone(node.name)

    def gone(self, name: str) -> None:
        """Remove a node that is gone; the grants of its pods stay held until the pods are gone."""
        with self._lock:
            self._versions.pop(name, None)
            self._faults.clear("inventory", name)
            self._changes.forget_node(name)
            self._registrations.pop(name, None)
            self._accounts.set_inventory(name, None)

    def sync(self, nodes: Iterable[Node]) -> None:
        """Record a list of all nodes; known nodes that are not listed are removed."""
        listed = {node.name: node for node in nodes}
        take(self._lock, [*listed.values()], self.see)
        with self._lock:
            known = set(self._ledger.nodes()) | self._faults.keys("inventory") | self._versions.keys()
        take(self._lock, [*(known - listed.keys())], self.gone)
        with self._lock:
            self._listed.add("nodes")

    def doubt(self) -> None:
        """Accept the next version of each node, even with a lower number: etcd was restored, and a list follows.

        Changes of cards that were held back because they came too often are dropped.
        """
        with self._lock:
            self._versions = dict.fromkeys(self._versions, 0)
            self._changes = CardChanges()

    def inventory(self, node: str) -> Inventory | None:
        """The node's inventory; None if its agent publishes none."""
        with self._lock:
            known = self._ledger.node(node)
        return known.inventory if known is not None else None

    def registrations(self, node: str) -> int:
        """The number of times that the node's agent began to prepare ResourceClaims.

        It begins each time the kubelet has registered it.
        """
        return self._registrations.get(node, 0)


class JobNews:
    """Brings news of Jobs with the queue label, or of the workloads of another `kind`, into the cluster's view.

    Each public method takes the cluster view's lock, except `of`.
    """

    def __init__(
        self, lock: Lock, promises: Promises, listed: Listed, gangs: WorkloadGangs, kind: WorkloadKind = JOB
    ) -> None:
        self._lock = lock
        self._promises = promises
        self._listed = listed
        self._gangs = gangs
        self._kind = kind
        self._uids = set[str]()
        self._others = dict[WorkloadKind, JobNews]()

    def of(self, kind: WorkloadKind) -> "JobNews":
        """The receiver of lists and changes of workloads of this kind; one object for each kind."""
        if kind not in self._others:
            self._others[kind] = JobNews(self._lock, self._promises, self._listed, self._gangs, kind)
        return self._others[kind]

    def see(self, job: QueuedJob) -> None:
        """Record a Job with its promises (slices kept for jobs), and a workload of another kind with its gang too.

        A workload that another workload's controller (MAKERS) has made is left out: its labels and its record may be
        copies.
        """
        workload = job if isinstance(job, Job) and job.kind is not JOB else None
        if workload is not None and workload.owner in MAKERS:
            return
        with self._lock:
            self._uids.add(job.uid)
            self._promises.see_job(job)
            if workload is not None:
                self._gangs.see(workload)

    def forget(self, job: QueuedJob) -> None:
        """Remove a Job, or a workload of the receiver's `kind`, that is gone or no longer has the queue label."""
        self._gone(job.uid)

    def _gone(self, uid: str) -> None:
        with self._lock:
            self._uids.discard(uid)
            self._promises.forget_job(uid)
            self._gangs.forget(uid)

    def sync(self, jobs: Iterable[QueuedJob]) -> None:
        """Record a list of all objects of the receiver's `kind`; known objects that are not listed are removed."""
        listed = {job.uid: job for job in jobs}
        take(self._lock, [*listed.values()], self.see)
        with self._lock:
            gone = self._uids - listed.keys()
        take(self._lock, [*gone], self._gone)
        if self._kind is JOB:
            with self._lock:
                self._listed.add("jobs")


def take(lock: Lock, items: Sequence[Item], see: Callable[[Item], object]) -> None:
    """Call `see` with each of the items, BATCH of them at a time, so that other threads get the lock in between."""
    for start in range(0, len(items), BATCH):
        with lock:
            for item in items[start : start + BATCH]:
                see(item)
