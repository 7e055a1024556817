"""The Node object: created at start; its capacity is written only when it changes."""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from device_plugin.kube.api import NODES, Api, Ref
from device_plugin.kube.errors import ApiError, ConflictError
from hack.embedded.clock import timestamp

log = logging.getLogger(__name__)

# The resources that the node offers in addition to the devices of plugins.
BASE = {"cpu": "64", "memory": "256Gi", "pods": "110"}
# Seconds between checks whether the grace period of a stopped plugin has ended.
LOOK_SECONDS = 1.0


class NodePublisher:
    """Writes the Node object of a kubelet that listens on `port`.

    `devices()` returns (capacity, allocatable) by resource.
    """

    def __init__(
        self,
        api: Api,
        name: str,
        port: int,
        devices: Callable[[], Mapping[str, tuple[int, int]]],
        interval: float,
        retry: float,
    ) -> None:
        self._api = api
        self._name = name
        self._port = port
        self._devices = devices
        self._interval = interval
        self._retry = retry
        self._changed = threading.Event()

    def changed(self) -> None:
        """Let `run` write the present state soon."""
        self._changed.set()

    def run(self, stop: threading.Event) -> None:
        """Write the Node object when it changes, until `stop` is set and `changed` was called."""
        written = None
        while not stop.is_set():
            self._changed.clear()
            amounts = self._amounts()
            try:
                if amounts != written:
                    self._write(amounts, first=written is None)
                    written = amounts
                stop.wait(self._interval)
                self._changed.wait(LOOK_SECONDS)
            except ApiError as error:
                log.debug("node %s: %s", self._name, error)
                stop.wait(self._retry)

    def _amounts(self) -> Mapping[str, Mapping[str, str]]:
        counts = self._devices()
        return {
            "capacity": {**BASE, **{name: str(all_) for name, (all_, _) in counts.items()}},
            "allocatable": {**BASE, **{name: str(healthy) for name, (_, healthy) in counts.items()}},
        }

    def _write(self, amounts: Mapping[str, Mapping[str, str]], *, first: bool) -> None:
        status = {
            **amounts,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "lastHeartbeatTime": timestamp(),
                }
            ],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
            "nodeInfo": {"kubeletVersion": "v1.36.0-embedded", "containerRuntimeVersion": "embedded://1"},
        }
        if first:
            labels = {"kubernetes.io/hostname": self._name, "kubernetes.io/os": "linux"}
            metadata = {"name": self._name, "labels": labels}
            # Created with its status, as by the real kubelet, so that no reader sees a node without a status.
            node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
            with suppress(ConflictError):
                self._api.create(NODES, node)
                return
        self._api.patch(NODES, Ref(self._name), {"status": status}, subresource="status")
