"""The Registration service, and one connection per registered plugin.

Model: pkg/kubelet/cm/devicemanager/plugin/v1beta1 of Kubernetes 1.36, also in a behaviour that surprises plugins: when
any stream of a resource ends, even an old one, the newest connection of that resource is closed.
"""

import logging
import re
import threading
from concurrent import futures
from pathlib import Path

import grpc

from device_plugin.adapters.kubelet.pb import deviceplugin_pb2 as pb
from device_plugin.adapters.kubelet.pb import deviceplugin_pb2_grpc as rpc
from hack.embedded.kubelet.devices import DeviceManager
from hack.embedded.kubelet.plugin_endpoint import PluginEndpoint, PluginError

log = logging.getLogger(__name__)

VERSION = "v1beta1"
CHECKPOINT = "kubelet_internal_checkpoint"
SOCKET = "kubelet.sock"
# The name of an extended resource: it has a domain outside of kubernetes.io, and does not begin with `requests.`.
_EXTENDED = re.compile(
    r"(?!requests\.|[^/]*kubernetes\.io/)[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
)


class RegistrationServer(rpc.RegistrationServicer):
    """Serves `<folder>/kubelet.sock`. All other files in the folder are removed at start, as the kubelet does.

    A plugin has `dial` seconds from its registration to serve.
    """

    def __init__(self, folder: Path, devices: DeviceManager, dial: float) -> None:
        self._folder = folder
        self._devices = devices
        self._dial = dial
        self._lock = threading.Lock()
        self._clients: dict[str, PluginEndpoint] = {}
        self._streams: list[tuple[PluginEndpoint, threading.Thread]] = []
        self._pool = futures.ThreadPoolExecutor(4, thread_name_prefix="registration")
        self._server = grpc.server(self._pool)

    def start(self) -> None:
        """Remove all files of the folder except the checkpoint, and serve."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.iterdir():
            if path.name != CHECKPOINT and not path.is_dir():
                path.unlink()
        rpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{self._folder / SOCKET}")
        self._server.start()

    def stop(self) -> None:
        """Stop serving and drop every plugin."""
        self._server.stop(0).wait()
        self._pool.shutdown()
        with self._lock:
            self._clients.clear()
        for endpoint, thread in self._streams:
            endpoint.close()
            thread.join()

    def Register(self, request: pb.RegisterRequest, context: grpc.ServicerContext) -> pb.Empty:
        """Register a plugin: connect to its socket before the answer, as the real kubelet does."""
        if request.version != VERSION:
            context.abort(
                grpc.StatusCode.UNKNOWN,
                f'requested API version "{request.version}" is not supported by kubelet. Supported version is'
                f' ["{VERSION}"]',
            )
        if not _EXTENDED.fullmatch(request.resource_name):
            context.abort(grpc.StatusCode.UNKNOWN, f'the ResourceName "{request.resource_name}" is invalid')
        endpoint = PluginEndpoint(request.resource_name, self._folder / request.endpoint)
        with self._lock:
            self._clients[endpoint.resource] = endpoint
        try:
            endpoint.connect(self._dial)
        except PluginError as error:
            self._drop(endpoint.resource)
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        self._devices.connected(endpoint)
        thread = threading.Thread(
            target=self._run, args=(endpoint,), name=f"plugin-{endpoint.resource}", daemon=True
        )
        thread.start()
        self._streams.append((endpoint, thread))
        return pb.Empty()

    def _run(self, endpoint: PluginEndpoint) -> None:
        endpoint.follow(lambda health: self._devices.listed(endpoint.resource, dict(health)))
        if self._drop(endpoint.resource):
            self._devices.disconnected(endpoint.resource)
        endpoint.close()

    def _drop(self, resource: str) -> bool:
        # The connection is found by its resource, so that the newest one is closed even if an older stream has ended.
        with self._lock:
            newest = self._clients.pop(resource, None)
        if newest is not None:
            newest.close()
        return newest is not None
