"""Decides whether the kubelet takes a pod: tickets first, then the node's own arithmetic, as in Kubernetes 1.36.

The order matters: Allocate is called for pods that are then rejected, and nothing undoes it.
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
    """The reason why the kubelet rejected a pod, which is Failed for good."""

    reason: str
    message: str


def admit(
    pod: Json, devices: DeviceManager, running: Collection[str], others: Iterable[Json]
) -> Rejection | None:
    """Allocate, then compare the other requests with the room that `others` leave on the node. None: the pod is taken.

    A resource that no plugin ever advertised is dropped silently.
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
