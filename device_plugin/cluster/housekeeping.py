"""Housekeeping: periodic work that no request triggers, such as ending reservations that expired."""

import logging

from device_plugin.allocator.service import Service, Shared
from device_plugin.cluster.bind import Binder
from device_plugin.cluster.deletions import Deletions
from device_plugin.cluster.idle_evictions import IdleEvictions
from device_plugin.cluster.stale_claims import StaleClaims
from device_plugin.kube.api import Api
from device_plugin.kube.errors import ApiError
from device_plugin.state.view import read_again

log = logging.getLogger(__name__)

# Seconds until a pod that the watch has not shown is read again: the watch shows a pod within milliseconds.
CONFIRM_SECONDS = 10.0


class Housekeeping(Service):
    """Runs the periodic work; `step` is called about once a second.

    Only deletions, evictions, events and claims are written.
    """

    def __init__(
        self, shared: Shared, api: Api, binder: Binder, deletions: Deletions, idle: IdleEvictions,
        stale: StaleClaims,
    ) -> None:  # fmt: skip
        super().__init__(shared)
        self._api = api
        self._binder = binder
        self._deletions = deletions
        self._idle = idle
        self._stale = stale

    def step(self) -> None:
        """Do each piece of periodic work once, in this order.

        Reservations expire, and the requests of new pods are counted in the learnt mix of requests. Unanswered Bindings
        are settled, and pods that the watch has not shown are read. Pods are deleted or evicted, and ResourceClaims are
        cleared.
        """
        self._allocator.expire()
        with self._view.lock:
            self._allocator.learning.count(self._clock())
        self._binder.settle()
        self._confirm()
        self._deletions.sweep()
        self._idle.sweep()
        self._stale.sweep()

    def _confirm(self) -> None:
        for known in self._view.pods.unconfirmed(self._clock() - CONFIRM_SECONDS):
            try:
                read_again(self._api, self._view, known)
            except ApiError as error:
                log.info("cannot check whether pods still exist: %s", error)
                return
