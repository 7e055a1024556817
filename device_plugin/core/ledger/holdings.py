"""Holdings: the slices and host amounts that one holder has on a node. A reservation is an unbound pod's holding."""

from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import NamedTuple

from msgspec import Struct

from device_plugin.core.contract.grants import Grant
from device_plugin.core.hosts import NOTHING, HostAmounts
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest


class ReportHolder(NamedTuple):
    """The holder of slices that the agent of `node` reports for the pod `uid`; the pod itself may hold other slices."""

    node: str
    uid: str


@dataclass(frozen=True, slots=True, order=True)
class PromiseHolder:
    """The holder of slices of `node` that are kept for the `beneficiary`, a job or a group of jobs; it is not a pod."""

    node: str
    beneficiary: str


Holder = str | ReportHolder | PromiseHolder
"""A pod's UID, or a unique name for a pod that does not exist yet, or a holder that is not a pod."""


# Structs, and no dataclasses: each placement makes some, and a dataclass takes ten times as long.
class Holding(Struct, frozen=True, kw_only=True, gc=False):
    """The share of one node that `holder` has: a `grant` of cards, or none, and CPU, memory and disk of the `host`.

    The holding ends at `expires`, in seconds of its owner's clock.
    """

    holder: Holder
    node: str
    grant: Grant | None = None
    host: HostAmounts = NOTHING
    expires: float = inf

    @classmethod
    def of(cls, grant: Grant, host: HostAmounts = NOTHING) -> "Holding":
        """The holding of the pod that the grant names, with this grant and these host amounts."""
        return Holding(holder=grant.pod, node=grant.node, grant=grant, host=host)


class ReservationStage(Enum):
    """The stages of a reservation (a grant that is not bound yet); `Reservation` explains each stage."""

    NOMINATED = "nominated"
    WAITING = "waiting"
    BINDING = "binding"
    UNKNOWN = "unknown"


class Reservation(Holding, frozen=True, kw_only=True, gc=False):
    """A grant that /filter decided for `pod` and its `request`, and that is not bound yet.

    NOMINATED: some of its slices are still held by pods that will end soon, and no other pod gets them. WAITING: /bind
    has not come yet. BINDING: a Binding is under way. UNKNOWN: a Binding was sent at `sent`, and its outcome is not
    known yet.
    """

    grant: Grant
    pod: Pod
    request: PodRequest
    stage: ReservationStage = ReservationStage.WAITING
    sent: float = 0.0

    @classmethod
    def for_pod(
        cls,
        pod: Pod,
        request: PodRequest,
        grant: Grant,
        expires: float,
        stage: ReservationStage = ReservationStage.WAITING,
    ) -> "Reservation":
        """The reservation of `grant` for `pod`, with the host amounts that the pod requests; it ends at `expires`."""
        return Reservation(
            holder=pod.uid, node=grant.node, grant=grant, host=request.host, expires=expires, pod=pod,
            request=request, stage=stage,
        )  # fmt: skip

    @property
    def under_way(self) -> bool:
        """True once a Binding was sent: from then on the API server alone decides whether the pod is bound."""
        return self.stage in (ReservationStage.BINDING, ReservationStage.UNKNOWN)
