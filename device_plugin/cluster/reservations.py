"""Grants that /filter decided and that are not bound yet: only in the leader's memory."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from math import inf

from device_plugin.core.grants import Grant
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest


class Stage(Enum):
    """How far a reservation is on its way to a binding."""

    NOMINATED = "nominated"
    WAITING = "waiting"
    BINDING = "binding"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reservation:
    """A grant for a pod that asked for `request`; until its Binding is under way it ends at `expires` of the clock.

    NOMINATED: others hold some of it still, and are about to leave; nobody else gets what they leave behind.
    BINDING: a Binding is under way. UNKNOWN: one was sent at `sent`, and nobody knows yet what became of it.
    """

    pod: Pod
    request: PodRequest
    grant: Grant
    expires: float
    stage: Stage = Stage.WAITING
    sent: float = 0.0

    @property
    def under_way(self) -> bool:
        """True once a Binding was sent: what becomes of it is then to be learnt, not decided."""
        return self.stage in (Stage.BINDING, Stage.UNKNOWN)


class Reservations:
    """Reservations by pod uid. The ledger holds their grants; callers hold the lock of both."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._by_pod: dict[str, Reservation] = {}

    def __iter__(self) -> Iterator[Reservation]:
        """All of them, as they are now."""
        return iter(list(self._by_pod.values()))

    def at(self, stage: Stage) -> list[Reservation]:
        """Those that are at this stage now."""
        return [reservation for reservation in self if reservation.stage is stage]

    def get(self, pod: str) -> Reservation | None:
        """The reservation of the pod with this uid."""
        return self._by_pod.get(pod)

    def put(self, pod: Pod, request: PodRequest, grant: Grant, now: float) -> Reservation:
        """Reserve from now on, in place of what the pod had. Those of a gang have a deadline in common, kept there."""
        made = Reservation(pod, request, grant, inf if request.gang else now + self._seconds)
        self._by_pod[pod.uid] = made
        return made

    def nominate(self, pod: Pod, request: PodRequest, grant: Grant, expires: float) -> None:
        """Keep `grant` for the pod while others leave it."""
        self._by_pod[pod.uid] = Reservation(pod, request, grant, expires, Stage.NOMINATED)

    def keep(self, reservation: Reservation) -> None:
        """Take back a reservation that was dropped, as it was."""
        self._by_pod[reservation.pod.uid] = reservation

    def move(self, reservation: Reservation, stage: Stage, now: float) -> Reservation:
        """Take it to a later stage."""
        sent = now if stage is Stage.BINDING else reservation.sent
        moved = replace(reservation, stage=stage, sent=sent)
        self._by_pod[reservation.pod.uid] = moved
        return moved

    def drop(self, pod: str) -> Reservation | None:
        """Forget it; the caller releases the grant."""
        return self._by_pod.pop(pod, None)

    def expired(self, now: float) -> list[str]:
        """Uids of pods whose reservation nobody came to bind in time."""
        return [uid for uid, r in self._by_pod.items() if not r.under_way and now >= r.expires]
