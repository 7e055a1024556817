"""One List call for everybody who waits, under the kubelet's rate limit."""

import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from device_plugin.adapters.kubelet import podresources
from device_plugin.adapters.kubelet.pb import podresources_pb2 as pb
from device_plugin.adapters.kubelet.pb import podresources_pb2_grpc as rpc
from device_plugin.adapters.kubelet.podresources import KubeletPodResources
from device_plugin.core.machine import Holder, KubeletError


class Kubelet(rpc.PodResourcesListerServicer):
    """Answers with a container whose tickets come one by one; `busy` calls are refused first."""

    def __init__(self) -> None:
        self.calls = 0
        self.busy = 0
        self.gate = threading.Event()
        self.gate.set()

    def List(  # noqa: N802 - the protocol's name
        self, _: pb.ListPodResourcesRequest, context: grpc.ServicerContext
    ) -> pb.ListPodResourcesResponse:
        self.calls += 1
        self.gate.wait(60)
        if self.busy:
            self.busy -= 1
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        devices = [
            pb.ContainerDevices(resource_name="lab.io/mem", device_ids=[i]) for i in ("mem-1", "mem-2")
        ]
        container = pb.ContainerResources(name="main", devices=devices)
        return pb.ListPodResourcesResponse(
            pod_resources=[pb.PodResources(name="pod", namespace="default", containers=[container])]
        )


@pytest.fixture
def socket() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pr-") as folder:
        yield Path(folder) / "kubelet.sock"


@pytest.fixture
def kubelet(socket: Path) -> Iterator[Kubelet]:
    served = Kubelet()
    with futures.ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool)
        rpc.add_PodResourcesListerServicer_to_server(served, server)
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        yield served
        server.stop(0).wait()


@pytest.fixture
def client(socket: Path) -> Iterator[KubeletPodResources]:
    made = KubeletPodResources(socket)
    yield made
    made.close()


def test_a_containers_tickets_are_the_union_of_its_entries(
    kubelet: Kubelet, client: KubeletPodResources
) -> None:
    assert kubelet.calls == 0
    assert client.list() == [Holder("default", "pod", "main", {"lab.io/mem": frozenset({"mem-1", "mem-2"})})]


def test_many_that_wait_share_a_call_that_began_after_they_came(
    kubelet: Kubelet, client: KubeletPodResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(podresources, "TIMEOUT_SECONDS", 60.0)
    kubelet.gate.clear()
    came = threading.Semaphore(0)

    def ask() -> Sequence[Holder]:
        came.release()
        return client.list()

    with futures.ThreadPoolExecutor(60) as pool:
        waiting = [pool.submit(ask) for _ in range(60)]
        assert all(came.acquire(timeout=60) for _ in waiting)
        kubelet.gate.set()
        assert all(len(future.result(60)) == 1 for future in waiting)
    assert kubelet.calls < 20


def test_a_call_refused_by_the_rate_limit_is_made_again(
    kubelet: Kubelet, client: KubeletPodResources
) -> None:
    kubelet.busy = 2
    assert len(client.list()) == 1
    assert kubelet.calls == 3


def test_an_absent_kubelet_is_an_error_for_all_that_wait(socket: Path, client: KubeletPodResources) -> None:
    with futures.ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(client.list) for _ in range(4)]:
            with pytest.raises(KubeletError, match=str(socket)):
                future.result(60)


def test_nobody_waits_for_ever_for_a_call_that_broke_off(
    client: KubeletPodResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, gate = threading.Event(), threading.Event()

    def broken() -> None:
        asked.set()
        gate.wait(60)
        raise ValueError("Cannot invoke RPC on closed channel!")  # what grpc says while the agent stops

    monkeypatch.setattr(client, "_ask", broken)
    with futures.ThreadPoolExecutor(4) as pool:
        first = pool.submit(client.list)
        assert asked.wait(60)
        others = [pool.submit(client.list) for _ in range(3)]
        gate.set()
        for future in (first, *others):
            with pytest.raises((ValueError, KubeletError)):
                future.result(60)
