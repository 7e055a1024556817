"""News of pods, nodes and Jobs, from watches, lists, reads and our own writes, in any order.

The known state of a pod only moves forward (unbound, bound, ended, gone). Only an end may be taken back, by the watch
alone. Nothing is decided here: the followers decide what a change means for waiting pods.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from device_plugin.core.batch import Job, QueuedJob
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.errors import AnnotationError
from device_plugin.core.ledger import Ledger
from device_plugin.core.pods import Node, Pod
from device_plugin.state.accounts import Accounts
from device_plugin.state.faults import Fault, Faults
from device_plugin.state.pods import KnownPods, alike, concerns_us
from device_plugin.state.promises import Promises
from device_plugin.state.reports import CardChanges

# Objects of a list that are recorded at a time with the lock held: other threads wait for it a few milliseconds.
BATCH = 20
Item = TypeVar("Item")
Lock = AbstractContextManager[object]


class Listed:
    """The kinds of objects that were listed; once all are, `begin` is called after each list."""

    KINDS = ("nodes", "pods", "jobs")

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self._done = set[str]()

    def __contains__(self, kind: str) -> bool:
        return kind in self._done

    def add(self, kind: str) -> None:
        """All objects of this kind were listed. The view's lock is held."""
        self._done.add(kind)
        if not self.why_not():
            self._begin()

    def why_not(self) -> str:
        """The kinds of objects that were not listed yet, as text; empty if all were."""
        absent = ", ".join(kind for kind in self.KINDS if kind not in self._done)
        return f"not listed yet: {absent}" if absent else ""


