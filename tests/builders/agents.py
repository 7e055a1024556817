"""Pods of node agents in an API server."""

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.kube.api import PODS, Ref
from tests.builders import objects


def agent_pod(admin: KubeClient, port: int, node: str) -> None:
    """Create the running pod of a node's agent, which answers on this port of the loopback address."""
    labels = {"app.kubernetes.io/name": "vgpu", "app.kubernetes.io/component": "node"}
    container = objects.container("agent", ports=[{"name": "http", "containerPort": port}])
    made = objects.pod("agent", metadata={"labels": labels}, nodeName=node, containers=[container])
    admin.create(PODS, made, "vgpu-system")
    running = {"status": {"phase": "Running", "podIP": "127.0.0.1"}}
    admin.patch(PODS, Ref("agent", "vgpu-system"), running, subresource="status")
