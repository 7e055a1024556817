"""The requests to a Prometheus, and the values read from its answers."""

import base64
import json
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain, repeat
from urllib.parse import parse_qs

import pytest

from device_plugin.adapters.http.server import Server
from device_plugin.cli.access import prometheus as access
from device_plugin.cli.access.prometheus import Prometheus, PrometheusError, PrometheusSeries
from device_plugin.core.http_values import HttpAnswer, HttpRequest

ONE = {"metric": {"node": "n1"}, "value": [2.5, "0.5"]}
SEVERAL = {"metric": {"node": "n2"}, "values": [[1, "0.25"], [2, "0.5"]]}


class StandIn:
    """Answers with `body`, and keeps the last question."""

    def __init__(self) -> None:
        self.body, self.status = "", 200
        self.path, self.asked = "", dict[str, list[str]]()
        self.headers: Mapping[str, str] = {}

    def __call__(self, request: HttpRequest) -> HttpAnswer:
        self.path, self.asked, self.headers = request.path, parse_qs(request.query), request.headers
        return HttpAnswer(self.body, status=self.status)

    def answers(self, *series: object) -> None:
        self.body = json.dumps({"status": "success", "data": {"result": series}})


@pytest.fixture
def stand_in() -> StandIn:
    return StandIn()


@pytest.fixture
def prometheus(stand_in: StandIn) -> Iterator[Prometheus]:
    with Server(stand_in, "127.0.0.1:0") as server:
        yield Prometheus(f"http://{server.address}/prom/")


def test_values_now(prometheus: Prometheus, stand_in: StandIn) -> None:
    stand_in.answers(ONE)
    assert prometheus.now("up") == [PrometheusSeries({"node": "n1"}, [(2.5, 0.5)])]
    assert (stand_in.path, stand_in.asked) == ("/prom/api/v1/query", {"query": ["up"]})
    prometheus.now("up", 1795363200.0)
    assert stand_in.asked == {"query": ["up"], "time": ["1795363200"]}


def test_values_over_time(prometheus: Prometheus, stand_in: StandIn) -> None:
    stand_in.answers(SEVERAL)
    found = prometheus.over_time("up", 10.4, 20.6, 5)
    assert found == [PrometheusSeries({"node": "n2"}, [(1.0, 0.25), (2.0, 0.5)])]
    assert stand_in.path == "/prom/api/v1/query_range"
    assert stand_in.asked == {"query": ["up"], "start": ["10"], "end": ["21"], "step": ["5"]}


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (503, "", "answers 503"),
        (200, "no JSON", "no result"),
        (200, "[]", "no result"),
        (200, '{"status": "error"}', "no result"),
        (200, '{"data": {"result": [{"metric": {}}]}}', "no result"),
        (200, '{"data": {"result": [{"metric": {}, "value": [1]}]}}', "no result"),
        (200, '{"data": {"result": [{"metric": [], "value": [1, "1"]}]}}', "no result"),
        (200, "[" * 200_000, "no result"),
        (200, '{"data": {"result": [{"metric": {}, "value": [NaN, "1"]}]}}', "no result"),
        (200, '{"data": {"result": [{"metric": {}, "value": ["-inf", "1"]}]}}', "no result"),
        (200, '{"data": {"result": [{"metric": {}, "value": [1e300, "1"]}]}}', "no result"),
    ],
)
def test_what_is_no_answer_is_said(
    prometheus: Prometheus, stand_in: StandIn, status: int, body: str, problem: str
) -> None:
    stand_in.status, stand_in.body = status, body
    with pytest.raises(PrometheusError, match=problem):
        prometheus.now("up")


def test_a_server_that_is_not_there_is_said() -> None:
    with pytest.raises(
        PrometheusError, match=r"127\.0\.0\.1:1 cannot be asked \(connection refused\): correct --p"
    ):
        Prometheus("http://127.0.0.1:1").now("up")


@pytest.mark.parametrize("url", ["localhost:9090", "file:///etc/passwd", "http://a:port", "http://[", ""])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(PrometheusError, match="is no URL"):
        Prometheus(url)


def test_an_answer_that_is_too_long_is_called_so(
    prometheus: Prometheus, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.answers(ONE)
    monkeypatch.setattr(access, "MOST_BYTES", len(stand_in.body))
    assert prometheus.now("up")
    stand_in.body += " "
    with pytest.raises(PrometheusError, match="too long"):
        prometheus.now("up")


def test_a_password_in_the_url_is_sent_and_never_shown(stand_in: StandIn) -> None:
    with Server(stand_in, "127.0.0.1:0") as server:
        asked = Prometheus(f"http://user:s%40cret@{server.address}")
        stand_in.answers(ONE)
        asked.now("up")
        assert stand_in.headers["authorization"] == f"Basic {base64.b64encode(b'user:s@cret').decode()}"
        problems = list[str]()
        for status, body in ((401, ""), (200, "[]")):
            stand_in.status, stand_in.body = status, body
            with pytest.raises(PrometheusError) as refused:
                asked.now("up")
            problems.append(str(refused.value))
    with pytest.raises(PrometheusError) as refused:
        Prometheus("http://user:s%40cret@127.0.0.1:1").now("up")
    problems.append(str(refused.value))
    with pytest.raises(PrometheusError) as refused:
        Prometheus("http://user:s%40cret@127.0.0.1:port")
    problems.append(str(refused.value))
    assert not [problem for problem in problems if "user" in problem or "cret" in problem]


class Slow:
    """A server that sends bytes one by one until the client closes the connection: `head` first, then spaces."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "Slow":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        with self._listener.accept()[0] as connection, suppress(OSError):
            for byte in chain(self._head, repeat(ord(" "))):
                connection.sendall(bytes([byte]))
                # No wait for a condition: it is how slow the server is.
                select.select([], [], [], 0.002)


@pytest.mark.parametrize(
    ("scheme", "head"),
    [
        ("http", b""),
        ("http", b"HTTP/1.1 200 OK\r\nX: "),
        ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"),
        # The head of a TLS record of 16 KiB.
        ("https", b"\x16\x03\x03\x40\x00\x02"),
    ],
    ids=["nothing", "a header without an end", "a body", "a handshake"],
)
def test_a_server_that_sends_its_bytes_one_by_one_gets_no_more_time_than_another(
    scheme: str, head: bytes
) -> None:
    with Slow(head) as server:
        began = time.monotonic()
        with pytest.raises(PrometheusError, match="cannot be asked") as refused:
            Prometheus(f"{scheme}://127.0.0.1:{server.port}", timeout=0.3).now("up")
        assert time.monotonic() - began < 5
    assert "\n" not in str(refused.value)


def test_a_body_that_ends_with_its_connection_is_read() -> None:
    body = json.dumps({"data": {"result": [ONE]}}).encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + body)

        thread = threading.Thread(target=serve)
        thread.start()
        found = Prometheus(f"http://127.0.0.1:{listener.getsockname()[1]}").now("up")
        thread.join()
    assert found == [PrometheusSeries({"node": "n1"}, [(2.5, 0.5)])]


def test_a_path_with_spaces_is_one_path(stand_in: StandIn) -> None:
    stand_in.answers(ONE)
    with Server(stand_in, "127.0.0.1:0") as server:
        assert Prometheus(f"http://{server.address}/a b\u00e9/").now("up")
    assert stand_in.path == "/a b\u00c3\u00a9/api/v1/query", "which the server decodes"


def test_a_host_that_is_no_name_is_said() -> None:
    with pytest.raises(PrometheusError, match="its host is no name of a host"):
        Prometheus(f"http://{'a' * 70}.b:9").now("up")
