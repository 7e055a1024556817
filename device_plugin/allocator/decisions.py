"""/decisions: the leader's reservations and target workload, for people's commands.

The target workload is the mix of requests that the leader has learnt. With both, a command decides as the leader does.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from device_plugin.allocator.service import Service
from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import AnnotationError, VgpuError
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Holding
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.workload import Weighted
from device_plugin.core.requests import Request, Selector, Shape


class DecisionsError(VgpuError):
    """The leader's answer cannot be read, because the leader runs another version.

    Cure: use the vgpu command of the allocator's version.
    """


class Decisions(Service):
    """Exports the leader's decisions that are only in its memory, and loads them into another process."""

    def as_object(self) -> Mapping[str, Any]:
        """The reservations and the learnt mix of requests as JSON; `leader`: whether this replica may place pods."""
        with self._view.lock:
            reserved = [
                {
                    "pod": f"{each.pod.namespace}/{each.pod.name}", "stage": each.stage.value,
                    "grant": each.grant.encode(), "host": msgspec.to_builtins(each.host),
                }
                for each in self._view.ledger.reservations()
            ]  # fmt: skip
            shapes = self._allocator.placer.tables.shapes
        workload = [{"shape": msgspec.to_builtins(each.shape), "count": each.count} for each in shapes]
        return {"leader": not self._why_not_leading(), "reserved": reserved, "workload": workload}

    def take_over(self, told: Mapping[str, Any]) -> int:
        """Put a leader's reservations into this process's ledger, and use the leader's learnt mix of requests here.

        `told` is the leader's answer to /decisions. Returns the number of reservations; those of pods that are bound,
        ended or gone are left out. Placement scores nodes by tables made from this mix, which take up to 2 s to
        compute. Raises DecisionsError.
        """
        try:
            holdings = [_holding(each) for each in told["reserved"]]
            shapes = [Weighted(_shape(each["shape"]), float(each["count"])) for each in told["workload"]]
        except (AnnotationError, KeyError, TypeError, ValueError) as error:
            raise DecisionsError(
                f"the allocator's decisions cannot be read ({error}): use the vgpu command of its version"
            ) from error
        with self._view.lock:
            taken = [each for each in holdings if self._waits(each)]
            for holding in taken:
                self._view.ledger.put(holding)
            placer = self._allocator.placer
            placer.use(WorkloadTables(*placer.supply(), shapes))
        return len(taken)

    def _waits(self, holding: Holding) -> bool:
        pod = self._view.pods.get(holding.holder)
        return pod is not None and not pod.node and not pod.ended


def _holding(told: Mapping[str, Any]) -> Holding:
    return Holding.of(Grant.decode(told["grant"]), HostAmounts(**told["host"]))


def _shape(told: Mapping[str, Any]) -> Shape:
    return Shape(
        Request(**told["request"]),
        Selector(**told["models"]),
        Selector(**told["uuids"]),
        HostAmounts(**told["host"]),
    )
