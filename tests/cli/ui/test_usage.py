"""What Prometheus is asked about a card, and what is shown of its answer."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from device_plugin.adapters.http.server import Server
from device_plugin.cli.access.prometheus import Prometheus
from device_plugin.cli.ui.day import COLUMN_SECONDS, COLUMNS
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.usage import CardUse, NodeUse
from device_plugin.core.http_values import HttpAnswer, HttpRequest
from tests.hack.generate.monitoring.promtool import promtool


class StandIn:
    """Answers every query with `body`, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, list[str]]] = []
        self.body: object = {
            "status": "success",
            "data": {
                "result": [
                    {"metric": {}, "values": [[1.0, "0.25"], [2.0, "NaN"], [3.0, "+Inf"], [4.0, "0.5"]]}
                ]
            },
        }
        self.status = 200

    def __call__(self, request: HttpRequest) -> HttpAnswer:
        assert request.path == "/prom/api/v1/query_range"
        self.asked.append(parse_qs(request.query))
        return HttpAnswer(json.dumps(self.body), status=self.status)


@pytest.fixture
def stand_in() -> StandIn:
    return StandIn()


@pytest.fixture
def use(stand_in: StandIn) -> Iterator[CardUse]:
    entries = PageEntries()
    entries.put("node", {"n1": {}})
    with Server(stand_in, "127.0.0.1:0") as server:
        yield CardUse(Prometheus(f"http://{server.address}/prom/"), entries)


def test_the_use_of_one_card(use: CardUse, stand_in: StandIn) -> None:
    found = use.answer({"node": "n1", "card": 'x"} or {y="'})
    assert isinstance(found, dict)
    assert found["series"] == {name: [[1.0, 0.25], [4.0, 0.5]] for name in ("memory used", "computing")}
    for asked in stand_in.asked:
        for label in ("node", "exported_node"):
            assert f'{{{label}="n1",card="x\\"}} or {{y=\\""}}' in asked["query"][0]


@pytest.mark.parametrize(
    ("text", "hours"), [("", 6), ("1", 1), ("24", 24), ("10000", 6), ("6.0", 6), ("-1", 6)]
)
def test_people_choose_among_few_times_and_each_answer_has_as_many_values(
    use: CardUse, stand_in: StandIn, text: str, hours: int
) -> None:
    found = use.answer({"node": "n1", "card": "c", "hours": text})
    assert isinstance(found, dict)
    assert found["to"] - found["from"] == pytest.approx(hours * 3600)
    for asked in stand_in.asked:
        (start,), (end,), (step,) = (asked[name] for name in ("start", "end", "step"))
        assert float(end) - float(start) == pytest.approx(hours * 3600)
        assert float(step) == found["step"] == hours * 20


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (503, {}, "answers 503"),
        (200, [], "no result"),
        (200, {"status": "success", "data": {"result": [{"values": [[1]]}]}}, "no result"),
        (200, {"status": "error"}, "no result"),
        (200, {"status": "success", "data": {"result": []}}, ""),
    ],
)
def test_what_is_no_answer_is_said(
    use: CardUse, stand_in: StandIn, status: int, body: object, problem: str
) -> None:
    stand_in.status, stand_in.body = status, body
    found = use.answer({"node": "n1", "card": "c"})
    assert isinstance(found, dict)
    assert problem in found.get("problem", "")
    assert ("problem" in found) is bool(problem)


def test_nothing_is_asked_of_nodes_that_are_not_shown(use: CardUse, stand_in: StandIn) -> None:
    with pytest.raises(LookupError):
        use.answer({"node": "other", "card": "c"})
    assert stand_in.asked == []


def test_the_day_of_each_node_is_read_once_for_all_browsers(stand_in: StandIn) -> None:
    entries = PageEntries()
    entries.put("node", {"n1": {}, "n2": {}})
    at = time.time() // COLUMN_SECONDS * COLUMN_SECONDS
    stand_in.body = {
        "data": {
            "result": [
                {"metric": {"node": "n1"}, "values": [[at - COLUMN_SECONDS, "0.25"], [at, "NaN"]]},
                {"metric": {"node": "prometheus-0", "exported_node": "n2"}, "values": [[at, "0.5"]]},
                {"metric": {"node": "not-shown"}, "values": [[at, "0.5"]]},
            ]
        }
    }
    with Server(stand_in, "127.0.0.1:0") as server:
        use = NodeUse(Prometheus(f"http://{server.address}/prom/"), entries)
        found = use.answer({})
        assert isinstance(found, dict)
        if found["last"] == at // COLUMN_SECONDS:  # else a column has ended meanwhile
            ends = {name: day[-2:] for name, day in found["nodes"].items()}
            assert ends == {"n1": "5-", "n2": "-A"}
        assert {len(day) for day in found["nodes"].values()} == {COLUMNS}
        asked = len(stand_in.asked)
        use.answer({})
        assert len(stand_in.asked) <= asked + 1
    other = NodeUse(Prometheus("http://127.0.0.1:1/"), entries).answer({})
    assert isinstance(other, dict)
    assert "cannot be asked" in other["problem"]


def test_the_series_of_an_agent_that_has_ended_is_not_what_is_used_now(
    use: CardUse, stand_in: StandIn, tmp_path: Path
) -> None:
    use.answer({"node": "n1", "card": "c"})
    assert len(stand_in.asked) == 2  # each of which promtool tries below
    series = [
        {"series": f'{name}{{node="n1",card="c",pod="{pod}"}}', "values": values}
        for name in ("vgpu_card_memory_used_bytes", "vgpu_card_busy_ratio")
        for pod, values in (("old", "0.9 stale"), ("new", "_ 0.1x20"))
    ]
    size = [
        {"series": f'vgpu_card_memory_bytes{{node="n1",card="c",pod="{p}"}}', "values": "1x20"}
        for p in ("old", "new")
    ]
    expected = [
        {"expr": asked["query"][0], "eval_time": at, "exp_samples": [{"labels": "{}", "value": value}]}
        for asked in stand_in.asked
        for at, value in (("0m", 0.9), ("10m", 0.1))
    ]
    test = {"interval": "1m", "input_series": series + size, "promql_expr_test": expected}
    file = tmp_path / "use.yaml"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    promtool("test", "rules", file)
