"""Housekeeping: periodic work that no request triggers, such as expiry, learning, and unanswered Bindings."""

import logging
from collections.abc import Callable

from device_plugin.cluster.housekeeping.deletions import CoveredPods, OverlapJudge
from device_plugin.cluster.place.bind import Binder
from device_plugin.cluster.place.reservations import Reservations
from device_plugin.cluster.watch.view import ClusterView
from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import ApiError, GoneError

log = logging.getLogger(__name__)

# Seconds until a pod that the watch has not shown is read again: the watch shows a pod within milliseconds.
CONFIRM_SECONDS = 10.0


class Housekeeping:
    """Runs the periodic work; `step` is called about once a second. It writes only to delete pods."""

    def __init__(
        self,
        api: Api,
        view: ClusterView,
        reservations: Reservations,
        binder: Binder,
        overlaps: OverlapJudge,
        covered: CoveredPods | None,
        clock: Callable[[], float],
    ) -> None:
        self._api = api
        self._view = view
        self._reservations = reservations
        self._binder = binder
        self._overlaps = overlaps
        self._covered = covered
        self._clock = clock

    def step(self) -> None:
        """Do each piece of periodic work once."""
        self._reservations.expire()
        self._learn()
        self._binder.settle()
        self._confirm()
        self._overlaps.sweep()
        if self._covered is not None:
            self._covered.sweep()

    def _learn(self) -> None:
        with self._view.lock:
            self._reservations.learning.count(self._clock())

    def _confirm(self) -> None:
        for known in self._view.unconfirmed(self._clock() - CONFIRM_SECONDS):
            try:
                pod = self._api.get(PODS, known)
            except GoneError:
                self._view.forget_pod(known.uid)
                continue
            except ApiError as error:
                log.info("cannot look whether pods still exist: %s", error)
                return
            if pod.uid == known.uid:
                self._view.see_pod(pod, watched=False)
            else:
                self._view.forget_pod(known.uid)
