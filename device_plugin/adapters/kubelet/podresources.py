"""The kubelet's PodResources API: which containers hold which tickets (device IDs).

The kubelet allows 100 calls a second with a burst of 10, so one call serves all threads that wait for one.
"""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import grpc

from device_plugin.adapters.kubelet.pb import podresources_pb2 as pb
from device_plugin.adapters.kubelet.pb import podresources_pb2_grpc as rpc
from device_plugin.core.machine import Holder, KubeletError

TIMEOUT_SECONDS = 5.0
PAUSE_SECONDS = 0.05
MOST_BYTES = 64 << 20


class KubeletPodResources:
    """Calls the PodResources API at the socket `path`; waiting threads share one call of `List`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._channel = grpc.insecure_channel(
            f"unix:{path}", options=[("grpc.max_receive_message_length", MOST_BYTES)]
        )
        self._stub = rpc.PodResourcesListerStub(self._channel)
        self._changed = threading.Condition()
        self._started = 0
        self._finished = 0
        self._running = False
        self._answer: Sequence[Holder] | KubeletError = ()

    def close(self) -> None:
        """Close the connection to the kubelet."""
        self._channel.close()

    def list(self) -> Sequence[Holder]:
        """Returns the containers that hold tickets (device IDs), from a List call that begins after now.

        Threads that wait at the same time share one call. Raises KubeletError.
        """
        with self._changed:
            wanted = self._started + 1
            while self._running and self._finished < wanted:
                self._changed.wait()
            if self._finished >= wanted:
                return _result(self._answer)
            self._running = True
            self._started += 1
        answer: Sequence[Holder] | KubeletError = KubeletError(f"the call to {self._path} was interrupted")
        try:
            answer = self._ask()
        except KubeletError as error:
            answer = error
        finally:  # in any case, so that no caller waits for ever
            with self._changed:
                self._running = False
                self._finished = self._started
                self._answer = answer
                self._changed.notify_all()
        return _result(answer)

    def devices(self) -> Mapping[str, frozenset[str]]:
        """Returns the IDs of all healthy devices by resource. Raises KubeletError.

        Unlike `list`, this call changes nothing in the kubelet, so it may be made during Allocate.
        """
        # A new connection: after a restart of the kubelet gRPC would wait before it uses the old one again, and
        # registration needs this answer.
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", MOST_BYTES)]
        with grpc.insecure_channel(f"unix:{self._path}", options=options) as channel:
            try:
                answer = rpc.PodResourcesListerStub(channel).GetAllocatableResources(
                    pb.AllocatableResourcesRequest(), timeout=TIMEOUT_SECONDS
                )
            except grpc.RpcError as error:
                raise KubeletError(f"devices of {self._path}: {error.details()}") from error
        return _union(answer.devices)

    def _ask(self) -> Sequence[Holder]:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                answer = self._stub.List(pb.ListPodResourcesRequest(), timeout=TIMEOUT_SECONDS)
            except grpc.RpcError as error:
                busy = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                if not busy or time.monotonic() > deadline:
                    raise KubeletError(f"pod resources of {self._path}: {error.details()}") from error
                time.sleep(PAUSE_SECONDS)
            else:
                return [
                    _holder(pod, container) for pod in answer.pod_resources for container in pod.containers
                ]


def _result(answer: Sequence[Holder] | KubeletError) -> Sequence[Holder]:
    if isinstance(answer, KubeletError):
        raise answer
    return answer


def _holder(pod: pb.PodResources, container: pb.ContainerResources) -> Holder:
    return Holder(pod.namespace, pod.name, container.name, _union(container.devices))


def _union(entries: Iterable[pb.ContainerDevices]) -> Mapping[str, frozenset[str]]:
    """Returns the device IDs of all entries by resource; the kubelet's answers have one entry for each device."""
    found: dict[str, set[str]] = {}
    for entry in entries:
        found.setdefault(entry.resource_name, set()).update(entry.device_ids)
    return {name: frozenset(ids) for name, ids in found.items()}
