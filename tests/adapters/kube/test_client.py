"""The client's requests, on a real HTTP server."""

import math
import socket
import time
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.connections import Connections
from device_plugin.adapters.kube.endpoint import (
    Endpoint,
    EndpointError,
    context_namespace,
    from_kubeconfig,
    from_settings,
)
from device_plugin.core.pods import Pod
from device_plugin.kube.api import EVENTS, NODES, PODS, RESOURCE_CLAIMS, Ref, Where
from device_plugin.kube.errors import ConflictError, ExpiredError, GoneError, RefusedError, UnknownError
from hack.embedded.apiserver import EmbeddedApiServer
from tests.adapters.kube.conftest import annotate, node, pod

P, ANOTHER = Ref("p", "default"), Ref("p", "default", "another")


def test_a_binding_carries_its_annotations_in_the_same_write(
    client: KubeClient, api: EmbeddedApiServer
) -> None:
    # Only the allocator may write grants: admission holds for this client too.
    user = "Bearer system:serviceaccount:vgpu-system:vgpu-cluster"
    client = KubeClient(Endpoint(api.url, lambda: user), "test")
    node(client, "n1")
    pod(client, "p", cpu="1")
    pod_now = client.get(PODS, P)
    client.bind(pod_now, "n1", {"vgpu.io/grant": "text"}, {"vgpu.io/rank": "3"})
    bound = client.get(PODS, P)
    assert (bound.node, bound.annotation("vgpu.io/grant")) == ("n1", "text")
    assert bound.label("vgpu.io/rank") == "3"
    assert bound.bound
    with pytest.raises(ConflictError):
        client.bind(pod_now, "n1", {}, {})
    client.close()


def test_a_binding_for_another_uid_changes_nothing(client: KubeClient) -> None:
    node(client, "n1")
    pod(client, "p", cpu="1")
    with pytest.raises(ConflictError):
        client.bind(ANOTHER, "n1", {}, {})
    assert client.get(PODS, P).node == ""


def test_node_annotations_are_set_and_taken_away(client: KubeClient, api: EmbeddedApiServer) -> None:
    node(client, "n1")
    # Only the agent on the node may write its inventory.
    user = "Bearer system:serviceaccount:vgpu-system:vgpu-node@n1"
    agent = KubeClient(Endpoint(api.url, lambda: user), "test")
    annotate(agent, "n1", **{"vgpu.io/cards": "x"})
    assert client.get(NODES, Ref("n1")).inventory == "x"
    annotate(agent, "n1", **{"vgpu.io/cards": None})
    assert client.get(NODES, Ref("n1")).inventory == ""
    agent.close()


def test_deleting_needs_the_right_uid(client: KubeClient) -> None:
    pod(client, "p", cpu="1")
    with pytest.raises(GoneError, match="409"):
        client.delete(PODS, ANOTHER)
    client.delete(PODS, client.get(PODS, P))
    with pytest.raises(GoneError, match='pods "p" not found'):
        client.get(PODS, P)


def test_a_name_is_one_segment_of_the_path(client: KubeClient, mocker: MockerFixture) -> None:
    """As it stands, the `?` in this namespace would take the place of dryRun's."""
    request = mocker.patch.object(Connections, "request", return_value=(404, bytearray(b"{}")))
    with pytest.raises(GoneError):
        client.create(PODS, {}, "prod/services/db:80/proxy/wipe?x=", dry=True)
    with pytest.raises(GoneError):
        client.get(PODS, Ref("p/eviction?x=", "default"))
    assert [call.args[1] for call in request.call_args_list] == [
        "/api/v1/namespaces/prod%2Fservices%2Fdb%3A80%2Fproxy%2Fwipe%3Fx%3D/pods?dryRun=All",
        "/api/v1/namespaces/default/pods/p%2Feviction%3Fx%3D",
    ]


def test_an_event_is_about_its_object(client: KubeClient) -> None:
    client.post_event(NODES, Ref("n1", uid="uid"), "CardUnhealthy", "card 3 is sick")
    (event,) = client.list(EVENTS, Where("default")).items
    assert (event["message"], event["type"]) == ("card 3 is sick", "Warning")
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "n1",
        "namespace": "",
        "uid": "uid",
    }


def test_no_answer_is_told_apart_from_a_no(client: KubeClient, api: EmbeddedApiServer) -> None:
    api.stop()
    with pytest.raises(UnknownError, match="API server http://127"):
        client.get(NODES, Ref("n1"))
    api.start()
    with pytest.raises(GoneError):
        client.get(NODES, Ref("n1"))


def test_a_silent_server_is_given_up_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        client = KubeClient(Endpoint(url, lambda: None), "test", timeout=0.2)
        with pytest.raises(UnknownError):
            client.get(NODES, Ref("n1"))
        client.close()


def test_a_silent_server_is_given_up_at_the_deadline_before_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        client = KubeClient(Endpoint(url, lambda: None), "test", timeout=60)
        began = time.monotonic()
        with pytest.raises(UnknownError, match="no answer in time"):
            client.until(began + 0.1).get(NODES, Ref("n1"))
        assert time.monotonic() - began < 30
        client.close()


