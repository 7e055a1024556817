"""The API server as the cluster service sees it: which errors leave open whether something was written."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from device_plugin.adapters.kube.client import EventSpec, KubeClient
from device_plugin.adapters.kube.errors import ConflictError, KubeError, NotFoundError
from device_plugin.cluster.ports import ApiError, GoneError, Lease, RefusedError, UnknownError
from device_plugin.core.events import Event
from device_plugin.core.pods import Node, Pod

# Answers that are given before anything is written. A 409 is not among them: it may be our own earlier write.
_NOTHING_WRITTEN = {400, 401, 403, 413, 415, 422, 429}


class ClusterApi:
    """`cluster.ports.Api` on a KubeClient."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def pods(self) -> Sequence[Pod]:
        """All pods, from a quorum."""
        with _translated():
            return self._client.list_pods()

    def nodes(self) -> Sequence[Node]:
        """All nodes, from a quorum."""
        with _translated():
            return self._client.list_nodes()

    def pod(self, namespace: str, name: str) -> Pod:
        """A pod as it is now. Raises GoneError."""
        with _translated():
            return self._client.get_pod(namespace, name)

    def lease(self, namespace: str, name: str) -> Lease | None:
        """The Lease, or None if nobody has made it yet."""
        try:
            with _translated():
                return Lease(*self._client.get_lease(namespace, name))
        except GoneError:
            return None

    def bind(self, pod: Pod, node: str, annotations: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Bind the pod of this uid, annotating and labelling it in the same write."""
        with _translated():
            self._client.bind(pod.namespace, pod.name, pod.uid, node, annotations, labels)

    def delete(self, pod: Pod) -> None:
        """Delete the pod of this uid. Raises GoneError if it is another one's by now."""
        with _other_pod_is_gone(), _translated():
            self._client.delete_pod(pod.namespace, pod.name, pod.uid)

    def evict(self, pod: Pod, *, dry: bool = False) -> None:
        """Evict the pod of this uid. Raises RefusedError where a PodDisruptionBudget forbids it now."""
        with _other_pod_is_gone(), _translated():
            self._client.evict_pod(pod.namespace, pod.name, pod.uid, dry=dry)

    def touch(self, pod: Pod) -> None:
        """Write the annotation vgpu.io/touched of the pod of this uid, so that kube-scheduler tries the pod again.

        Raises GoneError, or RefusedError for another pod of that name. A conflict says nothing of the pod: a patch has
        no precondition.
        """
        with _translated():
            self._client.touch_pod(pod.namespace, pod.name, pod.uid)

    def warn(self, pod: Pod, event: Event, message: str) -> None:
        """Post a Warning event about a pod."""
        with _translated():
            self._client.post_event(EventSpec(pod.namespace, "Pod", pod.name, pod.uid, event, message))


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except NotFoundError as error:
        raise GoneError(str(error)) from error
    except KubeError as error:
        kind: type[ApiError] = RefusedError if error.status in _NOTHING_WRITTEN else UnknownError
        raise kind(str(error)) from error


@contextmanager
def _other_pod_is_gone() -> Iterator[None]:
    """A conflict with the uid that was named means that the pod's name is another's by now."""
    try:
        yield
    except UnknownError as error:
        if isinstance(error.__cause__, ConflictError):
            raise GoneError(str(error)) from error
        raise
