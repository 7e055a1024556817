"""One card family's DRA driver: a gRPC server that the kubelet calls to prepare and to end ResourceClaims.

k8s.io/kubelet/pkg/apis: pluginregistration/v1, dra/v1, dra-health/v1alpha1. The kubelet watches the folder
plugins_registry, and registers the driver of each socket there. PluginInfo names no other endpoint, so the kubelet
calls the driver at the same socket, by the path that the folder has for the kubelet.

Each process has a socket with a new name. If the socket of a killed agent is still there when the kubelet starts, the
kubelet dials it for 10 s, and again after 0.5, 1, 2 s and so on, up to two minutes (goroutinemap in its source). A new
socket with the same name would have to wait for the kubelet's next try.
"""

import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import grpc

from device_plugin.adapters.kubelet.pb import dra_pb2 as pb
from device_plugin.adapters.kubelet.pb import dra_pb2_grpc as rpc
from device_plugin.adapters.kubelet.pb import drahealth_pb2 as health_pb
from device_plugin.adapters.kubelet.pb import drahealth_pb2_grpc as health_rpc
from device_plugin.adapters.kubelet.pb import pluginregistration_pb2 as registration_pb
from device_plugin.adapters.kubelet.pb import pluginregistration_pb2_grpc as registration_rpc
from device_plugin.adapters.kubelet.streams import DeviceStreams
from device_plugin.core.errors import VgpuError
from device_plugin.core.machine import DeviceHealth, KubeletError, PreparedClaim

# The kubelet's folder, below its root, with the sockets of plugins.
REGISTRY = "plugins_registry"
PLUGIN_TYPE = "DRAPlugin"
VERSIONS = ("v1.DRAPlugin", "v1alpha1.DRAResourceHealth")
# Started when they are needed: a pod has a call of its own, and a node has some hundred pods.
THREADS = 64
# Seconds of the kubelet's deadline that a call leaves for its answer.
ANSWER_SECONDS = 3.0
# Seconds after which health is sent again: the kubelet forgets it after 30 s.
HEALTH_SECONDS = 10.0


class ClaimHandler(Protocol):
    """The calls of the kubelet that a DRA driver answers."""

    def prepare(self, namespace: str, name: str, uid: str, seconds: float) -> PreparedClaim:
        """Prepare the start of the ResourceClaim's container within `seconds`. Raises VgpuError if it cannot start."""

    def unprepare(self, uid: str, seconds: float) -> None:
        """Remove what was prepared for the ResourceClaim within `seconds`. Raises VgpuError if it is still in use."""


