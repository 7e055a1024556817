"""Pods of node agents in an API server."""

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.kube.api import PODS, Ref
from tests.builders import objects


def agent_pod(admin: KubeClient, port: int, node: str, component: str = "node", name: str = "agent") -> None:
    """Create the running pod of a node's agent, which answers on this port of the loopback address.

    With another `component` it is a pod of another service.
    """
    labels = {"app.kubernetes.io/name": "vgpu", "app.kubernetes.io/component": component}
    container = objects.container("agent", ports=[{"name": "http", "containerPort": port}])
    made = objects.pod(name, metadata={"labels": labels}, nodeName=node, containers=[container])
    admin.create(PODS, made, "vgpu-system")
    running = {"status": {"phase": "Running", "podIP": "127.0.0.1"}}
    admin.patch(PODS, Ref(name, "vgpu-system"), running, subresource="status")
