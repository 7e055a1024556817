"""Writes the kubelet's pod statuses, final deletions and events to the API server, in a separate thread.

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
    """Writes in the thread that calls `run`; `retry` is the number of seconds between attempts."""

    def __init__(self, api: Api, retry: float) -> None:
        self._api = api
        self._retry = retry
        self._lock = threading.Condition()
        # By the UID of a pod; each event has its own key.
        self._pending: dict[object, list[Call]] = {}
        self._stopping = False

    def stop(self) -> None:
        """Make `run` return; writes that still wait are lost, as when a kubelet ends."""
        with self._lock:
            self._stopping = True
            self._lock.notify()

    def status(self, pod: Json, status: dict[str, Any] | None, *, delete: bool) -> None:
        """Write a pod's status (None: no write); then, with `delete`, remove the pod from the API server."""
        calls: list[Call] = []
        if status is not None:
            change = {"status": status}
            calls.append(partial(self._api.patch, PODS, pod_spec.ref(pod), change, subresource="status"))
        if delete:
            calls.append(partial(self._api.delete, PODS, pod_spec.ref(pod), grace_seconds=0))
        self._put(pod_spec.uid(pod), calls)

    def event(self, pod: Json, reason: str, message: str) -> None:
        """Write a Warning event about a pod."""
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
        """Make the calls; false if they must be tried again later."""
        for call in calls:
            try:
                call()
            except (GoneError, ConflictError):
                # The pod is gone, or a new pod has its name: the report is no longer needed.
                continue
            except ApiError as error:
                if isinstance(error, UnknownError) or error.status == TOO_MANY_REQUESTS:
                    return False
                log.warning("not reported: %s", error)
        return True
