"""The PodResources service: the device IDs (tickets) of every container; 100 calls a second, with a burst of 10."""

import threading
import time
from collections.abc import Callable, Collection
from concurrent import futures
from pathlib import Path

import grpc

from device_plugin.adapters.kubelet.pb import podresources_pb2 as pb
from device_plugin.adapters.kubelet.pb import podresources_pb2_grpc as rpc
from hack.embedded import pod_spec
from hack.embedded.kubelet.devices import DeviceManager
from hack.embedded.pod_spec import Json

RATE = 100.0
BURST = 10


class RateLimit:
    """A token bucket: `rate` calls per second, and up to `burst` calls together. `clock` returns seconds."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens = float(burst)
        self._last = clock()

    def allow(self) -> bool:
        """True if one more call may be served now."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._last) * self._rate)
            self._last = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


class PodResourcesServer(rpc.PodResourcesListerServicer):
    """Serves PodResources at `socket`. `pods` returns the active pods."""

    def __init__(self, socket: Path, devices: DeviceManager, pods: Callable[[], Collection[Json]]) -> None:
        self._socket = socket
        self._devices = devices
        self._pods = pods
        self._limit = RateLimit(RATE, BURST)
        self._pool = futures.ThreadPoolExecutor(4, thread_name_prefix="pod-resources")
        self._server = grpc.server(self._pool)

    def start(self) -> None:
        """Start serving; an old socket is replaced."""
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        self._socket.unlink(missing_ok=True)
        rpc.add_PodResourcesListerServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{self._socket}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(0).wait()
        self._pool.shutdown()

    def List(
        self, _: pb.ListPodResourcesRequest, context: grpc.ServicerContext
    ) -> pb.ListPodResourcesResponse:
        """List the devices of every active pod."""
        self._check_rate(context)
        return pb.ListPodResourcesResponse(pod_resources=map(self._show, self._pods()))

    def Get(
        self, request: pb.GetPodResourcesRequest, context: grpc.ServicerContext
    ) -> pb.GetPodResourcesResponse:
        """Return the devices of one pod, by its name."""
        self._check_rate(context)
        wanted = (request.pod_namespace, request.pod_name)
        found = [pod for pod in map(self._show, self._pods()) if (pod.namespace, pod.name) == wanted]
        if not found:
            context.abort(grpc.StatusCode.UNKNOWN, f"pod {wanted[1]} in namespace {wanted[0]} not found")
        return pb.GetPodResourcesResponse(pod_resources=found[0])

    def GetAllocatableResources(
        self, _: pb.AllocatableResourcesRequest, context: grpc.ServicerContext
    ) -> pb.AllocatableResourcesResponse:
        """List every healthy device, held or not."""
        self._check_rate(context)
        answer = pb.AllocatableResourcesResponse()
        for resource, devices in self._devices.allocatable().items():
            for device in sorted(devices):
                answer.devices.add(resource_name=resource, device_ids=[device])
        return answer

    def _check_rate(self, context: grpc.ServicerContext) -> None:
        if not self._limit.allow():
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    def _show(self, pod: Json) -> pb.PodResources:
        of = pod_spec.ref(pod)
        shown = pb.PodResources(name=of.name, namespace=of.namespace)
        for view in pod_spec.containers(pod):
            if view.init and not view.sidecar:
                continue
            container = shown.containers.add(name=view.name)
            for holding in self._devices.holdings(of.uid, view.name):
                for ticket in sorted(holding.ids):
                    container.devices.add(resource_name=holding.resource, device_ids=[ticket])
        return shown
