"""Containers restart while the API server is down: the record on disk suffices, where it leaves no doubt."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from device_plugin.core.contract.grants import Slice
from device_plugin.core.pods import Pod
from device_plugin.kube.errors import ApiError, GoneError, UnknownError
from device_plugin.node.slices.admission import NotNowError
from device_plugin.node.stages import allocate
from tests.builders.cards import CORES, MEM
from tests.node.parts import Parts, Peer, config_of
from vgpu_runtime import rocm

TICKETS = {MEM: ["dcu-mem-0", "dcu-mem-1"], CORES: ["dcu-cores-0", "dcu-cores-1"]}


class Mute(Peer):
    """An API server that goes down; `error` is what it says then."""

    error: ApiError | None = None

    def pod(self, namespace: str, name: str) -> Pod:
        if self.error is not None:
            raise self.error
        return super().pod(namespace, name)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    """The second life of an agent whose pod runs; the API server went down before the agent came back."""
    monkeypatch.setattr(allocate, "WAIT_SECONDS", 0.0)
    peer = Mute()
    first = Parts(tmp_path, peer)
    first.start()
    pod = first.bind("a", [Slice(first.uuids[0], 2046, (3, 4))], {MEM: "2", CORES: "2"})
    first.hold(pod, TICKETS)
    for resource, tickets in TICKETS.items():
        first.starts.pre_start(resource, tickets)
    peer.living.add(pod.uid)
    peer.error = UnknownError("down")
    second = Parts(tmp_path, peer)
    second.records.load()
    second.injector.prepare()
    return second


@pytest.mark.parametrize("order", [(MEM, CORES), (CORES, MEM)])
def test_a_container_restarts_with_its_own_slice(parts: Parts, order: tuple[str, str]) -> None:
    for path in parts.cdi.glob("*.json"):
        path.unlink()
    for resource in order:
        parts.starts.pre_start(resource, TICKETS[resource])
    (card,) = rocm.parse(config_of(parts.spec(MEM, TICKETS[MEM]))).cards
    assert (card.uuid, card.mem_bytes, card.family.mask) == (parts.uuids[0], 2046 << 20, 0b11000)
    assert card.request == "hygon.com/dcu-mem:2"
    assert not parts.spec(CORES, TICKETS[CORES]).mounts


def refused(parts: Parts, tickets: list[str] = TICKETS[MEM]) -> None:
    with pytest.raises(NotNowError, match="default/a"):
        parts.starts.pre_start(MEM, tickets)


def test_a_pod_that_does_not_live_is_not_remembered(parts: Parts) -> None:
    parts.peer.living.clear()
    refused(parts)


def test_a_pod_that_the_api_server_denies_is_not_remembered(parts: Parts) -> None:
    assert isinstance(parts.peer, Mute)
    parts.peer.error = GoneError("not found")
    refused(parts)


def test_other_tickets_are_not_remembered(parts: Parts) -> None:
    (holder,) = parts.peer.holders
    parts.peer.holders = [replace(holder, tickets={MEM: frozenset({"dcu-mem-0"})})]
    refused(parts, ["dcu-mem-0"])


def test_two_pods_of_one_name_are_not_told_apart_by_guessing(parts: Parts) -> None:
    (record,) = parts.records.all()
    parts.records.put(msgspec.structs.replace(record, pod="uid-another"))
    refused(parts)


def test_a_container_that_never_got_its_files_is_not_remembered(parts: Parts) -> None:
    (parts.records.folder("uid-a", "main") / "vgpu.conf").unlink()
    refused(parts)


def test_a_remembered_container_waits_like_any_other_for_who_is_in_its_way(parts: Parts) -> None:
    (record,) = parts.records.all()
    parts.records.put(msgspec.structs.replace(record, pod="uid-b", pod_name="b", names={}, tickets={}))
    parts.peer.living.add("uid-b")
    with pytest.raises(NotNowError, match="default/b"):
        parts.starts.pre_start(MEM, TICKETS[MEM])