def test_the_deadline_counts_for_a_patch_of_a_status(client: KubeClient, mocker: MockerFixture) -> None:
    stored = b'{"metadata": {"name": "c", "namespace": "default", "uid": "u"}}'
    request = mocker.patch.object(Connections, "request", return_value=(200, bytearray(stored)))
    ref, kind = Ref("c", "default"), RESOURCE_CLAIMS.metadata
    assert client.until(5.0).patch(kind, ref, {}, subresource="status").uid == "u"
    client.patch(kind, ref, {})
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"
    calls = [(call.args[0], call.args[1], call.args[4]) for call in request.call_args_list]
    # The test's client has a timeout of 20 s, after which the server drops the write too.
    assert calls == [("PATCH", f"{path}/status?timeout=20s", 5.0), ("PATCH", f"{path}?timeout=20s", math.inf)]


def test_an_unknown_token_is_refused(api: EmbeddedApiServer, tmp_path: Path) -> None:
    api._tokens = {"secret": "me"}
    token = tmp_path / "token"
    token.write_text("wrong")
    client = KubeClient(from_settings(api.url, str(token), "", ""), "test")
    with pytest.raises(RefusedError, match="401"):
        client.list(NODES)
    token.write_text("secret, rotated")
    api._tokens = {"secret, rotated": "me"}
    assert client.list(NODES).items == []
    client.close()


def test_without_any_api_server_the_error_says_how_to_name_one() -> None:
    with pytest.raises(EndpointError, match="run as a pod, or give --kube-server"):
        from_settings("", "", "", "", {})


def test_a_pod_finds_its_service_account() -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert from_settings("", "", "", "", environ).url == "https://[fd00::1]:6443"


def test_a_kubeconfig_names_server_and_token(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
        "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {token: secret}}]\n"
    )
    endpoint = from_settings("", "", "", str(config))
    assert (endpoint.url, endpoint.authorization()) == ("http://127.0.0.1:1", "Bearer secret")
    with pytest.raises(EndpointError, match=r"kubeconfig .*nothing does not exist"):
        from_settings("", "", "", str(tmp_path / "nothing"))
    assert from_settings("", "", "", f"{tmp_path / 'nothing'}:{config}").url == "http://127.0.0.1:1"


TWO = """\
apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: here, context: {cluster: h, user: u}}
- {name: there, context: {cluster: t, user: u, namespace: team-a}}
clusters: [{name: h, cluster: {server: 'http://here'}}, {name: t, cluster: {server: 'http://there'}}]
users: [{name: u, user: {token: secret}}]
"""


@pytest.mark.parametrize(
    ("context", "url", "namespace"),
    [("", "http://here", "default"), ("here", "http://here", "default"), ("there", "http://there", "team-a")],
)
def test_a_context_of_a_kubeconfig_is_chosen_by_name(
    tmp_path: Path, context: str, url: str, namespace: str
) -> None:
    config = tmp_path / "config"
    config.write_text(TWO)
    assert from_kubeconfig(str(config), context).url == url
    assert context_namespace(str(config), context) == namespace


def test_a_context_that_the_kubeconfig_lacks_is_refused_by_name(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(TWO)
    for ask in (from_kubeconfig, context_namespace):
        with pytest.raises(EndpointError, match="nowhere"):
            ask(str(config), "nowhere")


@pytest.mark.parametrize(
    ("user", "groups", "says"),
    [("", ("ops",), "needs --as"), ("a\r\nX: y", (), "is no name"), ("a", ("é",), "is no name")],
)
def test_a_user_that_no_header_can_hold_is_refused(user: str, groups: tuple[str, ...], says: str) -> None:
    with pytest.raises(EndpointError, match=says):
        Endpoint("http://a", lambda: None).impersonating(user, groups)


@pytest.mark.parametrize("spec", [b"", b',"spec":{"containers":[]}', b',"spec":{"containers":null}'])
def test_a_bookmark_has_a_version_and_no_pod(client: KubeClient, spec: bytes) -> None:
    line = (
        b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"name":"","resourceVersion":"7"}%b}}' % spec
    )
    assert client.event(PODS, line) == ("BOOKMARK", "7", None)


def test_an_event_has_its_pod_and_its_version(client: KubeClient) -> None:
    metadata = b'{"name":"p","namespace":"a","uid":"u","resourceVersion":"8"}'
    line = b'{"type":"MODIFIED","object":{"metadata":%b,"spec":{"containers":[]}}}' % metadata
    assert client.event(PODS, line) == ("MODIFIED", "8", Pod("a", "p", "u", constraints=hash((b"",) * 3)))


def test_of_a_pod_that_is_gone_what_ends_its_holdings_is_read_where_that_suffices(
    client: KubeClient, api: EmbeddedApiServer
) -> None:
    brief = KubeClient(Endpoint(api.url, lambda: None), "test", brief_ends=True)
    container = b'{"name":"main","resources":{"limits":{"hygon.com/dcu-mem":"4"}}}'
    line = (
        b'{"type":"%%b","object":{"metadata":{"name":"p","namespace":"a","uid":"u","resourceVersion":"8"},'
        b'"spec":{"nodeName":"n","containers":[%b]},"status":{"phase":"Failed"}}}' % container
    )
    for change in (b"ADDED", b"MODIFIED", b"DELETED"):
        (*told, whole), (*known, shown) = (each.event(PODS, line % change) for each in (client, brief))
        assert whole is not None
        assert whole.containers
        assert told == known == [change.decode(), "8"]
        assert shown == (Pod("a", "p", "u", "n", "Failed") if change == b"DELETED" else whole)
    brief.close()


def test_the_error_of_an_event_is_raised(client: KubeClient) -> None:
    with pytest.raises(ExpiredError):
        client.event(PODS, b'{"type":"ERROR","object":{"reason":"Expired","code":410}}')
