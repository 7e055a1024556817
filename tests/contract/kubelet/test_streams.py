"""What people ask of a running pod through the API server: its output, programs in it, its ports."""

import json
import random
import re
from contextlib import closing
from urllib.parse import urlencode

import pytest

from hack.embedded import websocket
from hack.embedded.websocket import HandshakeError, WebSocket
from tests.contract.cluster import PODS, Cluster
from tests.contract.kubelet.node import Node

EXEC, PORT = ("v5.channel.k8s.io",), ("v4.channel.k8s.io",)
STDIN, STDOUT, STDERR, STATUS, CLOSE = 0, 1, 2, 3, 255
# A line of a log with its time: always nine digits, so that texts compare as their times do.
TIMED = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) (.*)")
# A web server, of busybox in the nodes' image and of Python elsewhere.
SERVE = "cd /etc && { busybox httpd -f -p %d -h . || exec /usr/bin/env python3 -m http.server %d; }"


def running(node: Node, name: str, *command: str, **spec: object) -> str:
    """The path of a pod whose container runs this."""
    node.create(name, {**node.container(), "command": list(command)}, **spec)
    node.until_phase(name, "Running")
    return f"{PODS}/{node.full(name)}"


def text(cluster: Cluster, path: str, role: str = "admin") -> tuple[int, bytes]:
    """The status and body of an answer."""
    with closing(cluster.connect()) as connection:
        connection.request("GET", path, headers=dict(cluster.identities[role]))
        answer = connection.getresponse()
        return answer.status, answer.read()


def opened(
    cluster: Cluster, path: str, query: list[tuple[str, str]], protocols: tuple[str, ...]
) -> WebSocket:
    return websocket.connect(
        cluster.connect(), f"{path}?{urlencode(query)}", cluster.identities["admin"], protocols
    )


def ran(cluster: Cluster, path: str, *command: str, stdin: bytes = b"") -> dict[int, bytes]:
    """What came on each channel of a command that was run in a container."""
    query = [("stdout", "true"), ("stderr", "true"), *(("command", word) for word in command)]
    query += [("stdin", "true")] if stdin else []
    found: dict[int, bytes] = {}
    with closing(opened(cluster, f"{path}/exec", query, EXEC)) as stream:
        assert stream.protocol == EXEC[0]
        if stdin:
            stream.send(bytes([STDIN]) + stdin)
            stream.send(bytes([CLOSE, STDIN]))
        while (message := stream.receive()) is not None:
            if message:
                found[message[0]] = found.get(message[0], b"") + message[1:]
    return {channel: content for channel, content in found.items() if content}


def test_a_log_is_what_the_container_printed(cluster: Cluster, node: Node) -> None:
    path = running(node, "one", "sh", "-c", "echo first; echo second; sleep 1000")
    node.until(lambda: text(cluster, f"{path}/log") == (200, b"first\nsecond\n"), "the log")
    assert text(cluster, f"{path}/log?container=main&tailLines=1") == (200, b"second\n")
    _, timed = text(cluster, f"{path}/log?timestamps=true")
    times, lines = zip(
        *(match.groups() for match in map(TIMED.fullmatch, timed.splitlines()) if match), strict=True
    )
    assert lines == (b"first", b"second")
    assert list(times) == sorted(times)
    later = f"{path}/log?timestamps=true&{urlencode({'sinceTime': times[1].decode()})}"
    assert text(cluster, later)[1].splitlines()[-1] == timed.splitlines()[-1]
    assert text(cluster, f"{path}/log?sinceTime=2999-01-01T00:00:00Z") == (200, b"")


def test_a_log_that_is_followed_ends_with_the_container(cluster: Cluster, node: Node) -> None:
    path = running(node, "one", "sh", "-c", "echo up; sleep 2; echo down", restartPolicy="Never")
    assert text(cluster, f"{path}/log?follow=true") == (200, b"up\ndown\n")
    node.until_phase("one", "Succeeded")
    assert text(cluster, f"{path}/log") == (200, b"up\ndown\n")


def test_only_the_newest_attempt_is_in_a_log(cluster: Cluster, node: Node) -> None:
    path = running(node, "one", "sh", "-c", "echo attempt; sleep 2", restartPolicy="Always")
    node.until(lambda: node.state("one")["restartCount"] >= 1, "a restart")
    node.until(lambda: text(cluster, f"{path}/log") == (200, b"attempt\n"), "the log of one attempt")


