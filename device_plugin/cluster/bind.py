"""/bind: write the Binding of a pod. It carries the grant, so that nobody reads a bound pod without its grant.

The claims of a pod that asks by ResourceClaims are written before its Binding (claim_writes.py).

A Binding that got no answer may still have been written: its slices stay reserved until a read of the pod shows the
outcome. The API server drops a request after BIND_SECONDS, so a Binding that has not bound its pod after twice this
time never does.
"""

import logging
import time
from collections.abc import Callable

import msgspec

from device_plugin.allocator.service import Service, Shared
from device_plugin.cluster.claim_writes import WRITE_SECONDS, ClaimError, ClaimWrites
from device_plugin.cluster.counts import Counts
from device_plugin.cluster.ports import BindCall, TimedApi
from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import AnnotationError, RequestError
from device_plugin.core.ledger import Reservation, ReservationStage
from device_plugin.core.placement import Refused
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest
from device_plugin.core.timestamps import seconds
from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import ApiError, GoneError, RefusedError
from device_plugin.state.view import read_again

log = logging.getLogger(__name__)

BIND_SECONDS = 3.0


class BindError(Exception):
    """The pod was not bound, or it is unknown whether it was. The metrics count the call under the label `outcome`."""

    def __init__(self, outcome: str, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


class Binder(Service):
    """Binds pods. It may be called from any thread; Bindings of different pods run in parallel.

    `fenced` returns true while no other replica can have the Lease. `claims` writes the claims of pods. `wall` returns
    the seconds since 1970.
    """

    def __init__(
        self, shared: Shared, api: TimedApi, fenced: Callable[[], bool], counts: Counts, claims: ClaimWrites,
        wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        super().__init__(shared)
        self._api = api
        self._claims = claims
        self._fenced = fenced
        self._counts = counts
        self._wall = wall

    def __call__(self, call: BindCall) -> str:
        """Bind the pod, and count the outcome; returns the error as text, empty if the pod was bound."""
        try:
            self._bind(call)
        except BindError as error:
            self._counts.bound(error.outcome)
            log.warning("bind failed pod=%s/%s node=%s: %s", call.namespace, call.name, call.node, error)
            return str(error)
        self._counts.bound("bound")
        return ""

    def settle(self) -> None:
        """Read the pods of Bindings that were not answered, and record whether each pod is bound.

        The reservation of a pod that is not bound ends once its Binding can no longer bind it.
        """
        for reservation in self._view.ledger.reservations():
            if reservation.stage is ReservationStage.UNKNOWN:
                self._settle(reservation)

    def _bind(self, call: BindCall) -> None:
        if why := self._why_not_placing():
            raise BindError("fenced", why)
        deadline = self._clock() + WRITE_SECONDS
        claimed = self._claim(call)
        if claimed is None:
            return
        if claimed.grant.claims:
            self._send_with_claims(claimed, deadline)
        else:
            self._send(claimed, self._api)
        now = self._wall()
        self._counts.waited(max(0.0, now - seconds(claimed.pod.created, now)))

    def _send_with_claims(self, claimed: Reservation, deadline: float) -> None:
        """Write the pod's ResourceClaims, then its Binding, all before `deadline`. Raises BindError."""
        try:
            with self._claims.alone(claimed.grant.claims.values()):
                self._claims.give(claimed, deadline)
                self._send(claimed, self._api.until(deadline))
        except ClaimError as error:
            self._allocator.release_unbound(claimed.pod.uid)
            raise BindError(error.outcome, str(error)) from error

    def _send(self, claimed: Reservation, api: Api) -> None:
        """Send the Binding of a reservation in stage BINDING. Raises BindError if the pod is not known to be bound.

        If the Binding is refused, the pod's ResourceClaims are cleared before the reservation ends.
        """
        uid, grant = claimed.pod.uid, claimed.grant.encode()
        if not self._fenced():
            self._allocator.release_unbound(uid)
            raise BindError("fenced", self._why_not_leading())
        try:
            labels = claimed.request.rank.labels(claimed.pod)
            api.bind(claimed.pod, claimed.grant.node, {annotations.GRANT: grant}, labels)
        except GoneError as error:
            self._view.pod_news.gone(uid)
            raise BindError("gone", str(error)) from error
        except RefusedError as error:
            self._claims.take_back(claimed)
            self._allocator.release_unbound(uid)
            raise BindError("refused", str(error)) from error
        except ApiError as error:
            # No clear answer, or a conflict, which may be our own earlier write.
            unknown = self._allocator.unknown(claimed)
            if unknown is None or not self._settle(unknown):
                raise BindError("unknown", str(error)) from error
        else:
            self._view.pod_news.see(_bound(claimed, grant), watched=False)

    def _claim(self, call: BindCall) -> Reservation | None:
        """Return the pod's reservation on the node, or make one, and set its stage to BINDING. Raises BindError.

        Returns None if no grant is to be written: the pod is bound to the node already, or it asks for no slice and has
        just been bound.
        """
        claimed = self._allocator.claim(call.uid, call.node)
        if isinstance(claimed, Reservation):
            return claimed
        try:
            pod = self._api.get(PODS, call)
        except ApiError as error:
            raise BindError("gone" if isinstance(error, GoneError) else "unread", str(error)) from error
        if pod.uid != call.uid:
            raise BindError("gone", f"another pod has the name {call.namespace}/{call.name} now")
        with self._view.lock:
            known = self._view.pods.get(call.uid)
            if known is not None and known.node:
                # Another /bind of the pod succeeded after the read.
                pod = known
            if pod.node == call.node and pod.annotation(annotations.GRANT):
                self._view.pod_news.see(pod, watched=False)
                return None
            request = self._request(pod) if pod.node in ("", call.node) else None
            if pod.node and (request is not None or pod.node != call.node):
                raise BindError("refused", f"pod {call.namespace}/{call.name} is bound to {pod.node} already")
            if request is not None:
                return self._place_again(pod, request, call)
        if not pod.node:
            self._bind_plain(pod, call.node)
        return None

    def _request(self, pod: Pod) -> PodRequest | None:
        """The request of a pod; None if it asks for no slice. Raises BindError.

        If ResourceClaims are served, a pod that asks for no slice must be bound too: kube-scheduler then leaves the
        Bindings of all pods of its profile to us. If not, such a pod raises BindError.
        """
        try:
            request = self._view.pods.request_of(pod)
        except RequestError as error:
            raise BindError("refused", str(error)) from error
        if request is None and not self._view.serves_claims:
            raise BindError("refused", f"pod {pod.namespace}/{pod.name} asks for no slice")
        return request

    def _bind_plain(self, pod: Pod, node: str) -> None:
        """Bind a pod that asks for no slice, without a grant. Raises BindError."""
        if not self._fenced():
            raise BindError("fenced", self._why_not_leading())
        try:
            self._api.bind(pod, node, {}, {})
        except GoneError as error:
            self._view.pod_news.gone(pod.uid)
            raise BindError("gone", str(error)) from error
        except RefusedError as error:
            raise BindError("refused", str(error)) from error
        except ApiError as error:
            # kube-scheduler tries again, and then the pod is read.
            raise BindError("unknown", str(error)) from error
        self._view.pod_news.see(msgspec.structs.replace(pod, node=node), watched=False)

    def _place_again(self, pod: Pod, request: PodRequest, call: BindCall) -> Reservation:
        """Reserve slices for the pod on the node that /bind names; returns the reservation, already in stage BINDING.

        Callers hold the lock. Raises BindError.
        """
        if self._view.pods.is_gone(call.uid):
            raise BindError("gone", f"pod {pod.namespace}/{pod.name} is gone")
        busy = self._view.ledger.reservation(call.uid)
        if busy is not None and busy.under_way:
            raise BindError("busy", "another Binding of the pod is under way: try again")
        if why := self._why_not_leading():
            raise BindError("fenced", why)
        answer = self._allocator.reserve(pod, request, (call.node,), named=True)
        if isinstance(answer, Refused):
            refusal = answer()
            raise BindError("unplaced", f"{refusal.text}; {refusal.advice}")
        claimed = self._allocator.claim(call.uid, call.node)
        if claimed is None:
            raise AssertionError(f"the reservation of {call.uid} on {call.node} was just made")
        return claimed

    def _settle(self, reservation: Reservation) -> bool:
        """Read the pod of a Binding with an unknown outcome.

        Returns true if the pod is bound with the grant that was sent. The reservation ends if the pod is not bound 2 *
        BIND_SECONDS after the Binding was sent.
        """
        pod = reservation.pod
        try:
            now = read_again(self._api, self._view, pod)
        except ApiError as error:
            log.info("still unknown whether bound pod=%s/%s: %s", pod.namespace, pod.name, error)
            return False
        if now is not None and now.node:
            return _holds(now, reservation.grant)
        if now is not None and self._clock() - reservation.sent >= 2 * BIND_SECONDS:
            self._allocator.release_unbound(pod.uid)
        return False


def _holds(pod: Pod, grant: Grant) -> bool:
    try:
        return pod.grant() == grant
    except AnnotationError:
        return False


def _bound(reservation: Reservation, grant: str) -> Pod:
    pod = reservation.pod
    carried = {**(pod.annotations or {}), annotations.GRANT: grant}
    labels = {**(pod.labels or {}), **reservation.request.rank.labels(pod)}
    return msgspec.structs.replace(
        pod, node=reservation.grant.node, annotations=carried, labels=labels or None
    )
