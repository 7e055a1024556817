"""The API server as the node agent needs it, on the client that both services share."""

import logging

from device_plugin.adapters.kube.client import EventSpec, KubeClient
from device_plugin.adapters.kube.errors import KubeError, NotFoundError
from device_plugin.core import annotations
from device_plugin.core.events import Event
from device_plugin.core.pods import Node, Pod
from device_plugin.node.ports import ApiSilentError, PodLookupError

log = logging.getLogger(__name__)


class NodeApi:
    """Calls for one node. Events and annotations that fail are logged; the caller goes on."""

    def __init__(self, client: KubeClient, node_name: str) -> None:
        self._client = client
        self._name = node_name

    def pod(self, namespace: str, name: str) -> Pod:
        """A pod as it is now. Raises PodLookupError, and ApiSilentError while the server is down."""
        try:
            return self._client.get_pod(namespace, name)
        except KubeError as error:
            silent = error.status == 0 or error.status >= 500
            raise (ApiSilentError if silent else PodLookupError)(str(error)) from error

    def node(self) -> Node | None:
        """The node we run on, or None if it cannot be had now."""
        try:
            return self._client.get_node(self._name)
        except NotFoundError:
            log.warning("the API server has no node %s: is nodeName right?", self._name)
        except KubeError as error:
            log.warning("reading node %s: %s", self._name, error)
        return None

    def publish(self, inventory: str) -> bool:
        """Write the inventory annotation; False if that failed."""
        try:
            self._client.annotate_node(self._name, {annotations.CARDS: inventory})
        except KubeError as error:
            log.warning("publishing the inventory: %s", error)
            return False
        return True

    def node_event(self, event: Event, message: str) -> None:
        """Post an event about this node. Its uid is its name, as in the kubelet's own events."""
        kind = "Warning" if event.about.warning else "Normal"
        self._post(EventSpec("", "Node", self._name, self._name, event, message, kind))

    def pod_event(self, pod: Pod, event: Event, message: str) -> None:
        """Post a Warning about a pod."""
        self._post(EventSpec(pod.namespace, "Pod", pod.name, pod.uid, event, message))

    def _post(self, event: EventSpec) -> None:
        try:
            self._client.post_event(event)
        except KubeError as error:
            log.warning("event %s: %s", event.reason, error)