def test_a_log_that_cannot_be_shown_says_why(cluster: Cluster, node: Node) -> None:
    path = running(node, "two", "sleep", "1000")
    status, body = text(cluster, f"{path}/log?container=nosuch")
    assert (status, json.loads(body)["reason"]) == (400, "BadRequest")
    assert json.loads(body)["message"] == f"container nosuch is not valid for pod {node.full('two')}"
    assert text(cluster, f"{PODS}/nosuch/log")[0] == 404


def test_the_log_of_a_pod_without_a_node_is_empty(cluster: Cluster, pending: str) -> None:
    assert text(cluster, f"{pending}/log") == (204, b"")


def test_of_several_containers_one_must_be_named(cluster: Cluster, node: Node) -> None:
    containers = [{**node.container(name), "command": ["sleep", "1000"]} for name in ("a", "b")]
    node.create("two", *containers)
    status, body = text(cluster, f"{PODS}/{node.full('two')}/log")
    told = f"a container name must be specified for pod {node.full('two')}, choose one of: [a b]"
    assert (status, json.loads(body)["message"]) == (400, told)


def test_a_program_runs_in_the_container(cluster: Cluster, node: Node) -> None:
    path = running(node, "one", "sleep", "1000")
    found = ran(cluster, path, "sh", "-c", "echo out; echo err >&2; echo $0 $1", "a b", "c")
    status = json.loads(found.pop(STATUS))
    assert found == {STDOUT: b"out\na b c\n", STDERR: b"err\n"}
    assert (status["status"], status["metadata"]) == ("Success", {})


def test_its_input_ends_where_the_client_says_so(cluster: Cluster, node: Node) -> None:
    path = running(node, "one", "sleep", "1000")
    assert ran(cluster, path, "cat", stdin=b"hello")[STDOUT] == b"hello"


def test_its_exit_code_is_told(cluster: Cluster, node: Node) -> None:
    path = running(node, "one", "sleep", "1000")
    status = json.loads(ran(cluster, path, "sh", "-c", "exit 3")[STATUS])
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert {"reason": "ExitCode", "message": "3"} in status["details"]["causes"]


def test_no_program_runs_in_a_pod_that_has_no_node(cluster: Cluster, pending: str) -> None:
    with pytest.raises(HandshakeError) as refused:
        opened(cluster, f"{pending}/exec", [("command", "true"), ("stdout", "true")], EXEC)
    assert refused.value.status == 400


@pytest.fixture
def serving(node: Node) -> tuple[str, int]:
    """The path of a pod in which a web server listens, and its port."""
    port = random.SystemRandom().randrange(20_000, 30_000)  # another run of this test may be beside it
    container = {**node.container(), "command": ["sh", "-c", SERVE % (port, port)]}
    node.create("one", {**container, "ports": [{"name": "web", "containerPort": port}]})
    node.until_phase("one", "Running")
    return f"{PODS}/{node.full('one')}", port


def test_a_port_is_forwarded(cluster: Cluster, node: Node, serving: tuple[str, int]) -> None:
    path, port = serving

    def asked() -> bytes:
        got: dict[int, bytes] = {0: b"", 1: b""}
        with closing(opened(cluster, f"{path}/portforward", [("ports", str(port))], PORT)) as stream:
            stream.send(b"\0GET /hostname HTTP/1.0\r\n\r\n")
            while (message := stream.receive()) is not None:
                got[message[0]] += message[1:]
        first = port.to_bytes(2, "little")
        assert got[0].startswith(first)
        assert got[1].startswith(first)
        return got[0][2:]

    node.until(lambda: asked().startswith(b"HTTP/1."), "an answer through the forwarded port")


def test_nobody_at_the_port_is_told(cluster: Cluster, node: Node) -> None:
    path = running(node, "one", "sleep", "1000")
    with closing(opened(cluster, f"{path}/portforward", [("ports", "19")], PORT)) as stream:
        # The real kubelet connects when something is sent.
        stream.send(b"\0x")
        said = b""
        while b"forwarding port 19 to pod" not in said and (message := stream.receive()) is not None:
            said += message[1:] if message[:1] == b"\1" else b""
    assert b"forwarding port 19 to pod" in said


def test_a_pod_is_asked_through_the_api_server(
    cluster: Cluster, node: Node, serving: tuple[str, int]
) -> None:
    path, port = serving
    node.until(lambda: text(cluster, f"{path}:{port}/proxy/hosts")[0] == 200, "an answer of the pod")
    assert b"localhost" in text(cluster, f"{path}:{port}/proxy/hosts")[1]
    assert text(cluster, f"{path}:{port}/proxy/nosuch")[0] == 404
