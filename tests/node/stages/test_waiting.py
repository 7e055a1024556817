"""Containers that wait never keep the kubelet from admitting other pods."""

import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from device_plugin.adapters.kubelet import server
from device_plugin.adapters.kubelet.pb import deviceplugin_pb2 as pb
from device_plugin.adapters.kubelet.pb import deviceplugin_pb2_grpc as rpc
from device_plugin.adapters.kubelet.server import PluginServer
from device_plugin.node.slices.admission import NotNowError
from device_plugin.node.stages import allocate
from tests.builders.cards import MEM
from tests.deadline import until
from tests.node.parts import Parts, Peer


@contextmanager
def _served(parts: Parts, folder: Path) -> Iterator[grpc.Channel]:
    plugin = PluginServer(MEM, folder, parts.starts)
    plugin.start()
    with grpc.insecure_channel(f"unix:{plugin.path}") as channel:
        yield channel
    plugin.stop()


def test_allocate_is_answered_while_more_containers_wait_than_there_are_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocate, "WAIT_SECONDS", 200.0)
    parts = Parts(tmp_path, Peer())
    parts.start()
    # The path of a Unix socket has at most 107 characters (unix(7)); that of `tmp_path` can be too long.
    with tempfile.TemporaryDirectory(prefix="wt-") as folder, _served(parts, Path(folder)) as channel:
        stub = rpc.DevicePluginStub(channel)
        # Nobody holds these tickets, so each waits for the kubelet to show who does.
        waiting = [
            stub.PreStartContainer.future(pb.PreStartContainerRequest(devices_ids=[str(i)]))
            for i in range(2 * server.THREADS)
        ]
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=["a"])])
        answer = stub.Allocate(request, timeout=60)
        assert len(answer.container_responses) == 1
        parts.starts.stop()
        assert {call.code() for call in waiting} == {grpc.StatusCode.UNAVAILABLE}


def test_whoever_comes_beyond_the_most_is_sent_back_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocate, "WAIT_SECONDS", 200.0)
    parts = Parts(tmp_path, Peer())
    parts.start()
    looks: Counter[int] = Counter()
    monkeypatch.setattr(parts.peer, "list", lambda: looks.update([threading.get_ident()]) or ())
    with ThreadPoolExecutor(allocate.MOST_WAITING) as pool:
        waiting = [pool.submit(parts.starts.pre_start, MEM, [str(i)]) for i in range(allocate.MOST_WAITING)]
        until(lambda: sum(n > 1 for n in list(looks.values())) == allocate.MOST_WAITING, "all wait")
        with pytest.raises(NotNowError, match="which container holds these tickets"):
            parts.starts.pre_start(MEM, ["late"])
        assert not any(call.done() for call in waiting), "it did not wait as long as they do"
        parts.starts.stop()
        assert all(isinstance(call.exception(60), NotNowError) for call in waiting)
