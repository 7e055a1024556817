"""The job engine as a process would run it, against the API server stand-in."""

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from device_plugin.adapters.http import server as http
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.adapters.metrics import Exposition
from device_plugin.adapters.probes import probes
from device_plugin.core.contract.annotations import POOL, QUEUE, SPLIT
from device_plugin.core.contract.metrics import Reading
from device_plugin.jobs.pools.leases import PoolLeases
from device_plugin.kube.api import JOBS, NODES, PODS, Ref
from device_plugin.kube.leases import LEASES
from device_plugin.node.stages.meter import PROGRESS_DONE, PROGRESS_GOAL
from device_plugin.wiring import jobs
from device_plugin.wiring.settings import JobsSettings, KubeSettings, SettingsError
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.cluster import AGENT_USER
from tests.adapters.kube.conftest import annotate, node
from tests.builders import objects
from tests.builders.agents import agent_pod
from tests.builders.cards import FAMILY, inventory
from tests.builders.jobs import job_spec
from tests.deadline import eventually
from tests.wiring.conftest import SECONDS, Get, Running

Run = Callable[[threading.Event], int]
LEASE = Ref("vgpu-jobs", "vgpu-system")


@pytest.fixture
def settings(api: EmbeddedApiServer, tmp_path: Path) -> JobsSettings:
    """The settings of an engine at this API server."""
    token = tmp_path / "token"
    token.write_text("system:serviceaccount:vgpu-system:vgpu-jobs")
    return JobsSettings(
        pod_name="vgpu-jobs-0", explain_listen="127.0.0.1:0", http_listen="127.0.0.1:0",
        kube=KubeSettings(server=api.url, token_file=str(token)),
    )  # fmt: skip


@pytest.fixture
def run(settings: JobsSettings) -> Run:
    """The engine at this API server."""
    return lambda stop: jobs.run(settings, stop)


def test_it_waits_for_an_api_server_that_is_down_recovers_and_gives_its_lease_up(
    api: EmbeddedApiServer, running: Running, run: Run, get: Get
) -> None:
    api.stop()
    with running(run) as listening:
        ready, explain = f"{listening['http']}/readyz", f"{listening['explain']}/explain"
        status, why = get(ready)
        assert status == 503
        assert "were not listed yet" in why
        assert get(f"{listening['http']}/healthz")[0] == 200, "a restart would mend nothing"
        api.start()
        assert eventually(lambda: get(ready)[0] == 200, SECONDS), get(ready)
        assert get(explain) == (200, "no job is in a queue\n")
        leads = "\nvgpu_job_engine_leader 1.0"
        assert eventually(lambda: leads in get(f"{listening['http']}/metrics")[1], SECONDS)
        written = {path.rpartition("/")[2] for _, _, path in api.write_requests}
        assert written <= {"leases", "vgpu-jobs"}, "beside its Lease it writes nothing"
    client = KubeClient(Endpoint(api.url, lambda: "Bearer system:admin"), "test", timeout=SECONDS)
    assert client.get(LEASES, LEASE).holder == ""
    client.close()


def test_what_an_agent_says_of_a_program_is_in_explain(
    api: EmbeddedApiServer, running: Running, run: Run, get: Get
) -> None:
    labels = ("n1", "default", "train-0", "main")
    said = [Reading(PROGRESS_DONE, [(labels, 30)]), Reading(PROGRESS_GOAL, [(labels, 120)])]
    admin = KubeClient(Endpoint(api.url, lambda: "Bearer system:admin"), "test", timeout=SECONDS)
    with (
        closing(admin),
        http.Server(
            probes(str, str, Exposition(lambda: said)), "127.0.0.1:0", silence=http.UNTRUSTED_SECONDS
        ) as agent,
        running(run) as listening,
    ):
        agent_pod(admin, agent.port, "n1")
        job = objects.job("train")
        job["metadata"]["labels"] = {QUEUE: "default"}
        uid = admin.create(JOBS, job, "default").uid
        metadata = {
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
            ],
            "labels": {"batch.kubernetes.io/job-completion-index": "0"},
        }
        admin.create(PODS, objects.pod("train-0", metadata=metadata, nodeName="n1"), "default")
        train = f"{listening['explain']}/explain?job=default/train"
        assert eventually(lambda: "30 of 120 are done" in get(train)[1], SECONDS), get(train)


