"""Which of the API server's answers mean what: for any call, for those that name a UID, and for a Binding."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.decode import MAX_MESSAGE
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.core.pods import Pod
from device_plugin.kube.api import NODES, PODS, Kind, Metadata, Where
from device_plugin.kube.errors import (
    ApiError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    GoneError,
    RefusedError,
    UnknownError,
)
from tests.adapters.kube.test_connections import Script

POD = Pod("default", "p", "u")


@contextmanager
def answering(status: int, body: object) -> Iterator[tuple[KubeClient, Script]]:
    text = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\n\r\n".encode()
    with (
        closing(Script([head + text])) as server,
        closing(KubeClient(Endpoint(server.url, lambda: None), "test")) as client,
    ):
        yield client, server


def raised(status: int, call: Callable[[KubeClient], object]) -> ApiError:
    said = {"kind": "Status", "code": status, "reason": "Why", "message": "the server's words"}
    with answering(status, said) as (client, _), pytest.raises(ApiError) as caught:
        call(client)
    assert (caught.value.status or status) == status
    assert str(caught.value) == f"the server's words ({status} Why)"
    return caught.value


@pytest.mark.parametrize(
    ("status", "said", "says"),
    [
        (
            401,
            {"message": "Unauthorized"},
            "the API server does not accept the credentials: log in again, or correct",
        ),
        (500, {}, "the API server gives no reason (500)"),
    ],
)
def test_without_a_reason_of_the_servers_there_is_one_of_ours(status: int, said: object, says: str) -> None:
    with answering(status, said) as (client, _), pytest.raises(ApiError) as caught:
        client.list(NODES)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    ("status", "meant"),
    [
        (404, GoneError),
        (409, ConflictError),
        (410, ExpiredError),
        *((status, RefusedError) for status in (400, 401, 413, 415, 422, 429)),
        (403, ForbiddenError),
        *((status, UnknownError) for status in (300, 405, 408, 500, 503, 504)),
    ],
)
def test_an_answer_that_is_no_success(status: int, meant: type[ApiError]) -> None:
    assert type(raised(status, lambda client: client.get(PODS, POD))) is meant


def test_of_a_message_that_quotes_an_object_the_beginning_is_kept() -> None:
    said = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "x" * (1 << 20)}
    with answering(422, said) as (client, _), pytest.raises(RefusedError) as caught:
        client.get(PODS, POD)
    assert str(caught.value) == f"{'x' * MAX_MESSAGE} (422 Invalid)"


@pytest.mark.parametrize("call", [lambda c: c.evict(POD), lambda c: c.delete(PODS, POD)])
def test_a_conflict_with_the_uid_that_was_named_means_that_the_pod_is_gone(
    call: Callable[[KubeClient], object],
) -> None:
    assert type(raised(409, call)) is GoneError
    assert type(raised(429, call)) is RefusedError


def test_a_conflict_of_a_binding_or_a_touch_tells_nothing_of_the_pod() -> None:
    assert type(raised(409, lambda client: client.bind(POD, "n1", {}, {}))) is ConflictError
    touch = {"metadata": {"annotations": {"a": "b"}}}
    assert type(raised(409, lambda client: client.patch(PODS, POD, touch))) is ConflictError


def test_an_answer_that_cannot_be_read_tells_nothing() -> None:
    with answering(200, {"kind": "Pod", "spec": 1}) as (client, _), pytest.raises(UnknownError, match="read"):
        client.get(PODS, POD)


def test_metadata_are_all_that_is_asked_for_and_kept() -> None:
    meta = {
        "name": "j",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"vgpu.io/queue": "q", "other": "x" * 99},
    }
    with answering(200, {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": meta}]}) as (
        client,
        server,
    ):
        found = client.list(NODES.metadata)
    assert b"Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," in server.requests[0]
    (only,) = found.items
    assert (found.version, only) == ("9", Metadata("j", uid="u", version="7", labels={"vgpu.io/queue": "q"}))


def test_an_object_of_any_kind_is_made_into_what_its_kind_says() -> None:
    jobs = Kind("batch", "v1", "jobs", "Job", int, lambda job: int(job["spec"]["parallelism"]))
    items = [{"spec": {"parallelism": 3}}, {"spec": {"parallelism": "many"}}]
    with answering(200, {"metadata": {"resourceVersion": "9"}, "items": items}) as (client, server):
        assert client.list(jobs).items == [3], "what cannot be read is left out"
    assert server.requests[0].startswith(b"GET /apis/batch/v1/jobs?limit=100 HTTP/1.1\r\n")


def page(name: str, rest: str = "") -> bytes:
    text = json.dumps(
        {"metadata": {"resourceVersion": "9", "continue": rest}, "items": [{"metadata": {"name": name}}]}
    )
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


EXPIRED = b'HTTP/1.1 410 Gone\r\nContent-Length: 31\r\n\r\n{"reason":"Expired","code":410}'


def test_a_list_is_read_page_after_page() -> None:
    with (
        closing(Script([page("a", "t=1"), page("b", "t2"), page("c")])) as server,
        closing(KubeClient(Endpoint(server.url, lambda: None), "test")) as client,
    ):
        found = client.list(NODES.metadata, Where(labels="x=y"))
    assert [one.name for one in found.items] == ["a", "b", "c"]
    assert found.version == "9"
    asked = [request.split()[1] for request in server.requests]
    first = b"/api/v1/nodes?labelSelector=x%3Dy&limit=100"
    assert asked == [first, first + b"&continue=t%3D1", first + b"&continue=t2"]


def test_a_list_that_the_server_forgot_begins_again_and_not_for_ever() -> None:
    with (
        closing(Script([page("a", "t"), EXPIRED, page("b")])) as server,
        closing(KubeClient(Endpoint(server.url, lambda: None), "test")) as client,
    ):
        assert [one.name for one in client.list(NODES.metadata).items] == ["b"]
    with (
        closing(Script([page("a", "t"), EXPIRED] * 3)) as server,
        closing(KubeClient(Endpoint(server.url, lambda: None), "test")) as client,
        pytest.raises(ExpiredError),
    ):
        client.list(NODES.metadata)
