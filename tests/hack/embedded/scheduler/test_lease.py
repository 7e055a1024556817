"""Leader election against the API server stand-in."""

import threading
from collections.abc import Iterator

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.kube.api import Ref
from device_plugin.kube.leases import LEASES, Lease
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.scheduler.lease import Elector
from hack.embedded.scheduler.timing import SchedulerTiming
from tests.deadline import eventually

OF = Ref("vgpu-scheduler", "vgpu-system")
TIMING = SchedulerTiming(lease=1.0, renew_deadline=0.6, retry_period=0.05)


@pytest.fixture
def server() -> Iterator[EmbeddedApiServer]:
    made = EmbeddedApiServer()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def api(server: EmbeddedApiServer) -> Iterator[KubeClient]:
    made = KubeClient(Endpoint(server.url, lambda: "Bearer system:kube-scheduler"), "kube-scheduler")
    yield made
    made.close()


def candidate(api: KubeClient, identity: str, gate: threading.Event | None = None) -> Elector:
    if gate is None:
        gate = threading.Event()
        gate.set()
    return Elector(api, OF, identity, TIMING, gate)


def seen(api: KubeClient) -> Lease:
    return api.get(LEASES, OF)


def test_the_first_makes_the_lease_and_renews_it(api: KubeClient) -> None:
    first = candidate(api, "pod-0_x")
    assert first.attempt()
    made = seen(api)
    assert (made.holder, made.transitions) == ("pod-0_x", 0)
    assert first.attempt()
    renewed = seen(api)
    assert renewed.renewed > made.renewed
    assert renewed.acquired == made.acquired


def test_another_waits_until_it_saw_no_renewal_for_the_whole_lease(api: KubeClient) -> None:
    first, second = candidate(api, "pod-0_x"), candidate(api, "pod-1_y")
    assert first.attempt()
    assert not second.attempt()
    assert first.attempt()
    assert not second.attempt()
    assert eventually(second.attempt, 3.0)
    spec = seen(api)
    assert (spec.holder, spec.transitions) == ("pod-1_y", 1)
    assert not first.attempt()


def test_a_released_lease_is_taken_at_once(api: KubeClient) -> None:
    first, second = candidate(api, "pod-0_x"), candidate(api, "pod-1_y")
    assert first.attempt()
    second.release()
    assert seen(api).holder == "pod-0_x"
    first.release()
    assert seen(api).holder == ""
    assert second.attempt()


def test_a_holder_that_cannot_renew_gives_up_before_the_lease_expires(
    api: KubeClient, server: EmbeddedApiServer
) -> None:
    first = candidate(api, "pod-0_x")
    assert first.attempt()
    server.stop()
    stop = threading.Event()
    renewing = threading.Thread(target=first.renew, args=(stop,))
    renewing.start()
    renewing.join(5.0)
    assert not renewing.is_alive()


def test_who_was_suspended_finds_that_it_lost(api: KubeClient) -> None:
    gate, stop = threading.Event(), threading.Event()
    gate.set()
    first, second = candidate(api, "pod-0_x", gate), candidate(api, "pod-1_y")
    assert first.attempt()
    gate.clear()
    renewing = threading.Thread(target=first.renew, args=(stop,))
    renewing.start()
    assert eventually(second.attempt, 3.0)
    gate.set()
    renewing.join(5.0)
    assert not renewing.is_alive()
    assert seen(api).holder == "pod-1_y"
