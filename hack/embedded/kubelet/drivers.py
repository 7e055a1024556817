"""The DRA drivers of a node: a driver registers by its socket in a folder that the kubelet watches.

Model: pkg/kubelet/pluginmanager and pkg/kubelet/cm/dra/plugin of Kubernetes 1.36, as far as a driver can see them.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from device_plugin.adapters.kubelet.pb import dra_pb2 as pb
from device_plugin.adapters.kubelet.pb import dra_pb2_grpc as rpc
from device_plugin.adapters.kubelet.pb import pluginregistration_pb2 as registration_pb
from device_plugin.adapters.kubelet.pb import pluginregistration_pb2_grpc as registration_rpc
from device_plugin.kube.api import Api, Kind, Ref, Where
from device_plugin.kube.errors import ApiError

log = logging.getLogger(__name__)

SLICES: Kind[dict[str, Any]] = Kind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", dict)
PLUGIN_TYPE, VERSION = "DRAPlugin", "v1.DRAPlugin"
# Seconds between looks into the folder, and the deadline of a call during registration.
LOOK_SECONDS, REGISTER_SECONDS = 0.1, 5.0
# The kubelet's deadline of a call to a driver, in seconds.
CALL_SECONDS = 45.0
State = tuple[int, int]


class PrepareError(Exception):
    """Claims cannot be prepared or unprepared now; the kubelet tries again."""


class Driver:
    """The connection to the driver `name`, which serves at `socket`."""

    def __init__(self, name: str, socket: Path) -> None:
        self.name = name
        # As PluginEndpoint does: a connection of its own.
        self._channel = grpc.insecure_channel(f"unix:{socket}", [("grpc.use_local_subchannel_pool", 1)])
        self._stub = rpc.DRAPluginStub(self._channel)

    def prepare(self, claim: pb.Claim) -> Mapping[str, list[str]]:
        """Prepare one ResourceClaim; returns the CDI devices of each of its requests. Raises PrepareError."""
        answer = self._call(self._stub.NodePrepareResources, pb.NodePrepareResourcesRequest(claims=[claim]))
        found = answer.claims.get(claim.uid)
        if found is None:
            raise PrepareError("NodePrepareResources skipped 1 ResourceClaims")
        if found.error:
            raise PrepareError(f"NodePrepareResources failed for ResourceClaim {claim.name}: {found.error}")
        devices: dict[str, list[str]] = {}
        for device in found.devices:
            for request in device.request_names:
                devices.setdefault(request, []).extend(device.cdi_device_ids)
        return devices

    def unprepare(self, claim: pb.Claim) -> None:
        """Undo `prepare`. Raises PrepareError."""
        answer = self._call(
            self._stub.NodeUnprepareResources, pb.NodeUnprepareResourcesRequest(claims=[claim])
        )
        found = answer.claims.get(claim.uid)
        if found is None or found.error:
            why = found.error if found else "skipped"
            raise PrepareError(f"NodeUnprepareResources failed for ResourceClaim {claim.name}: {why}")

    def close(self) -> None:
        """Close the connection; calls under way fail."""
        self._channel.close()

    def _call(self, method: Callable[..., Any], request: object) -> Any:
        try:
            return method(request, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            text = f"rpc error: code = {error.code().name.title()} desc = {error.details()}"
            raise PrepareError(text) from None
        except ValueError:  # the connection was closed
            raise PrepareError(f"DRA driver {self.name} is not registered") from None


class Drivers:
    """Registers the drivers with a socket in `folder`, from `run` to `stop`.

    It deletes the ResourceSlices of the node `node` when it begins, and those of a driver that has been away for `wipe`
    seconds.
    """

    def __init__(self, folder: Path, api: Api, node: str, wipe: float) -> None:
        self._folder = folder
        self._api = api
        self._node = node
        self._wipe = wipe
        self._stop = threading.Event()
        # By socket: its state when the driver was registered, and the driver. By name: since when a driver is away.
        self._known: dict[Path, tuple[State, Driver]] = {}
        self._away: dict[str, float] = {}

    def get(self, name: str) -> Driver:
        """The registered driver of this name. Raises PrepareError if there is none."""
        for _, driver in list(self._known.values()):
            if driver.name == name:
                return driver
        raise PrepareError(f"DRA driver {name} is not registered")

    def run(self) -> None:
        """Follow the folder until `stop` is called."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._delete_slices("")
        while not self._stop.wait(LOOK_SECONDS):
            there = dict(self._sockets())
            for path in [path for path, (state, _) in self._known.items() if there.get(path) != state]:
                _, driver = self._known.pop(path)
                driver.close()
                self._away[driver.name] = time.monotonic()
            for path, state in there.items():
                if path not in self._known:
                    self._register(path, state)
            for name, since in list(self._away.items()):
                if time.monotonic() - since >= self._wipe:
                    del self._away[name]
                    self._delete_slices(name)
        for _, driver in self._known.values():
            driver.close()

    def stop(self) -> None:
        """Make `run` return."""
        self._stop.set()

    def _sockets(self) -> Iterator[tuple[Path, State]]:
        """The sockets in the folder, each with its identity: a new socket of the same name has another one."""
        for path in self._folder.glob("*.sock"):
            with suppress(FileNotFoundError):
                status = path.stat()
                yield path, (status.st_ino, status.st_ctime_ns)

    def _register(self, path: Path, state: State) -> None:
        try:
            with grpc.insecure_channel(f"unix:{path}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
                stub = registration_rpc.RegistrationStub(channel)
                info = stub.GetInfo(registration_pb.InfoRequest(), timeout=REGISTER_SECONDS)
                if info.type != PLUGIN_TYPE:
                    return
                fault = "" if VERSION in info.supported_versions else f"{VERSION} is not among its versions"
                if not fault:
                    self._known[path] = (state, Driver(info.name, Path(info.endpoint or path)))
                    self._away.pop(info.name, None)
                status = registration_pb.RegistrationStatus(plugin_registered=not fault, error=fault)
                stub.NotifyRegistrationStatus(status, timeout=REGISTER_SECONDS)
        except grpc.RpcError as error:
            log.info("%s: not registered: %s", path.name, error.details())

    def _delete_slices(self, driver: str) -> None:
        """Delete the node's ResourceSlices of a driver; with "", those of all drivers."""
        try:
            for found in self._api.list(SLICES, Where(fields=f"spec.nodeName={self._node}")).items:
                if not driver or found["spec"]["driver"] == driver:
                    self._api.delete(SLICES, Ref(found["metadata"]["name"]))
        except ApiError as error:
            log.info("the ResourceSlices are not deleted: %s", error)
