"""A DRA driver as the kubelet calls it: one socket for registration and claims, deadlines, errors."""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from device_plugin.adapters.kubelet import dra
from device_plugin.adapters.kubelet.dra import DraServer
from device_plugin.adapters.kubelet.pb import dra_pb2 as pb
from device_plugin.adapters.kubelet.pb import dra_pb2_grpc as rpc
from device_plugin.adapters.kubelet.pb import drahealth_pb2 as health_pb
from device_plugin.adapters.kubelet.pb import drahealth_pb2_grpc as health_rpc
from device_plugin.adapters.kubelet.pb import pluginregistration_pb2 as registration_pb
from device_plugin.adapters.kubelet.pb import pluginregistration_pb2_grpc as registration_rpc
from device_plugin.core.contract.claims import AllocatedDevice
from device_plugin.core.errors import VgpuError
from device_plugin.core.machine import DeviceHealth, KubeletError, PreparedClaim

DRIVER = "dcu.vgpu.io"


class Claims:
    """Prepares claims whose names are not in `fails`; `gate` holds calls for the claim `slow`."""

    def __init__(self) -> None:
        self.fails: set[str] = set()
        self.seconds: list[float] = []
        self.gate = threading.Event()

    def prepare(self, namespace: str, name: str, uid: str, seconds: float) -> PreparedClaim:
        self.seconds.append(seconds)
        if name == "slow":
            self.gate.wait(60)
        if name in self.fails:
            raise VgpuError(f"{namespace}/{name} is taken")
        devices = [
            AllocatedDevice("slice", DRIVER, "n1", f"card-{number}", f"s{number}") for number in (0, 1)
        ]
        return PreparedClaim(f"vgpu.io/slice=claim-{uid}", devices)

    def unprepare(self, uid: str, seconds: float) -> None:
        self.seconds.append(seconds)
        if uid in self.fails:
            raise VgpuError("still runs")


class Kubelet:
    """A driver in a folder of its own, and the calls of a kubelet, which begins another life with `restart`."""

    def __init__(self, folder: Path) -> None:
        self.claims, self.life = Claims(), 1
        self.driver = DraServer(DRIVER, "n1", folder, self.claims, lambda: self.life)
        self.folder = folder
        self.channel = grpc.insecure_channel(f"unix:{self.driver.path}")

    def info(self) -> registration_pb.PluginInfo:
        stub = registration_rpc.RegistrationStub(self.channel)
        found: registration_pb.PluginInfo = stub.GetInfo(registration_pb.InfoRequest(), timeout=60)
        return found

    def health(self) -> Iterator[health_pb.NodeWatchResourcesResponse]:
        """The messages of a stream of the devices' health."""
        stub = health_rpc.DRAResourceHealthStub(self.channel)
        yield from stub.NodeWatchResources(health_pb.NodeWatchResourcesRequest(), timeout=60)

    def notify(self, error: str = "") -> None:
        status = registration_pb.RegistrationStatus(plugin_registered=not error, error=error)
        registration_rpc.RegistrationStub(self.channel).NotifyRegistrationStatus(status, timeout=60)

    def prepare(self, *names: str, timeout: float = 60) -> pb.NodePrepareResourcesResponse:
        claims = [pb.Claim(namespace="ns", name=name, uid=f"uid-{name}") for name in names]
        request = pb.NodePrepareResourcesRequest(claims=claims)
        stub = rpc.DRAPluginStub(self.channel)
        found: pb.NodePrepareResourcesResponse = stub.NodePrepareResources(request, timeout=timeout)
        return found

    def unprepare(self, *uids: str) -> pb.NodeUnprepareResourcesResponse:
        request = pb.NodeUnprepareResourcesRequest(claims=[pb.Claim(uid=uid) for uid in uids])
        stub = rpc.DRAPluginStub(self.channel)
        found: pb.NodeUnprepareResourcesResponse = stub.NodeUnprepareResources(request, timeout=60)
        return found


@pytest.fixture
def kubelet() -> Iterator[Kubelet]:
    # The path of a Unix socket has at most 107 characters (unix(7)); that of `tmp_path` can be too long.
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        made = Kubelet(Path(folder))
        made.driver.start()
        yield made
        made.claims.gate.set()
        made.channel.close()
        made.driver.stop()


def test_the_kubelet_finds_the_driver_at_the_socket_at_which_it_registers(kubelet: Kubelet) -> None:
    info = kubelet.info()
    assert list(kubelet.folder.iterdir()) == [kubelet.driver.path]
    assert (info.type, info.name, info.endpoint) == ("DRAPlugin", DRIVER, "")
    assert list(info.supported_versions) == ["v1.DRAPlugin", "v1alpha1.DRAResourceHealth"]


def test_the_driver_is_registered_until_the_kubelet_restarts(kubelet: Kubelet) -> None:
    assert not kubelet.driver.registered
    kubelet.notify()
    assert kubelet.driver.registered
    kubelet.life = 2
    assert not kubelet.driver.registered
    kubelet.notify()
    assert kubelet.driver.registered


def test_a_kubelet_that_refuses_says_why(kubelet: Kubelet) -> None:
    kubelet.notify("no handler registered")
    assert (kubelet.driver.registered, kubelet.driver.refusal) == (False, "no handler registered")
    kubelet.notify()
    assert (kubelet.driver.registered, kubelet.driver.refusal) == (True, "")


