"""Kept connections against a server that closes, cuts off and says too much."""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest

from device_plugin.adapters.http.client import LOST
from device_plugin.adapters.kube.connections import Connections
from device_plugin.adapters.kube.endpoint import Endpoint

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok"


class Script:
    """A server: for each connection a list of answers, one for each request; then it closes."""

    def __init__(self, *connections: Sequence[bytes]) -> None:
        self.requests: list[bytes] = []
        self.closed = threading.Semaphore(0)
        self._connections = connections
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for answers in self._connections:
            connection, _ = self._listener.accept()
            with connection:
                for answer in answers:
                    self.requests.append(connection.recv(65536))
                    connection.sendall(answer)
            self.closed.release()

    def close(self) -> None:
        self._thread.join(60)
        self._listener.close()
        assert not self._thread.is_alive()


@contextmanager
def served(*connections: Sequence[bytes], path: str = "") -> Iterator[tuple[Script, Connections]]:
    with (
        closing(Script(*connections)) as script,
        closing(Connections(Endpoint(script.url + path, lambda: None), 60.0)) as client,
    ):
        yield script, client


def get(client: Connections, target: str = "/x") -> tuple[int, bytes]:
    status, body = client.request("GET", target, {"Accept": "y"}, None)
    return status, bytes(body)


def test_one_connection_carries_many_requests() -> None:
    with served([OK, CHUNKED, OK]) as (script, client):
        assert [get(client) for _ in range(3)] == [(200, b"ok"), (201, b"ok"), (200, b"ok")]
    host = script.url.removeprefix("http://").encode()
    assert script.requests == [b"GET /x HTTP/1.1\r\nHost: " + host + b"\r\nAccept: y\r\n\r\n"] * 3


def test_a_connection_that_the_server_closed_meanwhile_is_not_used() -> None:
    with served([OK], [OK]) as (script, client):
        assert get(client) == (200, b"ok")
        assert script.closed.acquire(timeout=60)
        assert get(client) == (200, b"ok")


def test_a_server_that_wants_no_more_requests_gets_none() -> None:
    with served([LAST, OK], [OK]) as (script, client):
        assert get(client) == (200, b"ok")
        thread = threading.Thread(target=get, args=(client,))
        thread.start()
        thread.join(60)
        assert len(script.requests) == 3, "the first connection was closed, and so ended its script"
        assert script.requests[1] == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        CUT,
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"SSH-2.0\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
    ],
)
def test_an_answer_cut_short_or_unreadable_is_no_answer(answer: bytes) -> None:
    with served([answer], [OK]) as (_, client):
        with pytest.raises(LOST):
            get(client)
        assert get(client) == (200, b"ok")


def test_what_comes_before_the_answer_is_not_the_answer() -> None:
    with served([b"HTTP/1.1 100 Continue\r\n\r\n" + OK]) as (_, client):
        assert get(client) == (200, b"ok")


def test_what_was_said_unasked_is_not_taken_for_the_next_answer() -> None:
    with served([OK + OK.replace(b"ok", b"no")], [OK]) as (_, client):
        with pytest.raises(LOST):
            get(client)
        assert get(client) == (200, b"ok")


def test_a_body_and_its_length_are_sent_together_below_the_servers_path() -> None:
    with served([OK], path="/cluster/7") as (script, client):
        client.request("POST", "/api", {}, b"{}")
    assert script.requests[0].startswith(b"POST /cluster/7/api HTTP/1.1\r\n")
    assert script.requests[0].endswith(b"\r\nContent-Length: 2\r\n\r\n{}")


def test_no_name_can_add_a_header() -> None:
    with served([OK]) as (script, client):
        get(client, "/pods/a HTTP/1.1\r\nX-Evil: 1\r\n\r\n?b=%20é")
    assert script.requests[0].startswith(
        b"GET /pods/a%20HTTP/1.1%0D%0AX-Evil:%201%0D%0A%0D%0A?b=%20%C3%A9 HTTP/1.1\r\n"
    )


def test_a_stream_gives_what_comes_and_tells_a_cut() -> None:
    with served([CHUNKED], [CUT]) as (_, client):
        with closing(client.stream("/x", {}, 60.0)) as stream:
            assert (stream.status, b"".join(stream.body())) == (201, b"ok")
        with closing(client.stream("/x", {}, 60.0)) as stream:
            parts = stream.body()
            assert next(parts) == b"ok"
            with pytest.raises(LOST):
                next(parts)


def test_an_interrupted_stream_ends_whoever_reads_it() -> None:
    ended = threading.Event()

    def answer(listener: socket.socket) -> None:
        with listener.accept()[0] as accepted:
            accepted.sendall(CUT)
            ended.wait(60)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        answering = threading.Thread(target=answer, args=(listener,))
        answering.start()
        with closing(Connections(Endpoint(address, lambda: None), 5.0).stream("/x", {}, 60.0)) as stream:
            parts = stream.body()
            assert next(parts) == b"ok"
            threading.Timer(0.05, stream.interrupt).start()
            with pytest.raises(LOST):
                next(parts)
        ended.set()
        answering.join()


def test_a_request_that_runs_when_all_are_closed_keeps_no_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = Connections(Endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}", lambda: None), 5.0)
        asking = threading.Thread(target=get, args=(client,))
        asking.start()
        with listener.accept()[0] as accepted:
            accepted.settimeout(5)
            accepted.recv(65536)
            client.close()
            accepted.sendall(OK)
            assert accepted.recv(1) == b""
        asking.join()


def test_requests_name_the_user_and_the_groups_that_they_are_made_for() -> None:
    with closing(Script([OK])) as script:
        endpoint = Endpoint(script.url, lambda: None).impersonating("jane", ("ops", "on call"))
        with closing(Connections(endpoint, 5.0)) as connections:
            assert get(connections) == (200, b"ok")
    lines = script.requests[0].decode().splitlines()
    assert {"Impersonate-User: jane", "Impersonate-Group: ops", "Impersonate-Group: on call"} <= set(lines)


def test_an_answer_that_is_not_there_before_the_deadline_is_lost_and_the_next_request_has_its_own() -> None:
    with served([OK], [OK]) as (_, client):
        with pytest.raises(TimeoutError, match="no whole answer in time"):
            client.request("GET", "/x", {}, None, time.monotonic())
        assert get(client) == (200, b"ok")
