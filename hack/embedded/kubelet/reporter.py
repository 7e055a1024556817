"""Writes of the kubelet to the API server: pod statuses, final deletions and events, in a thread of its own.

A pod's newest status replaces an unwritten older one. All writes wait while the API server does not answer.
"""

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import ApiError, ConflictError, GoneError, UnknownError
from hack.embedded import pod_spec
from hack.embedded.pod_spec import Json

log = logging.getLogger(__name__)

TOO_MANY_REQUESTS = 429
Call = Callable[[], object]


class Reporter:
    """Writes in the thread that calls `run`; `retry` are seconds between attempts to reach the API server."""

    def __init__(self, api: Api, retry: float) -> None:
        self._api = api
        self._retry = retry
        self._lock = threading.Condition()
        # By pod; an event has a key of its own.
        self._pending: dict[object, list[Call]] = {}
        self._stopping = False

    def stop(self) -> None:
        """Make `run` return; writes that still wait are lost, as when a kubelet ends."""
        with self._lock:
            self._stopping = True
            self._lock.notify()

    def status(self, pod: Json, status: dict[str, Any] | None, *, delete: bool) -> None:
        """Write a pod's status if there is one, then delete the pod for good if `delete`."""
        calls: list[Call] = []
        if status is not None:
            change = {"status": status}
            calls.append(partial(self._api.patch, PODS, pod_spec.ref(pod), change, subresource="status"))
        if delete:
            calls.append(partial(self._api.delete, PODS, pod_spec.ref(pod), grace_seconds=0))
        self._put(pod_spec.uid(pod), calls)

    def event(self, pod: Json, reason: str, message: str) -> None:
        """A Warning event about a pod."""
        self._put(
            object(),
            [partial(self._api.post_event, PODS, pod_spec.ref(pod), reason, message)],
        )

    def _put(self, key: object, calls: list[Call]) -> None:
        with self._lock:
            self._pending[key] = calls
            self._lock.notify()

    def run(self) -> None:
        """Write until `stop` is called."""
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._pending or self._stopping)
                if self._stopping:
                    return
                key = next(iter(self._pending))
                calls = self._pending.pop(key)
            if not self._written(calls):
                with self._lock:
                    self._pending.setdefault(key, calls)
                    self._lock.wait_for(lambda: self._stopping, self._retry)

    @staticmethod
    def _written(calls: list[Call]) -> bool:
        """Make the calls; False if the API server may take them later."""
        for call in calls:
            try:
                call()
            except (GoneError, ConflictError):
                # The pod is gone, or another one bears its name: nothing remains to be reported.
                continue
            except ApiError as error:
                if isinstance(error, UnknownError) or error.status == TOO_MANY_REQUESTS:
                    return False
                log.warning("not reported: %s", error)
        return True
