"""Decides whether the kubelet takes a pod: by its device IDs (tickets), then by the node's CPU and memory.

The order is that of Kubernetes 1.36.

Because of this order, Allocate is also called for pods that are rejected after it, and is not undone.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from hack.embedded.kubelet.devices import AllocationError, DeviceManager
from hack.embedded.kubelet.node_status import BASE
from hack.embedded.pod_requests import ZERO, Amounts, amounts, requested, total
from hack.embedded.pod_spec import Json


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason why the kubelet rejected a pod; the pod is Failed and is not tried again."""

    reason: str
    message: str


def admit(
    pod: Json, devices: DeviceManager, running: Collection[str], others: Iterable[Json]
) -> Rejection | None:
    """Return the reason to reject the pod, or None if the kubelet takes it; its device IDs are allocated first.

    Its other requests must fit next to the pods in `others`. A request for an unknown resource is ignored.
    """
    try:
        devices.allocate(pod, running)
    except AllocationError as error:
        return Rejection("UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected")
    used: Amounts = {}
    for other in others:
        used = total(used, requested(other))
    wanted, there = requested(pod), amounts(BASE)
    for name in sorted(wanted.keys() & there):
        taken = used.get(name, ZERO)
        if taken + wanted[name] > there[name]:
            unit = 1000 if name == "cpu" else 1  # the kubelet counts thousandths of a CPU
            asked, held, capacity = (math.ceil(unit * value) for value in (wanted[name], taken, there[name]))
            return Rejection(
                f"OutOf{name}",
                f"Node didn't have enough resource: {name}, requested: {asked}, used: {held}, capacity: {capacity}",
            )
    return None