def test_a_driver_whose_socket_is_gone_does_not_serve_until_it_starts_again(kubelet: Kubelet) -> None:
    kubelet.notify()
    kubelet.driver.path.unlink()
    assert not kubelet.driver.serving
    assert not kubelet.driver.registered
    kubelet.driver.start()
    assert kubelet.driver.serving
    assert not kubelet.driver.registered, "the kubelet has not seen the new socket yet"


def test_the_socket_of_a_killed_agent_is_removed_and_not_used_again(kubelet: Kubelet) -> None:
    """The kubelet would wait before it dials a socket of this name again."""
    other = DraServer("hcu.vgpu.io", "n1", kubelet.folder, kubelet.claims, lambda: 1)
    again = DraServer(DRIVER, "n1", kubelet.folder, kubelet.claims, lambda: 1)
    other.start()
    again.start()
    assert again.serving
    assert again.path != kubelet.driver.path
    assert set(kubelet.folder.iterdir()) == {again.path, other.path}
    again.stop()
    other.stop()


def test_a_folder_that_is_not_mounted_is_an_error_with_the_cure(kubelet: Kubelet) -> None:
    away = DraServer(DRIVER, "n1", kubelet.folder / "absent", kubelet.claims, lambda: 1)
    with pytest.raises(KubeletError, match="mount the kubelet's folder plugins_registry"):
        away.start()


def test_a_claims_cdi_device_comes_once_for_all_of_its_devices(kubelet: Kubelet) -> None:
    answer = kubelet.prepare("a")
    first, second = answer.claims["uid-a"].devices
    assert list(first.cdi_device_ids) == ["vgpu.io/slice=claim-uid-a"]
    assert list(second.cdi_device_ids) == []
    assert [(d.pool_name, d.device_name, d.share_id) for d in (first, second)] == [
        ("n1", "card-0", "s0"), ("n1", "card-1", "s1"),
    ]  # fmt: skip
    assert list(first.request_names) == ["slice"]


def test_a_claim_that_fails_fails_the_whole_call(kubelet: Kubelet) -> None:
    kubelet.claims.fails.add("b")
    answer = kubelet.prepare("a", "b", "c")
    assert {each.error for each in answer.claims.values()} == {"ResourceClaim b: ns/b is taken"}
    assert not any(each.devices for each in answer.claims.values())
    assert answer.claims.keys() == {"uid-a", "uid-b", "uid-c"}


def test_a_claim_that_is_still_in_use_is_answered_with_an_error_of_its_own(kubelet: Kubelet) -> None:
    kubelet.claims.fails.add("uid-b")
    answer = kubelet.unprepare("uid-a", "uid-b")
    assert {uid: each.error for uid, each in answer.claims.items()} == {"uid-a": "", "uid-b": "still runs"}


def test_a_call_waits_no_longer_than_the_kubelet_does(kubelet: Kubelet) -> None:
    kubelet.prepare("a", "b", timeout=45)
    assert all(30 < left < 44 for left in kubelet.claims.seconds), "some of its 45 s are left for the answer"
    assert kubelet.claims.seconds[1] < kubelet.claims.seconds[0], "all claims of a call share its deadline"


def test_claims_that_wait_do_not_keep_others_from_ending(kubelet: Kubelet) -> None:
    stub = rpc.DRAPluginStub(kubelet.channel)
    slow = pb.NodePrepareResourcesRequest(claims=[pb.Claim(namespace="ns", name="slow", uid="uid-slow")])
    waiting = [stub.NodePrepareResources.future(slow, timeout=60) for _ in range(dra.THREADS - 1)]
    assert kubelet.unprepare("uid-a").claims["uid-a"].error == ""
    kubelet.claims.gate.set()
    assert all(len(call.result().claims) == 1 for call in waiting)


def test_each_change_of_a_cards_health_is_sent_with_its_name(kubelet: Kubelet) -> None:
    kubelet.driver.update({"card-0": DeviceHealth(healthy=True, message="card DCU-0")})
    stream = kubelet.health()
    (first,) = next(stream).devices
    assert (first.device.pool_name, first.device.device_name) == ("n1", "card-0")
    assert (first.health, first.message) == (health_pb.HEALTHY, "card DCU-0")
    kubelet.driver.update({"card-0": DeviceHealth(healthy=False, message="card DCU-0 is unhealthy: hot")})
    (second,) = next(stream).devices
    assert (second.health, second.message) == (health_pb.UNHEALTHY, "card DCU-0 is unhealthy: hot")


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that is made after this sends its devices' health again at once."""
    monkeypatch.setattr(dra, "HEALTH_SECONDS", 0.01)


@pytest.mark.usefixtures("often")
def test_health_that_does_not_change_is_sent_again(kubelet: Kubelet) -> None:
    kubelet.driver.update({"card-0": DeviceHealth(healthy=True, message="card DCU-0")})
    stream = kubelet.health()
    assert all(len(next(stream).devices) == 1 for _ in range(3))


def test_a_driver_that_stops_ends_the_stream_of_health(kubelet: Kubelet) -> None:
    stream = kubelet.health()
    next(stream)
    kubelet.driver.stop()
    assert list(stream) == []
