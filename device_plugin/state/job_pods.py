"""The pods of Jobs and of other workloads, as long as these pods run or wait, found by owner and by node."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager

from device_plugin.core.batch import Job
from device_plugin.core.pods import Pod
from device_plugin.core.workload_kinds import JOB


class JobPods:
    """Holds the pods of Jobs and workloads. Any thread may call it; callers of `of` and `succeeded` hold `lock`.

    `lock` is the lock of the Jobs. `changed` is called after each change, with the UID of the pod if it is gone, else
    with an empty text.
    """

    def __init__(self, lock: AbstractContextManager[object], changed: Callable[[str], None]) -> None:
        self._lock = lock
        self._changed = changed
        self._pods: dict[str, Pod] = {}
        # By namespace, and UID of their Job or label of their workload: a tenant may name a Job of another namespace as
        # a pod's owner.
        self._of: dict[tuple[str, str], dict[str, Pod]] = {}
        # In the same way: the UIDs of pods of workloads that asked for cards and have succeeded.
        self._succeeded: dict[tuple[str, str], set[str]] = {}
        self._ended: dict[str, tuple[str, str]] = {}
        # By node, then by namespace and name.
        self._on: dict[str, dict[tuple[str, str], Pod]] = {}
        self.listed = False
        """True once all pods were listed."""

    def of(self, job: Job) -> Collection[Pod]:
        """The pods of a Job that have not ended.

        For a workload of another kind whose template asks for cards, only its pods that ask for cards are returned.
        """
        if job.kind is JOB:
            return self._of.get((job.namespace, job.uid), {}).values()
        found = self._of.get((job.namespace, job.pods_label), {}).values() if job.pods_label else ()
        return [pod for pod in found if pod.containers] if job.template.containers else found

    def succeeded(self, job: Job) -> int:
        """The number of a workload's pods that asked for cards, have succeeded and still exist.

        0 for a Job, because a Job's own status has this number.
        """
        return len(self._succeeded.get((job.namespace, job.pods_label), ())) if job.pods_label else 0

    def on(self, node: str) -> Mapping[tuple[str, str], Pod]:
        """The pods that are bound to a node, by namespace and name. It needs no lock."""
        # The copy is made in one step of the interpreter, whatever other threads do.
        return dict(self._on.get(node, {}))

    def see(self, pod: Pod) -> None:
        """Record a pod if it belongs to a Job or another workload; an ended pod is removed, and its success counted."""
        if pod.owner == "Job" or pod.workload:
            with self._lock:
                self._keep(pod)

    def see_again(self, pod: Pod) -> None:
        """Record the pod that the API server returned for a write, unless the pod is gone by now."""
        with self._lock:
            if pod.uid in self._pods:
                self._keep(pod)

    def forget(self, pod: Pod) -> None:
        """Remove a pod that is gone."""
        self.gone(pod.uid)

    def gone(self, uid: str) -> None:
        """Remove the pod with this UID, which is gone; it does not count as succeeded any more."""
        with self._lock:
            pod, counted = self._pods.get(uid), self._ended.pop(uid, None)
            if pod is not None:
                self._drop(pod)
            if counted is not None:
                self._succeeded[counted].discard(uid)
                if not self._succeeded[counted]:
                    del self._succeeded[counted]
                self._changed(uid)

    def sync(self, pods: Iterable[Pod]) -> None:
        """Record a list of all pods; known pods that are not listed are removed."""
        listed = set()
        for pod in pods:
            listed.add(pod.uid)
            self.see(pod)
        for uid in (self._pods.keys() | self._ended.keys()) - listed:
            self.gone(uid)
        self.listed = True

    def _keep(self, pod: Pod) -> None:
        before = self._pods.get(pod.uid)
        if pod.ended or before == pod:
            if pod.ended:
                self._end(pod)
            if pod.ended and before is not None:
                self._drop(before)
            return
        if before is not None and _owners(before) != _owners(pod):
            self._drop(before)
        self._pods[pod.uid] = pod
        for owner in _owners(pod):
            self._of.setdefault(owner, {})[pod.uid] = pod
        if pod.node:
            self._on.setdefault(pod.node, {})[pod.namespace, pod.name] = pod
        self._changed("")

    def _end(self, pod: Pod) -> None:
        """Count an ended pod of a workload in `succeeded`, if the pod asked for cards and has succeeded.

        The workload's controller does not create such a pod again.
        """
        if pod.phase == "Succeeded" and pod.workload and pod.containers and pod.uid not in self._ended:
            owner = self._ended[pod.uid] = pod.namespace, pod.workload
            self._succeeded.setdefault(owner, set()).add(pod.uid)
            self._changed("")

    def _drop(self, pod: Pod) -> None:
        del self._pods[pod.uid]
        self._leave(pod)
        for owner in _owners(pod):
            of = self._of[owner]
            del of[pod.uid]
            if not of:
                del self._of[owner]
        self._changed(pod.uid)

    def _leave(self, pod: Pod) -> None:
        on, name = self._on.get(pod.node, {}), (pod.namespace, pod.name)
        # A newer pod may have the name already.
        if (other := on.get(name)) is not None and other.uid == pod.uid:
            del on[name]
            if not on:
                del self._on[pod.node]


def _owners(pod: Pod) -> Collection[tuple[str, str]]:
    """The keys of a pod in the index: its namespace with its Job's UID, and its namespace with its workload's label.

    A key is left out if the pod has no Job, or no such label.
    """
    named = pod.owner_uid if pod.owner == "Job" else "", pod.workload
    return [(pod.namespace, name) for name in named if name]
