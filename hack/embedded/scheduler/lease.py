"""Leader election on a Lease, as in client-go (tools/leaderelection): only our own clock decides that it expired."""

import logging
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hack.embedded.kubelet.api import Api, ApiError, UnreachableError
from hack.embedded.scheduler.timing import Timing

log = logging.getLogger(__name__)


class Elector:
    """One candidate, for one thread. While `gate` is clear it stands still."""

    def __init__(
        self, api: Api, namespace: str, name: str, identity: str, timing: Timing, gate: threading.Event
    ) -> None:
        self.identity = identity
        self._api = api
        self._timing = timing
        self._gate = gate
        self._namespace = namespace
        self._name = name
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._seen: Mapping[str, Any] = {}
        self._seen_at = float("-inf")

    def acquire(self, stop: threading.Event) -> bool:
        """Try until the Lease is ours; False if `stop` came first."""
        while not stop.is_set():
            if self.attempt():
                return True
            stop.wait(self._timing.retry_period)
        return False

    def renew(self, stop: threading.Event) -> None:
        """Keep the Lease; returns when it is lost, or `stop` is set."""
        renewed = time.monotonic()
        while not stop.wait(self._timing.retry_period):
            if self.attempt():
                renewed = time.monotonic()
            elif not self._held() or time.monotonic() - renewed >= self._timing.renew_deadline:
                log.info("%s lost the Lease", self.identity)
                return

    def attempt(self) -> bool:
        """Acquire the Lease or renew it, once; True if it is ours now."""
        self._gate.wait()
        try:
            return self._attempt()
        except (ApiError, UnreachableError) as error:
            log.debug("Lease %s: %s", self._name, error)
            return False

    def release(self) -> None:
        """Give the Lease up at once, if it is ours: what kube-scheduler does on SIGTERM (ReleaseOnCancel)."""
        try:
            found = self._get()
            if found is not None and found["spec"].get("holderIdentity") == self.identity:
                self._put(found, "", seconds=1)
        except (ApiError, UnreachableError) as error:
            log.debug("Lease %s is not released: %s", self._name, error)

    def _attempt(self) -> bool:
        found = self._get()
        if found is None:
            spec = self._spec({}, self.identity, self._timing.lease)
            body = self._object({"name": self._name, "namespace": self._namespace}, spec)
            self._seen, self._seen_at = self._api.call("POST", self._folder, body), time.monotonic()
            return True
        if found["spec"] != self._seen.get("spec"):
            self._seen, self._seen_at = found, time.monotonic()
        if found["spec"].get("holderIdentity") and not self._held() and not self._expired():
            return False
        self._seen, self._seen_at = self._put(found, self.identity, self._timing.lease), time.monotonic()
        return True

    def _held(self) -> bool:
        return bool(self._seen) and self._seen["spec"].get("holderIdentity") == self.identity

    def _expired(self) -> bool:
        seconds: float = self._seen["spec"].get("leaseDurationSeconds", 0)
        return time.monotonic() - self._seen_at > seconds

    def _get(self) -> Any:
        try:
            return self._api.call("GET", f"{self._folder}/{self._name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def _put(self, found: Mapping[str, Any], holder: str, seconds: float) -> Any:
        spec = self._spec(found["spec"], holder, seconds)
        return self._api.call("PUT", f"{self._folder}/{self._name}", self._object(found["metadata"], spec))

    def _object(self, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec,
        }  # fmt: skip

    def _spec(self, old: Mapping[str, Any], holder: str, seconds: float) -> Mapping[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        same = old.get("holderIdentity") == holder
        # Whole seconds are all that a Lease can say.
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": max(1, round(seconds)),
            "acquireTime": old.get("acquireTime", now) if same else now,
            "renewTime": now,
            "leaseTransitions": old.get("leaseTransitions", 0) + (0 if same or not holder or not old else 1),
        }
