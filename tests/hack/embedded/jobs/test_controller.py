"""The Job controller's threads, on an API server of the test's own."""

from collections.abc import Iterator

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.kube.api import EVENTS, JOBS, NAMESPACES, PODS, Ref, Where
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.jobs import JobController, JobTiming
from tests.builders.objects import job
from tests.deadline import until

REFUSED = {"metadata": {"annotations": {"vgpu.io/grant": "{}"}}}


@pytest.fixture
def server() -> Iterator[EmbeddedApiServer]:
    server = EmbeddedApiServer(bookmark_seconds=0.1)
    server.start()
    controller = JobController(server.url, timing=JobTiming(first_wait=0.01, retry=0.01, longest_retry=0.02))
    controller.start()
    yield server
    controller.stop()
    server.stop()


@pytest.fixture
def api(server: EmbeddedApiServer) -> Iterator[KubeClient]:
    api = KubeClient(Endpoint(server.url, lambda: None), "test", timeout=60.0)
    yield api
    api.close()


def count(api: KubeClient, namespace: str = "default") -> int:
    return len(api.list(PODS, Where(namespace)).items)


def test_it_goes_on_after_the_api_server_was_away(server: EmbeddedApiServer, api: KubeClient) -> None:
    api.create(JOBS, job("one", 2), "default")
    until(lambda: count(api) == 2)
    server.stop()
    server.start()
    api.create(JOBS, job("two", 3), "default")
    until(lambda: count(api) == 5)


def test_a_job_whose_namespace_is_gone_is_carried_out_without_events(api: KubeClient) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone"}}
    api.create(NAMESPACES, namespace)
    api.create(JOBS, job("one", 2), "gone")
    until(lambda: count(api, "gone") == 2)
    api.delete(NAMESPACES, Ref("gone"))
    api.patch(JOBS, Ref("one", "gone"), {"spec": {"suspend": True}})
    until(lambda: count(api, "gone") == 0)


def test_refused_pods_are_tried_again_until_they_are_accepted(api: KubeClient) -> None:
    body = job("one", 3, suspend=True)
    body["spec"]["template"].update(REFUSED)
    api.create(JOBS, body, "default")
    api.patch(JOBS, Ref("one", "default"), {"spec": {"suspend": False}})
    refused = Where("default", fields="reason=FailedCreate")
    until(lambda: len(api.list(EVENTS, refused).items) > 2)
    assert count(api) == 0
    assert api.get(JOBS, Ref("one", "default")).active == 0
    api.patch(JOBS, Ref("one", "default"), {"spec": {"suspend": True}})
    until(lambda: api.get(JOBS, Ref("one", "default")).conditions)
    api.patch(JOBS, Ref("one", "default"), {"spec": {"template": {"metadata": {"annotations": None}}}})
    api.patch(JOBS, Ref("one", "default"), {"spec": {"suspend": False}})
    until(lambda: count(api) == 3)
    until(lambda: api.get(JOBS, Ref("one", "default")).active == 3)


def test_at_rest_it_writes_nothing(server: EmbeddedApiServer, api: KubeClient) -> None:
    api.create(JOBS, job("one", 2), "default")
    until(lambda: api.get(JOBS, Ref("one", "default")).active == 2)
    server.write_requests.clear()
    api.patch(JOBS, Ref("one", "default"), {"metadata": {"annotations": {"a": "b"}}})
    api.create(JOBS, job("two", 1), "default")
    until(lambda: api.get(JOBS, Ref("two", "default")).active == 1)
    assert not [path for user, _, path in server.write_requests if "one" in path and user != "system:admin"]