def test_pools_have_leases_and_a_job_that_fits_several_starts_in_one(
    api: EmbeddedApiServer, running: Running, run: Run, get: Get
) -> None:
    admin = KubeClient(Endpoint(api.url, lambda: "Bearer system:admin"), "test")
    for name, pool in (("n1", "a"), ("n2", "b")):
        agent = KubeClient(Endpoint(api.url, lambda name=name: f"Bearer {AGENT_USER}@{name}"), "test")  # type: ignore[misc]
        node(admin, name)
        annotate(agent, name, **{"vgpu.io/cards": inventory(name).encode()})
        admin.patch(NODES.json, Ref(name), {"metadata": {"labels": {POOL: pool}}})
        agent.close()
    body = objects.job("train", pod={"containers": [objects.container(limits={FAMILY: 1})]}, suspend=True)
    body["metadata"]["labels"] = {QUEUE: "default"}
    with closing(admin), running(run) as listening:
        admin.create(JOBS, body, "default")

        def started() -> bool:
            return not admin.get(JOBS, Ref("train", "default")).suspend

        assert eventually(started, SECONDS), get(f"{listening['explain']}/explain")
        job = admin.get(JOBS.json, Ref("train", "default"))
        pool = job["metadata"]["annotations"][POOL]
        assert job["spec"]["template"]["spec"]["nodeSelector"] == {POOL: pool.rpartition("/")[2]}
        assert admin.get(LEASES, Ref("vgpu-jobs-1", "vgpu-system")).holder == "vgpu-jobs-0"
        assert f"pool {pool} is planned by vgpu-jobs-0\n" in get(f"{listening['explain']}/explain")[1]
        assert f'vgpu_job_pool_planner{{pool="{pool}"}} 1.0' in get(f"{listening['http']}/metrics")[1]


def test_settings_say_which_jobs_consent_to_be_stopped(settings: JobsSettings) -> None:
    written = msgspec.structs.replace(
        settings,
        quantum_seconds=600.0,
        resumable_queues=["nightly"],
        min_runtime_seconds=60.0,
        young_seconds=5.0,
    )
    rules = jobs.rules_of(written)
    nightly, other = (job_spec("a", queue=queue) for queue in ("nightly", "default"))
    assert [rules.may_stop(each) for each in (nightly, other)] == [True, False]
    assert not rules.may_stop(replace(nightly, resumable=False))
    assert (rules.min_runtime(other), rules.young_s) == (60.0, 5.0)
    assert (rules.quantum_s, rules.due_quantum_s) == (600.0, 300.0)
    everywhere = msgspec.structs.replace(settings, resumable=True)
    assert jobs.rules_of(everywhere).may_stop(other)


def test_a_split_waits_by_the_ratio_of_the_setting(
    api: EmbeddedApiServer, running: Running, settings: JobsSettings, get: Get
) -> None:
    admin = KubeClient(Endpoint(api.url, lambda: "Bearer system:admin"), "test")
    agent = KubeClient(Endpoint(api.url, lambda: f"Bearer {AGENT_USER}@n1"), "test")
    node(admin, "n1")
    annotate(agent, "n1", **{"vgpu.io/cards": inventory("n1").encode()})
    pod = {"restartPolicy": "Never", "containers": [objects.container(limits={FAMILY: 1})]}
    body = objects.job("frames", pod=pod, suspend=True, podReplacementPolicy="Failed")
    body["spec"] |= {"completionMode": "Indexed", "completions": 16}
    body["metadata"] |= {"labels": {QUEUE: "default"}, "annotations": {SPLIT: "ordered"}}
    ratio = msgspec.structs.replace(settings, split_ratio=4.0)
    with closing(admin), closing(agent), running(lambda stop: jobs.run(ratio, stop)) as listening:
        admin.create(JOBS, body, "default")
        explain = f"{listening['explain']}/explain?job=default/frames"
        assert eventually(lambda: "waits for room for 5 of its 16 sub-tasks" in get(explain)[1], SECONDS), (
            get(explain)
        )


def test_a_watch_tells_it_the_renewals_of_leases(
    api: EmbeddedApiServer, running: Running, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[tuple[str, str]] = set()
    monkeypatch.setattr(PoolLeases, "see", lambda _, lease: seen.add((lease.name, lease.renewed)))
    of = Ref("vgpu-jobs-3", LEASE.namespace)
    admin = KubeClient(Endpoint(api.url, lambda: "Bearer system:admin"), "test")
    with closing(admin), running(run):
        admin.create(LEASES, {"metadata": {"name": of.name}, "spec": {"renewTime": "a"}}, of.namespace)
        assert eventually(lambda: (of.name, "a") in seen, SECONDS), "listed or told"
        admin.patch(LEASES, of, {"spec": {"renewTime": "b"}})
        assert eventually(lambda: (of.name, "b") in seen, SECONDS)


@pytest.mark.parametrize("which", ["explain_listen", "http_listen"])
def test_an_address_that_cannot_be_had_is_named(which: str) -> None:
    listen = {"explain_listen": "127.0.0.1:0", "http_listen": "127.0.0.1:0", which: "127.0.0.1:99999"}
    settings = JobsSettings(pod_name="a", kube=KubeSettings(server="http://127.0.0.1:1"), **listen)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"cannot listen on 127\.0\.0\.1:99999"):
        jobs.run(settings, threading.Event())
