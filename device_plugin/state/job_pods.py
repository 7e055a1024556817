"""The pods of Jobs that have not ended, by their Job and by their node."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager

from device_plugin.core.batch import Job
from device_plugin.core.pods import Pod


class JobPods:
    """Holds the pods of Jobs. Any thread may call it; callers of `of` hold `lock`, the lock of the Jobs.

    `changed` is called after each change, with the UID of the pod if it is gone, else with an empty text.
    """

    def __init__(self, lock: AbstractContextManager[object], changed: Callable[[str], None]) -> None:
        self._lock = lock
        self._changed = changed
        self._pods: dict[str, Pod] = {}
        # By namespace and UID of their Job: a tenant may name a Job of another namespace as a pod's owner.
        self._of: dict[tuple[str, str], dict[str, Pod]] = {}
        # By node, then by namespace and name.
        self._on: dict[str, dict[tuple[str, str], Pod]] = {}
        self.listed = False
        """True once all pods were listed."""

    def of(self, job: Job) -> Collection[Pod]:
        """The pods of a Job."""
        return self._of.get((job.namespace, job.uid), {}).values()

    def on(self, node: str) -> Mapping[tuple[str, str], Pod]:
        """The pods that are bound to a node, by namespace and name. It needs no lock."""
        # The copy is made in one step of the interpreter, whatever other threads do.
        return dict(self._on.get(node, {}))

    def see(self, pod: Pod) -> None:
        """Record a pod if it belongs to a Job; a pod that has ended is removed."""
        if pod.owner == "Job":
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
        """Remove the pod with this UID, which is gone."""
        with self._lock:
            pod = self._pods.get(uid)
            if pod is not None:
                self._drop(pod)

    def sync(self, pods: Iterable[Pod]) -> None:
        """Record a list of all pods; known pods that are not listed are removed."""
        listed = set()
        for pod in pods:
            listed.add(pod.uid)
            self.see(pod)
        for uid in self._pods.keys() - listed:
            self.gone(uid)
        self.listed = True

    def _keep(self, pod: Pod) -> None:
        before = self._pods.get(pod.uid)
        if pod.ended or before == pod:
            if pod.ended and before is not None:
                self._drop(before)
            return
        self._pods[pod.uid] = pod
        self._of.setdefault((pod.namespace, pod.owner_uid), {})[pod.uid] = pod
        if pod.node:
            self._on.setdefault(pod.node, {})[pod.namespace, pod.name] = pod
        self._changed("")

    def _drop(self, pod: Pod) -> None:
        del self._pods[pod.uid]
        self._leave(pod)
        owner = pod.namespace, pod.owner_uid
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
