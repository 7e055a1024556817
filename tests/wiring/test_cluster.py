"""The cluster service as a process would run it, against the API server stand-in."""

import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from device_plugin.adapters.http import server as http
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.adapters.metrics import Exposition
from device_plugin.adapters.probes import probes
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.http_values import App
from device_plugin.kube.api import JOBS, Ref
from device_plugin.kube.leases import LEASES
from device_plugin.wiring import cluster
from device_plugin.wiring.settings import ClusterSettings, KubeSettings, SettingsError
from hack.embedded.apiserver import EmbeddedApiServer, resources
from hack.embedded.cluster import AGENT_USER
from tests.adapters.kube.conftest import annotate, node
from tests.builders import objects
from tests.builders.agents import agent_pod
from tests.builders.cards import inventory
from tests.deadline import eventually
from tests.exposed import reading
from tests.wiring.conftest import SECONDS, Get, Running

Run = Callable[[threading.Event], int]


def _settings(server: str, **changed: object) -> ClusterSettings:
    listen = {"extender_listen": "127.0.0.1:0", "http_listen": "127.0.0.1:0", **changed}
    return ClusterSettings(pod_name="vgpu-0", kube=KubeSettings(server=server), **listen)  # type: ignore[arg-type]


@pytest.fixture
def run(api: EmbeddedApiServer) -> Run:
    """The service at this API server."""
    return lambda stop: cluster.run(_settings(api.url), stop)


def test_it_waits_for_an_api_server_that_is_down_says_so_and_recovers(
    api: EmbeddedApiServer, running: Running, run: Run, get: Get
) -> None:
    api.stop()
    with running(run) as listening:
        ready, live = f"{listening['http']}/readyz", f"{listening['http']}/healthz"
        status, why = get(ready)
        assert status == 503
        assert "not listed yet: nodes, pods, jobs" in why
        assert "Lease" in why
        assert get(live)[0] == 200, "a restart would mend nothing"
        assert "vgpu_leader" not in get(f"{listening['http']}/metrics")[1]
        api.start()
        assert eventually(lambda: get(ready)[0] == 200, SECONDS), get(ready)
        api.write_requests.clear()
        assert get(f"{listening['extender']}/explain")[0] == 200
        assert not api.write_requests, "an idle service writes nothing"


def test_it_follows_the_records_of_jobs_of_queues(
    api: EmbeddedApiServer, running: Running, run: Run, get: Get
) -> None:
    engine = _client(api, "system:serviceaccount:vgpu-system:vgpu-jobs")
    queued, other = objects.job("train", suspend=True), objects.job("other", suspend=True)
    queued["metadata"]["labels"] = {"vgpu.io/queue": "default"}
    for made in (queued, other):
        made["metadata"]["annotations"] = {"vgpu.io/resize": "broken"}
        engine.create(JOBS.json, made, "default")
    with running(run) as listening:
        explain = f"{listening['extender']}/explain"
        assert eventually(
            lambda: "ignored\n  resize of default/train: resize: not JSON" in get(explain)[1], SECONDS
        )
        assert "default/other" not in get(explain)[1]
        engine.patch(
            JOBS.json, Ref("train", "default"), {"metadata": {"annotations": {"vgpu.io/resize": "[]"}}}
        )
        assert eventually(lambda: "resize: expected object" in get(explain)[1], SECONDS)
        engine.patch(JOBS.json, Ref("train", "default"), {"metadata": {"labels": {"vgpu.io/queue": None}}})
        assert eventually(lambda: "resize of" not in get(explain)[1], SECONDS)
    engine.close()


