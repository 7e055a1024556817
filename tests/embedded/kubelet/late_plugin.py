"""A late-binding device plugin, as small as one can be: the behaviours of the kubelet are tested against it."""

# ruff: noqa: N802, ARG002 - method names and parameters are the protocol's

import hashlib
import json
import threading
from concurrent import futures
from pathlib import Path

import grpc

from device_plugin.adapters.kubelet.pb import deviceplugin_pb2 as pb
from device_plugin.adapters.kubelet.pb import deviceplugin_pb2_grpc as rpc
from device_plugin.adapters.kubelet.pb import podresources_pb2 as pr
from device_plugin.adapters.kubelet.pb import podresources_pb2_grpc as pr_rpc

KIND = "vgpu.io/slice"


class LatePlugin(rpc.DevicePluginServicer):
    """Serves `resource` with `count` tickets; the container finds `pod=… tickets=…` in /etc/vgpu/vgpu.conf."""

    def __init__(self, kubelet_dir: Path, cdi_dir: Path, folder: Path, resource: str, count: int) -> None:
        self.resource = resource
        self.tail = resource.split("/")[1]
        self.health = {f"{self.tail}-{i}": True for i in range(count)}
        self.allocated: list[frozenset[str]] = []
        self.started: list[frozenset[str]] = []
        self.on_allocate = lambda: None
        self.on_pre_start = lambda: None
        self.bind = True  # no regular init container could start: PodResources does not show them
        self._kubelet_dir, self._cdi_dir, self._folder = kubelet_dir, cdi_dir, folder
        self._changed = threading.Condition()
        self._version = 0
        self._closed = False
        self._server: grpc.Server | None = None
        self._channel = grpc.insecure_channel(f"unix://{kubelet_dir}/pod-resources/kubelet.sock")
        self._pods = pr_rpc.PodResourcesListerStub(self._channel)
        self.streams = 0

    def serve(self, socket: str = "") -> None:
        """Serve and register."""
        endpoint = socket or f"{self.tail}.sock"
        path = self._kubelet_dir / "device-plugins" / endpoint
        path.unlink(missing_ok=True)
        self._closed = False
        self._server = grpc.server(futures.ThreadPoolExecutor(64))
        rpc.add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{path}")
        self._server.start()
        self.register(endpoint)

    def register(self, endpoint: str) -> None:
        with grpc.insecure_channel(f"unix://{self._kubelet_dir}/device-plugins/kubelet.sock") as channel:
            rpc.RegistrationStub(channel).Register(
                pb.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=self.resource),
                timeout=10,
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

    def GetDevicePluginOptions(self, request, context):
        return pb.DevicePluginOptions(pre_start_required=True)

    def ListAndWatch(self, request, context):
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

    def Allocate(self, request, context):
        self.on_allocate()
        ids = frozenset(request.container_requests[0].devices_ids)
        self.allocated.append(ids)
        answer = pb.ContainerAllocateResponse(cdi_devices=[pb.CDIDevice(name=f"{KIND}={self.name(ids)}")])
        return pb.AllocateResponse(container_responses=[answer])

    def PreStartContainer(self, request, context):
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

    def write(self, pod: str, ids: frozenset[str]) -> None:
        """Only one of several resources carries the config; the others an environment variable."""
        edits: dict[str, object] = {"env": [f"TICKETS_{self.tail.replace('-', '_').upper()}={len(ids)}"]}
        if self.tail.endswith("mem"):
            for other in self._folder.glob(f"*/{self.name(ids)}"):
                if other.parent.name != pod:
                    other.unlink()
            config = self._folder / pod / self.name(ids)
            config.parent.mkdir(parents=True, exist_ok=True)
            config.write_text(f"pod={pod} tickets={len(ids)}\n")
            options = ["ro", "bind", "nosuid", "nodev"]
            edits["mounts"] = [
                {"hostPath": str(config), "containerPath": "/etc/vgpu/vgpu.conf", "options": options}
            ]
        spec = {
            "cdiVersion": "0.6.0",
            "kind": KIND,
            "devices": [{"name": self.name(ids), "containerEdits": edits}],
        }
        partial = self._cdi_dir / f".{self.name(ids)}.tmp"
        partial.write_text(json.dumps(spec))
        partial.rename(self._cdi_dir / f"vgpu-{self.name(ids)}.json")
