"""/bind: write the Binding, the only write per pod. It carries the grant, so no reader sees one without the other.

A Binding that got no answer may still have been written: its slices stay reserved until a read of the pod shows the
outcome. The API server drops a request after BIND_SECONDS, so a Binding that has not bound its pod after
2 * BIND_SECONDS never does.
"""

import logging
import time
from collections.abc import Callable

import msgspec

from device_plugin.allocator.service import Service, Shared
from device_plugin.cluster.counts import Counts
from device_plugin.cluster.ports import BindCall
from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import AnnotationError, RequestError
from device_plugin.core.ledger import Reservation, ReservationStage
from device_plugin.core.placement import Refused
from device_plugin.core.pods import Pod
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

    `fenced` returns true while no other replica can have the Lease. `wall` returns the seconds since 1970.
    """

    def __init__(
        self, shared: Shared, api: Api, fenced: Callable[[], bool], counts: Counts,
        wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        super().__init__(shared)
        self._api = api
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
        claimed = self._claim(call)
        if claimed is None:
            return
        if not self._fenced():
            self._allocator.release_unbound(call.uid)
            raise BindError("fenced", self._why_not_leading())
        grant = claimed.grant.encode()
        try:
            labels = claimed.request.rank.labels(claimed.pod)
            self._api.bind(claimed.pod, call.node, {annotations.GRANT: grant}, labels)
        except GoneError as error:
            self._view.pod_news.gone(call.uid)
            raise BindError("gone", str(error)) from error
        except RefusedError as error:
            self._allocator.release_unbound(call.uid)
            raise BindError("refused", str(error)) from error
        except ApiError as error:
            # No clear answer, or a conflict, which may be our own earlier write.
            unknown = self._allocator.unknown(claimed)
            if unknown is None or not self._settle(unknown):
                raise BindError("unknown", str(error)) from error
        else:
            self._view.pod_news.see(_bound(claimed, grant), watched=False)
        now = self._wall()
        self._counts.waited(max(0.0, now - seconds(claimed.pod.created, now)))

    def _claim(self, call: BindCall) -> Reservation | None:
        """Put the pod's reservation on the node, or a new one, into stage BINDING, and return it. Raises BindError.

        Returns None if the pod is bound to the node already.
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
            if pod.node:
                raise BindError("refused", f"pod {call.namespace}/{call.name} is bound to {pod.node} already")
            return self._place_again(pod, call)

    def _place_again(self, pod: Pod, call: BindCall) -> Reservation:
        """Reserve slices for the pod on the node that /bind names; returns the reservation, already in stage BINDING.

        Callers hold the lock. Raises BindError.
        """
        try:
            request = self._view.pods.request_of(pod)
        except RequestError as error:
            raise BindError("refused", str(error)) from error
        if request is None:
            raise BindError("refused", f"pod {pod.namespace}/{pod.name} asks for no slice")
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
