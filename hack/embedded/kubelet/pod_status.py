"""Computes the status of a pod that the kubelet writes."""

from collections.abc import Sequence
from typing import Any

from hack.embedded.clock import timestamp
from hack.embedded.kubelet.container_life import CREATING, ContainerLife
from hack.embedded.kubelet.pod_admission import Rejection
from hack.embedded.pod_spec import Json

LOOPBACK = "127.0.0.1"
# The conditions that the kubelet writes.
_OWN = ("PodScheduled", "Ready")


def phase(lives: Sequence[ContainerLife], *, initialized: bool, over: bool) -> str:
    """The phase of a pod with these containers; `over` means that none will run again."""
    main = [life for life in lives if not life.view.init]
    if any(life.view.init and not life.view.sidecar and life.over and life.exit_code for life in lives):
        return "Failed"
    if over or all(life.over for life in main):
        return "Succeeded" if all(life.exit_code == 0 for life in main) else "Failed"
    if not initialized or any(life.container is None for life in main):
        return "Pending"
    return "Running"


def pod_status(pod: Json, lives: Sequence[ContainerLife], phase_now: str, start_time: str) -> dict[str, Any]:
    """The status of a pod that the kubelet has taken; conditions from other writers are kept."""
    over = phase_now in ("Succeeded", "Failed")
    entries = [life.status(over=over) for life in lives]
    ready = phase_now == "Running" and all(
        entry["ready"] for entry, life in zip(entries, lives, strict=True) if not life.view.init
    )
    status: dict[str, Any] = {
        "phase": phase_now,
        "startTime": start_time,
        # Containers of the one-machine cluster share the machine's network.
        "podIP": LOOPBACK,
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": str(ready)},
            *(item for item in pod["status"].get("conditions") or () if item["type"] not in _OWN),
        ],
        "containerStatuses": [
            entry for entry, life in zip(entries, lives, strict=True) if not life.view.init
        ],
    }
    init = [entry for entry, life in zip(entries, lives, strict=True) if life.view.init]
    if init:
        for entry in entries:
            if entry["state"] == {"waiting": {"reason": CREATING[0], "message": ""}}:
                entry["state"] = {"waiting": {"reason": "PodInitializing"}}
        status["initContainerStatuses"] = init
    return status


def rejected_status(rejection: Rejection) -> dict[str, Any]:
    """The status of a rejected pod."""
    return {
        "phase": "Failed",
        "reason": rejection.reason,
        "message": f"Pod was rejected: {rejection.message}",
        "startTime": timestamp(),
    }
