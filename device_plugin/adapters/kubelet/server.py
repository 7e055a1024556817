"""One resource's device plugin: a gRPC server on a socket of its own, and its registration with the kubelet.

k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1.
"""

import socket
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import grpc

from device_plugin.adapters.kubelet.pb import deviceplugin_pb2 as pb
from device_plugin.adapters.kubelet.pb import deviceplugin_pb2_grpc as rpc
from device_plugin.adapters.kubelet.streams import DeviceStreams
from device_plugin.core.errors import VgpuError
from device_plugin.core.machine import KubeletError

VERSION = "v1beta1"
KUBELET = "kubelet.sock"
# The prefix of the names of our sockets.
OURS = "vgpu-"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
REGISTER_SECONDS = 5.0
THREADS = 24


class PluginSockets:
    """The kubelet's folder, in which all device plugins have their sockets."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def others(self) -> list[str]:
        """Returns the names of the sockets at which other plugins answer."""
        try:
            paths = [path for path in self._folder.iterdir() if path.is_socket()]
        except OSError:
            return []
        return [path.name for path in paths if not path.name.startswith((OURS, KUBELET)) and _answers(path)]

    def register(self, socket: str, resource: str) -> None:
        """Register the plugin at this socket for the resource with the kubelet. Raises KubeletError."""
        try:
            with grpc.insecure_channel(f"unix:{self._folder / socket}") as channel:
                options = rpc.DevicePluginStub(channel).GetDevicePluginOptions(
                    pb.Empty(), timeout=REGISTER_SECONDS
                )
        except grpc.RpcError as error:
            raise KubeletError(f"{socket} does not report its options: {error.details()}") from error
        _register(self._folder, socket, resource, options)


def _register(folder: Path, endpoint: str, resource: str, options: pb.DevicePluginOptions) -> None:
    request = pb.RegisterRequest(version=VERSION, endpoint=endpoint, resource_name=resource, options=options)
    kubelet = folder / KUBELET
    # A separate pool: otherwise gRPC would first try its old connection to a kubelet that has restarted.
    pool = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"unix:{kubelet}", options=pool) as channel:
        try:
            rpc.RegistrationStub(channel).Register(request, timeout=REGISTER_SECONDS)
        except grpc.RpcError as error:
            raise KubeletError(f"cannot register {resource} at {kubelet}: {error.details()}") from error


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
        except OSError:
            return False
    return True


class Handler(Protocol):
    """The calls of the kubelet that a device plugin answers."""

    def allocate(self, resource: str, tickets: Collection[str]) -> str:
        """Returns the name of the CDI device for these tickets (device IDs)."""

    def pre_start(self, resource: str, tickets: Collection[str]) -> None:
        """Prepare the start of the container with these tickets (device IDs). Raises VgpuError if it cannot start."""


class PluginServer(rpc.DevicePluginServicer):
    """Serves the device plugin of `resource` on the socket `<folder>/<endpoint>`.

    `update` sends the tickets (device IDs) and their health.
    """

    def __init__(self, resource: str, folder: Path, handler: Handler) -> None:
        self.resource = resource
        self._folder = folder
        self.endpoint = OURS + resource.replace("/", "-") + ".sock"
        self.path = folder / self.endpoint
        self._handler = handler
        self._streams = DeviceStreams[bool]()
        self._server: grpc.Server | None = None

    @property
    def streaming(self) -> bool:
        """True while the kubelet reads the stream of our tickets (device IDs)."""
        return self._streams.open

    @property
    def serving(self) -> bool:
        """True while our socket exists; a kubelet that restarts removes the socket."""
        return self._server is not None and self.path.is_socket()

    def start(self) -> None:
        """Serve on a new socket. Raises KubeletError if the socket cannot be made."""
        self.stop()
        server = grpc.server(ThreadPoolExecutor(THREADS, thread_name_prefix=self.endpoint))
        rpc.add_DevicePluginServicer_to_server(self, server)
        self.path.unlink(missing_ok=True)
        try:
            server.add_insecure_port(f"unix:{self.path}")
        except RuntimeError as error:
            raise KubeletError(f"cannot serve on {self.path}: {error}") from error
        server.start()
        self._server = server

    def register(self) -> None:
        """Tell the kubelet that this plugin serves `resource` at its socket. Raises KubeletError."""
        options = pb.DevicePluginOptions(pre_start_required=True)
        _register(self._folder, self.endpoint, self.resource, options)

    def update(self, devices: Mapping[str, bool]) -> None:
        """Send all tickets (device IDs) and their health (true: healthy) to the kubelet, if one has changed."""
        self._streams.update(devices)

    def stop(self) -> None:
        """End the streams, and stop serving; calls that still run after 0.5 s are cancelled."""
        server, self._server = self._server, None
        if server is not None:
            self._streams.end()
            server.stop(grace=0.5).wait()

    def GetDevicePluginOptions(
        self, request: pb.Empty, context: grpc.ServicerContext
    ) -> pb.DevicePluginOptions:
        """Announce that this plugin wants PreStartContainer."""
        return pb.DevicePluginOptions(pre_start_required=True)

    def ListAndWatch(
        self, request: pb.Empty, context: grpc.ServicerContext
    ) -> Iterator[pb.ListAndWatchResponse]:
        """Send all tickets (device IDs) now, and again after each change, until the stream or the server ends."""
        for devices in self._streams.devices(context):
            yield pb.ListAndWatchResponse(
                devices=[pb.Device(ID=i, health=HEALTHY if ok else UNHEALTHY) for i, ok in devices.items()]
            )

    def Allocate(self, request: pb.AllocateRequest, context: grpc.ServicerContext) -> pb.AllocateResponse:
        """Answer with the name of one CDI device for each container's tickets (device IDs)."""
        return pb.AllocateResponse(
            container_responses=[
                pb.ContainerAllocateResponse(
                    cdi_devices=[
                        pb.CDIDevice(name=self._handler.allocate(self.resource, list(one.devices_ids)))
                    ]
                )
                for one in request.container_requests
            ]
        )

    def PreStartContainer(
        self, request: pb.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> pb.PreStartContainerResponse:
        """Prepare the container; a failure is answered with UNAVAILABLE and the reason, which becomes an event."""
        try:
            self._handler.pre_start(self.resource, list(request.devices_ids))
        except VgpuError as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        return pb.PreStartContainerResponse()
