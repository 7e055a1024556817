"""Writes the usage of each namespace into the status of its ResourceQuotas; the API server counts separately."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.kube.api import PODS, Change, Kind, Ref
from device_plugin.kube.errors import ApiError
from hack.embedded.apiserver.quotas import status_of

USER = "system:serviceaccount:kube-system:resourcequota-controller"
QUOTAS: Kind[dict[str, Any]] = Kind("", "v1", "resourcequotas", "ResourceQuota", dict)
Object = dict[str, Any]


class QuotaController:
    """Updates the quotas of an API server from `start` to `stop`; `token` is its user's bearer token."""

    def __init__(self, api_url: str, token: str = USER) -> None:
        self._api = KubeClient(Endpoint(api_url, lambda: f"Bearer {token}"), "quota-controller", timeout=10.0)
        self._stop = threading.Event()
        self._changed = threading.Event()
        self._watches = {kind: ListWatch(self._api, kind) for kind in (PODS.json, QUOTAS)}
        # By kind, then by UID.
        self._known: dict[Kind[Object], Mapping[str, Object]] = {kind: {} for kind in self._watches}
        self._threads = [
            threading.Thread(target=self._follow, args=(kind,), name=f"quota-{kind.plural}", daemon=True)
            for kind in self._watches
        ]
        self._threads.append(threading.Thread(target=self._write, name="quota-writes", daemon=True))

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop all threads; a write that has begun is completed."""
        self._stop.set()
        self._changed.set()
        for watch in self._watches.values():
            watch.interrupt()
        for thread in self._threads:
            thread.join()
        self._api.close()

    def _follow(self, kind: Kind[Object]) -> None:
        def listed(found: Sequence[Object]) -> None:
            self._known[kind] = {each["metadata"]["uid"]: each for each in found}
            self._changed.set()

        def changed(change: Change, found: Object) -> None:
            uid = found["metadata"]["uid"]
            left = {key: each for key, each in self._known[kind].items() if key != uid}
            self._known[kind] = left if change is Change.DELETED else {**left, uid: found}
            self._changed.set()

        run: Callable[..., None] = self._watches[kind].run
        run(listed, changed, self._stop)

    def _write(self) -> None:
        while not self._stop.is_set():
            self._changed.wait()
            self._changed.clear()
            pods, quotas = (self._known[kind].values() for kind in self._watches)
            for quota in quotas:
                metadata = quota["metadata"]
                beside = [pod for pod in pods if pod["metadata"]["namespace"] == metadata["namespace"]]
                status = status_of(quota, beside)
                if quota.get("status") != status:
                    # If the write fails because the quota has changed, the watch brings a new try.
                    with suppress(ApiError):
                        self._api.patch(
                            QUOTAS,
                            Ref(metadata["name"], metadata["namespace"]),
                            {"status": status},
                            subresource="status",
                        )