def test_it_is_not_ready_where_it_may_not_list_jobs(
    running: Running, run: Run, get: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with roles of another version: what a Job was promised would not be kept."""
    monkeypatch.delitem(resources._BY_PATH, ("batch", "v1", "jobs"))
    with running(run) as listening:
        ready = f"{listening['http']}/readyz"
        assert eventually(lambda: "not listed yet: jobs" in get(ready)[1], SECONDS), get(ready)
        assert get(ready)[0] == 503


@pytest.fixture
def run_with_claims(api: EmbeddedApiServer) -> Run:
    """The service at this API server, with claims."""
    return lambda stop: cluster.run(_settings(api.url, claims=True), stop)


def test_where_claims_are_served_they_are_listed_before_it_is_ready(
    running: Running, run_with_claims: Run, get: Get
) -> None:
    with running(run_with_claims) as listening:
        assert eventually(lambda: get(f"{listening['http']}/readyz")[0] == 200, SECONDS)


def test_an_api_server_without_claims_is_named_as_the_cause(
    running: Running, run_with_claims: Run, get: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(resources._BY_PATH, ("resource.k8s.io", "v1", "resourceclaims"))
    with running(run_with_claims) as listening:
        ready = f"{listening['http']}/readyz"
        assert eventually(lambda: "need Kubernetes 1.36 or newer" in get(ready)[1], SECONDS), get(ready)
        assert get(ready)[0] == 503
        assert get(f"{listening['http']}/healthz")[0] == 200


def test_what_is_known_of_the_cluster_is_no_work_for_the_garbage_collector(
    api: EmbeddedApiServer, running: Running, run: Run
) -> None:
    admin, on_node = _client(api, "system:admin"), _client(api, f"{AGENT_USER}@n1")
    node(admin, "n1")
    annotate(on_node, "n1", **{"vgpu.io/cards": inventory("n1").encode()})
    gc.unfreeze()
    try:
        with running(run):
            assert eventually(lambda: gc.get_freeze_count() > 0, SECONDS)
            assert not any(isinstance(found, Inventory) for found in gc.get_objects())
    finally:
        gc.unfreeze()
    admin.close()
    on_node.close()


def test_sigterm_ends_the_process_well(api: EmbeddedApiServer) -> None:
    flags = [f"--kube-server={api.url}", "--pod-name=vgpu-0", "--extender-listen=127.0.0.1:0"]
    command = [sys.executable, "-m", "device_plugin", "cluster", *flags, "--http-listen=127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            assert " listening extender=127.0.0.1:" in process.stdout.readline()
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("which", ["extender_listen", "http_listen"])
@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999"])
def test_an_address_that_cannot_be_had_is_named(which: str, address: str) -> None:
    with pytest.raises(SettingsError, match=f"cannot listen on {address}"):
        cluster.run(_settings("http://127.0.0.1:1", **{which: address}), threading.Event())


def test_a_pod_name_that_no_host_can_have_is_refused() -> None:
    settings = ClusterSettings(pod_name="v" * 64, kube=KubeSettings(server="http://127.0.0.1:1"))
    with pytest.raises(SettingsError, match="63 characters"):
        cluster.run(settings, threading.Event())


def test_the_leader_asks_the_agents_for_the_loads_of_their_cards(
    api: EmbeddedApiServer, running: Running, run: Run, get: Get
) -> None:
    admin, on_node = _client(api, "system:admin"), _client(api, f"{AGENT_USER}@n1")
    node(admin, "n1")
    annotate(on_node, "n1", **{"vgpu.io/cards": inventory("n1").encode()})
    with (
        http.Server(_measuring("n1-0"), "127.0.0.1:0", silence=5) as agent,
        running(run) as listening,
    ):
        agent_pod(admin, agent.port, "n1")
        _lease(admin, 0)
        api.write_requests.clear()
        turns = itertools.count(1)

        def explained() -> str:
            _lease(admin, next(turns))
            return get(f"{listening['extender']}/explain")[1]

        assert eventually(lambda: "n1 (loads: measured " in explained(), SECONDS, every=0.5), explained()
        assert {user for user, _, _ in api.write_requests} == {"system:admin"}, "the service writes nothing"
    admin.close()
    on_node.close()


def _client(api: EmbeddedApiServer, user: str) -> KubeClient:
    return KubeClient(Endpoint(api.url, lambda: f"Bearer {user}"), "test", timeout=SECONDS)


def _measuring(card: str) -> App:
    """What an agent serves."""
    amounts = (("vgpu_card_memory_bytes", 4.0), ("vgpu_card_memory_used_bytes", 1.0))
    return probes(
        str,
        str,
        Exposition(lambda: [reading(name, [((card,), value)], ("card",)) for name, value in amounts]),
    )


def _lease(admin: KubeClient, turn: int) -> None:
    """The scheduler beside the service takes the Lease, and renews it."""
    spec = {"holderIdentity": "vgpu-0_x", "renewTime": f"2026-11-21T08:00:00.{turn:06}Z"}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "vgpu-scheduler"}}
    if turn:
        admin.patch(LEASES, Ref("vgpu-scheduler", "vgpu-system"), {"spec": spec})
    else:
        admin.create(LEASES, {**body, "spec": spec}, "vgpu-system")
