"""The nodes with cards, whatever they are called."""

from functools import cache
from typing import Any

from device_plugin.kube.api import NODES
from tests.e2e.kubectl import Kubectl


@cache
def names() -> tuple[str, ...]:
    """All of them, in order."""
    found = Kubectl("").items(NODES, labels="vgpu.io/node=true")
    return tuple(sorted(node["metadata"]["name"] for node in found))


def get(name: str) -> Any:
    """The node as it is now."""
    return Kubectl("").get(NODES, name)


def first() -> str:
    """The one that a test uses when any will do."""
    return names()[0]


def on(node: str) -> dict[str, Any]:
    """The part of a pod's spec that sends it there."""
    return {"nodeSelector": {"kubernetes.io/hostname": node}}
