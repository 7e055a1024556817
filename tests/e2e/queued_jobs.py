"""Jobs of a queue, and their pods."""

from typing import Any

from device_plugin.core.annotations import QUEUE
from device_plugin.kube.api import PODS
from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl
from tests.e2e.workloads import container, job, pod, slice_of


def queued(name: str, width: int, **fields: Any) -> dict[str, Any]:
    """An Indexed Job of a queue, whose pods ask for a card each of the first node."""
    template = pod(name, container(resources=slice_of(whole=1)), **nodes.on(nodes.first()))
    widths = {"completionMode": "Indexed", "completions": width, "parallelism": width}
    made = job(name, template, **widths, podReplacementPolicy="Failed", **fields)
    made["metadata"]["labels"] = {QUEUE: "default"}
    return made


def pods(kubectl: Kubectl, name: str) -> list[Any]:
    """The pods of a Job in the order of their indexes."""
    found = kubectl.items(PODS, labels=f"job-name={name}")
    return sorted(
        found, key=lambda each: int(each["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])
    )


def running(kubectl: Kubectl, name: str, count: int) -> bool:
    return [each["status"]["phase"] for each in pods(kubectl, name)] == ["Running"] * count
