"""The live replicas of the job engine: the pods with the same controller as this replica's own pod."""

from collections.abc import Iterable

from device_plugin.core.pods import Pod


class LiveReplicas:
    """Holds the running pods of the job engine's replicas. `name` and `namespace` name this replica's own pod.

    One thread changes it.
    """

    def __init__(self, name: str, namespace: str) -> None:
        self._name = name
        self._namespace = namespace
        # By controller's UID: its pods that live. Few pods of other controllers than ours are in this namespace.
        self._pods: dict[str, frozenset[str]] = {}
        self._owners: dict[str, str] = {}

    def names(self) -> frozenset[str]:
        """The names of the replicas' pods; none if this replica runs outside of the cluster. Any thread may call it."""
        return self._pods.get(self._owners.get(self._name, ""), frozenset())

    def see(self, pod: Pod) -> None:
        """Record a running pod of this namespace; remove the pod if it does not run, or is being deleted.

        Pods of other namespaces, and pods without an owner, are ignored.
        """
        if pod.namespace != self._namespace or not pod.owner_uid:
            return
        if pod.ended or pod.deleting or pod.phase != "Running":
            self.forget(pod)
            return
        self._owners[pod.name] = pod.owner_uid
        self._pods[pod.owner_uid] = self._pods.get(pod.owner_uid, frozenset()) | {pod.name}

    def forget(self, pod: Pod) -> None:
        """Remove a pod that is gone or is being deleted."""
        owner = self._owners.pop(pod.name, "") if pod.namespace == self._namespace else ""
        left = self._pods.pop(owner, frozenset()) - {pod.name}
        if left:
            self._pods[owner] = left

    def sync(self, pods: Iterable[Pod]) -> None:
        """Replace the known pods by a list of all pods."""
        self._pods, self._owners = {}, {}
        for pod in pods:
            self.see(pod)