class PodNews:
    """Takes news of pods. Each call takes the lock."""

    def __init__(
        self, lock: Lock, pods: KnownPods, accounts: Accounts, listed: Listed, resources: Collection[str],
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._lock = lock
        self._pods = pods
        self._accounts = accounts
        self._listed = listed
        self._resources = resources
        self._clock = clock

    def see(self, pod: Pod, *, watched: bool = True) -> None:
        """Take news of a pod, from the watch or from elsewhere."""
        with self._lock:
            if self._pods.misplaced(pod):
                self._lose(pod.uid)
            before = self._pods.get(pod.uid)
            if self._pods.is_gone(pod.uid):
                return
            if before is None and not concerns_us(pod, self._resources):
                self._accounts.account_host(pod)
                return
            now = self._pods.see(pod, self._clock(), watched=watched)
            for follower in self._accounts.followers:
                follower.see(now, before)
            changed = before is None or not alike(before, now)
            if changed:
                self._accounts.account(now)
            for follower in self._accounts.followers:
                follower.account(now, before, changed=changed)

    def known(self, pod: Pod) -> Pod:
        """The pod as it is known here; a pod that the watch has not shown yet is recorded as `pod` shows it.

        kube-scheduler may be ahead of our watch, and does not ask again before something changes.
        """
        with self._lock:
            if self._pods.get(pod.uid) is None:
                self.see(pod, watched=False)
            return self._pods.get(pod.uid) or pod

    def forget(self, pod: Pod) -> None:
        """The watch shows that the pod is gone."""
        self.gone(pod.uid, ended=pod.ended)

    def gone(self, uid: str, *, ended: bool = False) -> None:
        """Forget a pod whose object is gone, and free its slices.

        If it was bound and was not seen to end, they stay held for 4 s, or as long as its agent reports them.
        """
        with self._lock:
            if not ended:
                self._accounts.vanish(uid, self._clock())
            if self._pods.get(uid) is not None or self._accounts.reserves(uid):
                self._pods.forget(uid)
                self._accounts.forget(uid)
            else:
                self._accounts.free(uid)

    def sync(self, pods: Iterable[Pod]) -> None:
        """Take a list of all pods from the watch; pods that it had shown before and does not list are gone."""
        # In the order of their arrival: the newer count more for what is to be expected.
        pods = sorted(pods, key=lambda pod: pod.created)
        listed = {pod.uid for pod in pods}
        take(self._lock, pods, self.see)
        take(self._lock, self._pods.vanished(listed), self.gone)
        self._end_list(listed)

    def doubt(self) -> None:
        """Let the next news of each pod count as it is: etcd was restored, and a list of all pods follows.

        News that comes from now on stays, whatever that list says: it may be read before a Binding of ours is done.
        """
        with self._lock:
            self._pods.doubt()

    def go_without(self) -> None:
        """Work though pods cannot be read: none is known until a list shows them again, and none counts as gone."""
        take(self._lock, [pod.uid for pod in self._pods.all()], self._lose)
        self._end_list(())

    def _lose(self, uid: str) -> None:
        self._pods.remove(uid)
        self._accounts.forget(uid)

    def _end_list(self, listed: Collection[str]) -> None:
        with self._lock:
            self._accounts.free_hosts(listed)
            self._listed.add("pods")


class NodeNews:
    """Takes news of nodes. Each call takes the lock."""

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

    def see(self, node: Node) -> None:
        """Take a node's inventory; an unusable one counts as none, and the grants on the node stay held.

        News that is older than what is known changes nothing: the watch may be ahead of a list.
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
            taken = self._changes.taken(node, self.inventory(node.name), inventory, self._clock())
            if self._changes.waits(node.name):
                fault = fault or "its cards change too often"
            if fault:
                self._faults.put(node.name, Fault("inventory", node.name, fault))
            else:
                self._faults.clear("inventory", node.name)
            # Nothing need be known of the thousands of nodes without cards.
            self._accounts.set_inventory(node.name, taken, node.room)

    def apply_due(self, now: float) -> None:
        """Apply the changes of cards that had to wait. The lock is held."""
        for node in self._changes.due(now):
            self.see(node)

    def forget(self, node: Node) -> None:
        """The watch shows that the node is gone."""
        self.gone(node.name)

    def gone(self, name: str) -> None:
        """The node object is gone; the grants of its pods stay held until the pods are gone."""
        with self._lock:
            self._versions.pop(name, None)
            self._faults.clear("inventory", name)
            self._changes.forget(name)
            self._accounts.set_inventory(name, None)

    def sync(self, nodes: Iterable[Node]) -> None:
        """Take a list of all nodes."""
        listed = {node.name: node for node in nodes}
        take(self._lock, [*listed.values()], self.see)
        with self._lock:
            known = set(self._ledger.nodes()) | self._faults.keys("inventory") | self._versions.keys()
        take(self._lock, [*(known - listed.keys())], self.gone)
        with self._lock:
            self._listed.add("nodes")

    def doubt(self) -> None:
        """Let the next news of each node count, whatever its version: etcd was restored, and a list follows."""
        with self._lock:
            self._versions = dict.fromkeys(self._versions, 0)
            self._changes = CardChanges()

    def inventory(self, node: str) -> Inventory | None:
        """The node's inventory, if its agent publishes one."""
        with self._lock:
            known = self._ledger.node(node)
        return known.inventory if known is not None else None


class JobNews:
    """Takes news of Jobs with the queue label. Each call takes the lock."""

    def __init__(self, lock: Lock, promises: Promises, listed: Listed) -> None:
        self._lock = lock
        self._promises = promises
        self._listed = listed

    def see(self, job: QueuedJob) -> None:
        """Take news of a Job."""
        with self._lock:
            self._promises.see(job)

    def forget(self, job: QueuedJob) -> None:
        """The Job is gone, or no longer has the label."""
        with self._lock:
            self._promises.forget(job.uid)

    def sync(self, jobs: Iterable[QueuedJob]) -> None:
        """Take a list of all Jobs."""
        listed = {job.uid: job for job in jobs}
        take(self._lock, [*listed.values()], self._promises.see)
        with self._lock:
            gone = self._promises.jobs() - listed.keys()
        take(self._lock, [*gone], self._promises.forget)
        with self._lock:
            self._listed.add("jobs")


class FullJobNews:
    """Takes news of Jobs as a process knows them that plans them."""

    def __init__(self, news: JobNews) -> None:
        self._news = news

    def see(self, job: Job) -> None:
        """Take news of a Job."""
        self._news.see(job.queued)

    def forget(self, job: Job) -> None:
        """The Job is gone, or no longer has the label."""
        self._news.forget(job.queued)

    def sync(self, jobs: Iterable[Job]) -> None:
        """Take a list of all Jobs."""
        self._news.sync(job.queued for job in jobs)


def take(lock: Lock, items: Sequence[Item], see: Callable[[Item], object]) -> None:
    """Call `see` with each of the items, BATCH of them at a time: meanwhile other threads can have the lock."""
    for start in range(0, len(items), BATCH):
        with lock:
            for item in items[start : start + BATCH]:
                see(item)
