"""A late-binding device plugin, as small as one can be: the behaviours of the kubelet are tested against it."""

# ruff: noqa: N802, ARG002 - method names and parameters are the protocol's

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from device_plugin.adapters.kubelet.pb import deviceplugin_pb2 as pb
from device_plugin.adapters.kubelet.pb import deviceplugin_pb2_grpc as rpc
from device_plugin.adapters.kubelet.pb import podresources_pb2 as pr
from device_plugin.adapters.kubelet.pb import podresources_pb2_grpc as pr_rpc

KIND = "lab.io/slice"


@dataclass(frozen=True)
class Folders:
    """Where a plugin finds what it needs of its node, from here; the node itself sees `slices` at `slices_there`."""

    kubelet: Path
    cdi: Path
    slices: Path
    slices_there: Path

    @property
    def plugins(self) -> Path:
        return self.kubelet / "device-plugins"

    @property
    def drivers(self) -> Path:
        """Where a DRA driver registers."""
        return self.kubelet / "plugins_registry"

    @property
    def pod_resources(self) -> str:
        """The address of the service."""
        return f"unix://{self.kubelet}/pod-resources/kubelet.sock"


class LatePlugin(rpc.DevicePluginServicer):
    """Serves `resource` with `count` tickets; the container finds `pod=… tickets=…` in /etc/vgpu/vgpu.conf."""

    def __init__(self, folders: Folders, resource: str, count: int) -> None:
        self.resource = resource
        self.tail = resource.split("/")[1]
        self.part = self.tail.rsplit("-", 1)[1]  # mem or cores
        self.health = {f"{self.tail}-{i}": True for i in range(count)}
        self.allocated: list[frozenset[str]] = []
        self.started: list[frozenset[str]] = []
        self.env: dict[str, str] = {}  # what Allocate sets, beside what CDI does
        self.device = ""  # the host's path of the device node that a container gets
        self.on_allocate: Callable[[], None] = lambda: None
        self.on_pre_start: Callable[[], None] = lambda: None
        self.write: Callable[[str, frozenset[str]], None] = self._write
        self.aside = folders.cdi  # where a spec lies until it is whole
        self.bind = True  # no regular init container could start: PodResources does not show them
        self._folders = folders
        self._changed = threading.Condition()
        self._version = 0
        self._closed = False
        self._server: grpc.Server | None = None
        self._channel = grpc.insecure_channel(folders.pod_resources)
        self._pods = pr_rpc.PodResourcesListerStub(self._channel)
        self.streams = 0

    @property
    def socket(self) -> str:
        return f"{self.tail}.sock"

    def serve(self, socket: str = "") -> None:
        """Listen and register."""
        self.listen(socket)
        self.register(socket)

    def listen(self, socket: str = "") -> None:
        path = self._folders.plugins / (socket or self.socket)
        path.unlink(missing_ok=True)
        self._closed = False
        self._server = grpc.server(futures.ThreadPoolExecutor(64))
        rpc.add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{path}")
        self._server.start()

    def register(self, socket: str = "") -> None:
        with grpc.insecure_channel(f"unix://{self._folders.plugins}/kubelet.sock") as channel:
            rpc.RegistrationStub(channel).Register(
                pb.RegisterRequest(
                    version="v1beta1", endpoint=socket or self.socket, resource_name=self.resource
                ),
                timeout=20,
            )

    def stop(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._server is not None:
            self._server.stop(0).wait()

    def close(self) -> None:
        self.stop()
        self._channel.close()

    def set_health(self, ticket: str, healthy: bool) -> None:
        with self._changed:
            self.health[ticket] = healthy
            self._version += 1
            self._changed.notify_all()

    def GetDevicePluginOptions(self, request: Any, context: Any) -> pb.DevicePluginOptions:
        return pb.DevicePluginOptions(pre_start_required=True)

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[pb.ListAndWatchResponse]:
        self.streams += 1
        seen = -1
        while not self._closed and context.is_active():
            with self._changed:
                if self._version == seen:
                    self._changed.wait(0.2)
                    continue
                seen = self._version
                devices = [
                    pb.Device(ID=name, health="Healthy" if ok else "Unhealthy")
                    for name, ok in self.health.items()
                ]
            yield pb.ListAndWatchResponse(devices=devices)

    def Allocate(self, request: Any, context: Any) -> pb.AllocateResponse:
        self.on_allocate()
        ids = frozenset(request.container_requests[0].devices_ids)
        self.allocated.append(ids)
        answer = pb.ContainerAllocateResponse(
            envs=self.env, cdi_devices=[pb.CDIDevice(name=f"{KIND}={self.name(ids)}")]
        )
        return pb.AllocateResponse(container_responses=[answer])

    def PreStartContainer(self, request: Any, context: Any) -> pb.PreStartContainerResponse:
        ids = frozenset(request.devices_ids)
        self.started.append(ids)
        self.on_pre_start()
        if not self.bind:
            self.write("nobody", ids)
            return pb.PreStartContainerResponse()
        try:
            listed = self._pods.List(pr.ListPodResourcesRequest(), timeout=10).pod_resources
        except grpc.RpcError as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, error.details())
        holders = [
            pod.name
            for pod in listed
            for container in pod.containers
            if {i for d in container.devices if d.resource_name == self.resource for i in d.device_ids} == ids
        ]
        if len(holders) != 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, f"{len(holders)} holders")
        self.write(holders[0], ids)
        return pb.PreStartContainerResponse()

    def name(self, ids: frozenset[str]) -> str:
        return f"{self.tail}-{hashlib.sha256(','.join(sorted(ids)).encode()).hexdigest()[:16]}"

    def _write(self, pod: str, ids: frozenset[str]) -> None:
        """Only one of several resources carries the config; the others an environment variable."""
        edits: dict[str, object] = {"env": [f"TICKETS_{self.part.upper()}={len(ids)}"]}
        if self.part == "mem":
            for other in self._folders.slices.glob(f"*/{self.name(ids)}"):
                if other.parent.name != pod:
                    other.unlink()
            place = Path(pod, self.name(ids))
            config = self._folders.slices / place
            config.parent.mkdir(parents=True, exist_ok=True)
            config.write_text(f"pod={pod} tickets={len(ids)}\n")
            options = ["ro", "bind", "nosuid", "nodev"]
            edits["mounts"] = [
                {
                    "hostPath": str(self._folders.slices_there / place),
                    "containerPath": "/etc/vgpu/vgpu.conf",
                    "options": options,
                }
            ]
        if self.device:
            edits["deviceNodes"] = [{"path": "/dev/lab", "hostPath": self.device}]
        spec = {
            "cdiVersion": "0.6.0",
            "kind": KIND,
            "devices": [{"name": self.name(ids), "containerEdits": edits}],
        }
        partial = self.aside / f".{self.name(ids)}.tmp"
        partial.write_text(json.dumps(spec))
        partial.rename(self._folders.cdi / f"lab-{self.name(ids)}.json")
