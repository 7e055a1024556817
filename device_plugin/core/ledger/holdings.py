"""What one holder has: slices of cards and amounts of their host, and how far it is on its way to a binding."""

from dataclasses import dataclass
from enum import Enum
from math import inf

from device_plugin.core.grants import Grant
from device_plugin.core.hosts import NOTHING, HostAmounts
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a holder has of a node: a `grant` of cards, or none, and `host` amounts.

    The `holder` is a pod's UID, or another name of its own: what is held for a pod that does not exist yet. It ends at
    `expires`, in seconds of the owner's clock.
    """

    holder: str
    node: str
    grant: Grant | None = None
    host: HostAmounts = NOTHING
    expires: float = inf

    @classmethod
    def of(cls, grant: Grant, host: HostAmounts = NOTHING) -> "Holding":
        """A pod's holding of what it was granted."""
        return Holding(holder=grant.pod, node=grant.node, grant=grant, host=host)


class Stage(Enum):
    """How far a reservation is on its way to a binding."""

    NOMINATED = "nominated"
    WAITING = "waiting"
    BINDING = "binding"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation(Holding):
    """What /filter decided for `pod`, which asked for `request`, and what is not bound yet.

    NOMINATED: others hold some of it still, and are about to leave; nobody else gets what they leave behind.
    BINDING: a Binding is under way. UNKNOWN: one was sent at `sent`, and nobody knows yet what became of it.
    """

    grant: Grant
    pod: Pod
    request: PodRequest
    stage: Stage = Stage.WAITING
    sent: float = 0.0

    @classmethod
    def for_pod(
        cls, pod: Pod, request: PodRequest, grant: Grant, expires: float, stage: Stage = Stage.WAITING
    ) -> "Reservation":
        """A pod's reservation of what it was granted, and of the host amounts that it requests."""
        return Reservation(
            holder=pod.uid, node=grant.node, grant=grant, host=request.host, expires=expires, pod=pod,
            request=request, stage=stage,
        )  # fmt: skip

    @property
    def under_way(self) -> bool:
        """True once a Binding was sent: what becomes of it is then to be learnt, not decided."""
        return self.stage in (Stage.BINDING, Stage.UNKNOWN)