class DraServer(
    rpc.DRAPluginServicer, registration_rpc.RegistrationServicer, health_rpc.DRAResourceHealthServicer
):
    """Serves the DRA driver `driver` of the node `node` on a socket in `folder`. `update` sends the devices' health.

    `kubelet` returns a value that differs after each start of the kubelet; None while there is no kubelet.
    """

    def __init__(
        self, driver: str, node: str, folder: Path, handler: ClaimHandler, kubelet: Callable[[], object]
    ) -> None:
        self.driver = driver
        self.path = folder / f"{driver}-{secrets.token_hex(4)}-reg.sock"
        self._node = node
        self._handler = handler
        self._kubelet = kubelet
        self._registered: object = None
        self._refusal = ""
        self._streams = DeviceStreams[DeviceHealth](HEALTH_SECONDS)
        self._server: grpc.Server | None = None

    @property
    def serving(self) -> bool:
        """True while our socket exists."""
        return self._server is not None and self.path.is_socket()

    @property
    def registered(self) -> bool:
        """True while the driver is registered with the kubelet that runs now."""
        return self.serving and self._registered is not None and self._registered == self._kubelet()

    @property
    def refusal(self) -> str:
        """The reason why the kubelet did not register the driver, as the kubelet gave it; empty without one."""
        return self._refusal

    def start(self) -> None:
        """Remove the driver's sockets, and serve on a new one, which makes the kubelet register the driver.

        Raises KubeletError.
        """
        self.stop()
        server = grpc.server(ThreadPoolExecutor(THREADS, thread_name_prefix=self.driver))
        rpc.add_DRAPluginServicer_to_server(self, server)
        registration_rpc.add_RegistrationServicer_to_server(self, server)
        health_rpc.add_DRAResourceHealthServicer_to_server(self, server)
        try:
            for left in self.path.parent.glob(f"{self.driver}-*reg.sock"):
                left.unlink(missing_ok=True)
            server.add_insecure_port(f"unix:{self.path}")
        except (OSError, RuntimeError) as error:
            raise KubeletError(
                f"cannot serve on {self.path}: {error}: mount the kubelet's folder {REGISTRY} there"
            ) from error
        server.start()
        self._server = server

    def update(self, devices: Mapping[str, DeviceHealth]) -> None:
        """Send the health of all devices, by name, to the kubelet if it has changed."""
        self._streams.update(devices)

    def stop(self) -> None:
        """End the streams, and stop serving; calls that still run after 0.5 s are cancelled."""
        server, self._server, self._registered = self._server, None, None
        if server is not None:
            self._streams.end()
            server.stop(grace=0.5).wait()

    def GetInfo(
        self, request: registration_pb.InfoRequest, context: grpc.ServicerContext
    ) -> registration_pb.PluginInfo:
        """Tell the kubelet the driver's name, and the APIs that it serves."""
        return registration_pb.PluginInfo(type=PLUGIN_TYPE, name=self.driver, supported_versions=VERSIONS)

    def NotifyRegistrationStatus(
        self, request: registration_pb.RegistrationStatus, context: grpc.ServicerContext
    ) -> registration_pb.RegistrationStatusResponse:
        """Note whether the kubelet has registered the driver."""
        self._refusal = "" if request.plugin_registered else request.error or "the kubelet gives no reason"
        self._registered = self._kubelet() if request.plugin_registered else None
        return registration_pb.RegistrationStatusResponse()

    def NodePrepareResources(
        self, request: pb.NodePrepareResourcesRequest, context: grpc.ServicerContext
    ) -> pb.NodePrepareResourcesResponse:
        """Prepare all ResourceClaims of the call, or answer with one error for all of them.

        If only some claims of a call failed, the kubelet would keep the devices of the others. It would then ask for
        all claims again, and have these devices twice.
        """
        deadline = _deadline(context)
        found: dict[str, pb.NodePrepareResourceResponse] = {}
        for each in request.claims:
            try:
                prepared = self._handler.prepare(each.namespace, each.name, each.uid, _left(deadline))
            except VgpuError as error:
                failed = pb.NodePrepareResourceResponse(error=f"ResourceClaim {each.name}: {error}")
                return pb.NodePrepareResourcesResponse(claims={other.uid: failed for other in request.claims})
            found[each.uid] = pb.NodePrepareResourceResponse(devices=_devices(prepared))
        return pb.NodePrepareResourcesResponse(claims=found)

    def NodeUnprepareResources(
        self, request: pb.NodeUnprepareResourcesRequest, context: grpc.ServicerContext
    ) -> pb.NodeUnprepareResourcesResponse:
        """Remove what was prepared for these ResourceClaims; a claim that is still in use is answered with an error."""
        deadline = _deadline(context)
        found: dict[str, pb.NodeUnprepareResourceResponse] = {}
        for each in request.claims:
            error = ""
            try:
                self._handler.unprepare(each.uid, _left(deadline))
            except VgpuError as failure:
                error = str(failure)
            found[each.uid] = pb.NodeUnprepareResourceResponse(error=error)
        return pb.NodeUnprepareResourcesResponse(claims=found)

    def NodeWatchResources(
        self, request: health_pb.NodeWatchResourcesRequest, context: grpc.ServicerContext
    ) -> Iterator[health_pb.NodeWatchResourcesResponse]:
        """Send the health of all devices now, after each change and every HEALTH_SECONDS, until the stream ends."""
        for devices in self._streams.devices(context):
            yield self._health(devices)

    def _health(self, devices: Mapping[str, DeviceHealth]) -> health_pb.NodeWatchResourcesResponse:
        now = int(time.time())
        return health_pb.NodeWatchResourcesResponse(
            devices=[
                health_pb.DeviceHealth(
                    device=health_pb.DeviceIdentifier(pool_name=self._node, device_name=name),
                    health=health_pb.HEALTHY if each.healthy else health_pb.UNHEALTHY,
                    last_updated_time=now,
                    message=each.message,
                )
                for name, each in devices.items()
            ]
        )


def _deadline(context: grpc.ServicerContext) -> float:
    """The time on the monotonic clock by which a call is to be answered."""
    left: float | None = context.time_remaining()
    return math.inf if left is None else time.monotonic() + left - ANSWER_SECONDS


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _devices(prepared: PreparedClaim) -> Iterable[pb.Device]:
    """A ResourceClaim's devices as the kubelet expects them.

    Only the first device names the claim's CDI device, so that the container gets the CDI device once.
    """
    for number, each in enumerate(prepared.devices):
        yield pb.Device(
            request_names=[each.request],
            pool_name=each.pool,
            device_name=each.device,
            cdi_device_ids=[] if number else [prepared.cdi],
            share_id=each.share or None,
        )
