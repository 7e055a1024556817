"""Whether the kubelet takes a pod: tickets first, then the node's own arithmetic, as in Kubernetes 1.36.

The order matters: Allocate is called for pods that are then rejected, and nothing undoes it.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from hack.embedded.kubelet import pod_spec
from hack.embedded.kubelet.devices import AllocationError, DeviceManager
from hack.embedded.kubelet.pod_spec import Json


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason why the kubelet rejected a pod, which is Failed for good."""

    reason: str
    message: str


def admit(
    pod: Json,
    devices: DeviceManager,
    running: Collection[str],
    others: Iterable[Json],
    allocatable: Mapping[str, int],
) -> Rejection | None:
    """Allocate, then compare with `allocatable`, of which `others` have their part. None if the pod is taken.

    A resource that `allocatable` does not name is dropped silently: no plugin ever advertised it.
    """
    try:
        devices.allocate(pod, running)
    except AllocationError as error:
        return Rejection("UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected")
    used: dict[str, Fraction] = {}
    for other in others:
        for name, value in pod_spec.total_requests(other).items():
            used[name] = used.get(name, Fraction(0)) + value
    for name, wanted in sorted(pod_spec.total_requests(pod).items()):
        taken = used.get(name, Fraction(0))
        if name in allocatable and taken + wanted > allocatable[name]:
            unit = 1000 if name == "cpu" else 1  # the kubelet counts thousandths of a CPU
            asked, held, there = (math.ceil(unit * value) for value in (wanted, taken, allocatable[name]))
            return Rejection(
                f"OutOf{name}",
                f"Node didn't have enough resource: {name}, requested: {asked}, used: {held}, capacity: {there}",
            )
    return None
