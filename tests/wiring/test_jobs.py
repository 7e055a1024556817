"""The job engine as a process would run it, against the API server stand-in."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import urllib3

from device_plugin.adapters.exposition import Exposition
from device_plugin.adapters.http import server as http
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.adapters.probes import probes
from device_plugin.core.annotations import QUEUE
from device_plugin.core.metrics import Reading
from device_plugin.core.requests import Request
from device_plugin.kube.api import JOBS, PODS, Ref
from device_plugin.kube.leases import LEASES
from device_plugin.node.meter import PROGRESS_DONE, PROGRESS_GOAL
from device_plugin.wiring import jobs
from device_plugin.wiring.jobs import ViewedHoldings
from device_plugin.wiring.settings import JobsSettings, KubeSettings, SettingsError
from hack.embedded.apiserver import EmbeddedApiServer
from tests.builders import objects
from tests.builders.agents import agent_pod
from tests.builders.cards import FAMILY
from tests.cluster.world import Replica, World
from tests.deadline import eventually

LEASE = Ref("vgpu-jobs", "vgpu-system")


@pytest.fixture
def api() -> Iterator[EmbeddedApiServer]:
    server = EmbeddedApiServer()
    server.start()
    yield server
    server.stop()


@contextmanager
def running(server: str, capsys: pytest.CaptureFixture[str]) -> Iterator[dict[str, str]]:
    """The engine in a thread; yields where it listens, and checks that it ends well."""
    settings = JobsSettings(
        pod_name="vgpu-jobs-0", explain_listen="127.0.0.1:0", http_listen="127.0.0.1:0",
        kube=KubeSettings(server=server),
    )  # fmt: skip
    stop, ended = threading.Event(), list[int]()
    thread = threading.Thread(target=lambda: ended.append(jobs.run(settings, stop)))
    thread.start()
    try:
        line = eventually(lambda: capsys.readouterr().out, 10)
        yield dict(word.split("=") for word in line.split()[1:])
    finally:
        stop.set()
        thread.join(15)
    assert ended == [0]


def test_it_waits_for_an_api_server_that_is_down_recovers_and_gives_its_lease_up(
    api: EmbeddedApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = urllib3.PoolManager(retries=False)

    def get(server: str, path: str) -> tuple[int, str]:
        answer = pool.request("GET", f"http://{server}{path}", timeout=5.0)
        return answer.status, answer.data.decode()

    api.stop()
    with running(api.url, capsys) as listening:
        status, why = get(listening["http"], "/readyz")
        assert status == 503
        assert "were not listed yet" in why
        assert get(listening["http"], "/healthz")[0] == 200, "a restart would mend nothing"
        api.start()
        assert eventually(lambda: get(listening["http"], "/readyz")[0] == 200, 20), get(
            listening["http"], "/readyz"
        )
        assert get(listening["explain"], "/explain") == (200, "no job is in a queue\n")
        leads = "\nvgpu_job_engine_leader 1.0"
        assert eventually(lambda: leads in get(listening["http"], "/metrics")[1], 20)
        written = {path.rpartition("/")[2] for _, _, path in api.write_requests}
        assert written <= {"leases", "vgpu-jobs"}, "beside its Lease it writes nothing"
    pool.clear()
    client = KubeClient(Endpoint(api.url, lambda: "Bearer system:admin"), "test")
    assert client.get(LEASES, LEASE).holder == ""
    client.close()


def test_what_an_agent_says_of_a_program_is_in_explain(
    api: EmbeddedApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ("n1", "default", "train-0", "main")
    said = [Reading(PROGRESS_DONE, [(labels, 30)]), Reading(PROGRESS_GOAL, [(labels, 120)])]
    pool = urllib3.PoolManager(retries=False)
    admin = KubeClient(Endpoint(api.url, lambda: "Bearer system:admin"), "test")
    with (
        closing(admin),
        http.Server(
            probes(str, str, Exposition(lambda: said)), "127.0.0.1:0", silence=http.STRANGERS_SECONDS
        ) as agent,
        running(api.url, capsys) as listening,
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
        address = f"http://{listening['explain']}/explain?job=default/train"

        def text() -> str:
            return pool.request("GET", address, timeout=5.0).data.decode()

        assert eventually(lambda: "30 of 120 are done" in text(), 30), text()
    pool.clear()


@pytest.mark.parametrize("which", ["explain_listen", "http_listen"])
def test_an_address_that_cannot_be_had_is_named(which: str) -> None:
    listen = {"explain_listen": "127.0.0.1:0", "http_listen": "127.0.0.1:0", which: "127.0.0.1:99999"}
    settings = JobsSettings(pod_name="a", kube=KubeSettings(server="http://127.0.0.1:1"), **listen)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"cannot listen on 127\.0\.0\.1:99999"):
        jobs.run(settings, threading.Event())


@pytest.mark.parametrize(
    ("asked", "share"),
    [
        (Request(FAMILY, mem=8, cores=15), 0.5),
        (Request(FAMILY, mem=4, cores=30), 0.5),
        (Request(FAMILY, mem=99, cores=1), 1.0),
        (Request("amd.com/gpu", mem=1, cores=1), 1.0),
    ],
)
def test_the_share_of_a_card_is_the_larger_of_memory_and_core_groups(asked: Request, share: float) -> None:
    one: Replica = World().one
    assert ViewedHoldings(one.view).share(asked) == pytest.approx(share)
