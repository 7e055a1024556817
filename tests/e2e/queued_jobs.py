"""Jobs of a queue, their pods, and the job engine: what it wrote, and its end."""

import signal
from pathlib import Path
from typing import Any

from device_plugin.core.contract.annotations import MAX_REPLICAS, MIN_REPLICAS, QUEUE
from device_plugin.kube.api import PODS
from device_plugin.kube.leases import LEASES
from hack.testbed import audit
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.workloads import container, job, pod, slice_of

ENGINE = "vgpu-jobs"


def queued(name: str, width: int, *containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """An Indexed Job of a queue on the first node, whose pods ask for a card each unless `containers` are given."""
    template = pod(name, *(containers or (one_card(),)), **nodes.on(nodes.first()))
    widths = {"completionMode": "Indexed", "completions": width, "parallelism": width}
    made = job(name, template, **{**widths, "podReplacementPolicy": "Failed", **fields})
    made["metadata"]["labels"] = {QUEUE: "default"}
    return made


def queued_on(node: str, name: str, width: int) -> dict[str, Any]:
    """A rigid Job whose pods may run on this node only, each with a card."""
    made = queued(name, width)
    made["spec"]["template"]["spec"] |= nodes.on(node)
    return made


def elastic(
    name: str, least: int, most: int, *containers: dict[str, Any], **annotations: str
) -> dict[str, Any]:
    """A Job of a queue that runs with `least` to `most` pods."""
    made = queued(name, most, *containers)
    bounds = {MIN_REPLICAS: str(least), MAX_REPLICAS: str(most)}
    made["metadata"]["annotations"] = {**bounds, **annotations}
    return made


def one_card(**fields: Any) -> dict[str, Any]:
    """A container that asks for a whole card."""
    return container(resources=slice_of(whole=1), **fields)


def pods(kubectl: Kubectl, name: str) -> list[Any]:
    """The pods of a Job in the order of their indexes."""
    found = kubectl.items(PODS, labels=f"job-name={name}")
    return sorted(
        found, key=lambda each: int(each["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])
    )


def running(kubectl: Kubectl, name: str, count: int) -> bool:
    return [each["status"]["phase"] for each in pods(kubectl, name)] == ["Running"] * count


def written(kubectl: Kubectl, log: Path, after: int) -> list[str]:
    """What the engine changed of the namespace's Jobs and pods since the audit log had this size."""
    changed = ("jobs", "jobs/status", "pods/status")
    return [
        f"{call.resource} {call.name}"
        for call in audit.calls(log, after)
        if (call.service, call.namespace, call.code) == (ENGINE, kubectl.namespace, 200)
        if call.writes and call.resource in changed
    ]


def kill_engine() -> None:
    """Kill the process of the replica that plans."""
    leader = service.SYSTEM.get(LEASES, ENGINE)["spec"]["holderIdentity"]
    service.signal_all(leader, "vgpu job-engine", signal.SIGKILL)
