"""The requests to a Prometheus, and the values read from its answers."""

import base64
import json
from collections.abc import Iterator, Mapping
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
