"""The HTTP face, over real HTTP: what kube-scheduler and people get, and what garbage gets."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pytest_mock import MockerFixture

from device_plugin.adapters.http.server import MOST_BYTES, Server
from device_plugin.cluster.filter import Filter
from tests.builders import objects
from tests.builders.cards import CORES, MEM
from tests.cluster.world import Replica, World

JSON = {"Accept": "application/json"}


class Caller:
    def __init__(self, port: int) -> None:
        self._port = port

    def __call__(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture
def call(one: Replica) -> Iterator[Caller]:
    served = one.extender()
    with Server(served.app(), "127.0.0.1:0", early=served.early) as server:
        yield Caller(server.port)


def _pod(name: str, mem: str = "8") -> dict[str, object]:
    limits = {MEM: mem, CORES: "30"}
    return objects.pod(name, limits, {"namespace": "default", "uid": f"uid-{name}"})


def _filter(name: str, mem: str = "8") -> bytes:
    return json.dumps({"Pod": _pod(name, mem), "NodeNames": ["n1"]}).encode()


def test_filter_then_bind_writes_one_binding(world: World, call: Caller) -> None:
    world.pod("p")
    status, text = call("POST", "/filter", _filter("p"))
    assert (status, json.loads(text)["NodeNames"]) == (200, ["n1"])
    assert world.api.written == [], "/filter writes nothing"
    args = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "n1"}
    assert call("POST", "/bind", json.dumps(args).encode()) == (200, '{"Error":""}')
    assert world.api.written == [("bind", "p")]


def test_a_pod_that_fits_nowhere_is_refused_again_alike_by_the_beginning_of_the_call(
    world: World, call: Caller, mocker: MockerFixture
) -> None:
    whole, early = mocker.spy(Filter, "__call__"), mocker.spy(Filter, "again")
    names = [f"node-{n}" for n in range(5000)] + ["n1"]

    def body(name: str, mem: str) -> bytes:
        asked = {"Pod": _pod(name, mem), "Nodes": None, "NodeNames": names}
        return json.dumps(asked, separators=(",", ":")).encode()

    def ask(name: str, mem: str) -> Any:
        return json.loads(call("POST", "/filter", body(name, mem))[1])

    world.pod("large", mem=17)
    first = ask("large", "17")
    names.reverse()
    assert ask("large", "17") == ask("large", "17") == first
    assert (whole.call_count, early.call_count) == (1, 2)
    assert "too small" in first["FailedAndUnresolvableNodes"]["n1"]
    assert call("PUT", "/filter", body("large", "17"))[0] == 405
    world.pod("fits")
    for _ in range(2):
        assert ask("fits", "8")["NodeNames"] == ["n1"]
    assert (whole.call_count, early.call_count) == (3, 3), "a pod that was not refused is decided"


def test_a_malformed_request_is_hopeless_with_a_text_that_helps(call: Caller) -> None:
    result = json.loads(call("POST", "/filter", _filter("p", "1.5"))[1])
    assert result["NodeNames"] == []
    assert "write a whole number" in result["FailedAndUnresolvableNodes"]["n1"]


@pytest.mark.parametrize("body", [b"", b"{", b"[null]", b"\xff", b"[" * 50_000, b'{"Pod":7,"NodeNames":{}}'])
@pytest.mark.parametrize("path", ["/filter", "/bind"])
def test_garbage_is_answered_with_an_error_that_kube_scheduler_shows(
    path: str, body: bytes, call: Caller
) -> None:
    status, text = call("POST", path, body)
    assert status == 200, "kube-scheduler hides the text of anything else"
    assert path in json.loads(text)["Error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/filter", 405), ("POST", "/explain", 405), ("DELETE", "/bind", 405), ("GET", "/", 404),
     ("POST", "/filter/x", 404), ("GET", "/..%2f..%2fetc/passwd", 404)],
)  # fmt: skip
def test_other_calls_are_refused(method: str, path: str, status: int, call: Caller) -> None:
    assert call(method, path)[0] == status


@pytest.mark.parametrize(
    "query", ["node=n1", "pod=p", "pod=default/", "pod=/p", "pod=default/p&node=n1", "pods"]
)
def test_explain_refuses_what_it_would_not_look_at(query: str, call: Caller) -> None:
    assert call("GET", f"/explain?{query}") == (400, "write /explain or /explain?pod=NAMESPACE/NAME\n")


def test_a_huge_body_is_refused_before_it_is_sent_and_the_service_goes_on(call: Caller) -> None:
    assert call("POST", "/filter", headers={"Content-Length": str(MOST_BYTES + 1)})[0] == 413
    assert call("GET", "/explain")[0] == 200


def test_explain_shows_who_holds_what_and_who_waits(world: World, one: Replica, call: Caller) -> None:
    world.placed("holds")
    one.ask(world.pod("reserved"))
    world.pod("waits", mem=17)
    view = json.loads(call("GET", "/explain", headers=JSON)[1])
    assert view["leader"] is True
    cards = {card["uuid"]: card for node in view["nodes"] for card in node["cards"]}
    assert {(s["pod"], s["bound"]) for card in cards.values() for s in card["slices"]} == {
        ("holds", True), ("reserved", False),
    }  # fmt: skip
    assert sum(card["freeMiB"] for card in cards.values()) == 16368
    (waiting,) = view["waiting"]
    assert (waiting["pod"], waiting["reason"]) == ("waits", "too-large")
    text = call("GET", "/explain")[1]
    assert text.startswith(
        "this replica leads\nnodes: 1, cards: 2, slices: 2; free 16368 of 32736 MiB, 60 of 120 core groups\n"
        "n1 (loads: from the ledger)\n"
    )
    assert "default/reserved main: 8184 MiB" in text
    assert "default/waits: " in text


def test_explain_of_one_pod_shows_nothing_of_others(world: World, call: Caller) -> None:
    world.placed("mine")
    world.placed("other")
    text = call("GET", "/explain?pod=default/mine", headers=JSON)[1]
    assert "mine" in text
    assert "other" not in text
    assert json.loads(call("GET", "/explain?pod=default/nobody", headers=JSON)[1])["nodes"] == []


def test_preempt_answers_with_uids_and_garbage_with_no_200(world: World, call: Caller) -> None:
    low = world.pod("low", 16, None, priority=-1)
    assert world.one.bind(low, world.one.ask(low)) == ""
    cordoned = replace(world.api.by_node["n1"], cordoned="n1-1")
    world.one.view.node_news.see(cordoned)
    world.pod("p")
    args = {"Pod": _pod("p"), "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-low"}]}}}
    status, text = call("POST", "/preempt", json.dumps(args).encode())
    assert (status, json.loads(text)) == (
        200,
        {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-low"}], "NumPDBViolations": 0}}},
    )
    assert call("POST", "/preempt", b"{")[0] == 400


def test_decisions_are_told_to_peoples_commands(world: World, one: Replica, call: Caller) -> None:
    one.ask(world.pod("reserved"))
    status, text = call("GET", "/decisions")
    told = json.loads(text)
    assert (status, told["leader"], [each["pod"] for each in told["reserved"]]) == (
        200,
        True,
        ["default/reserved"],
    )
    assert call("GET", "/decisions?pod=default/reserved")[0] == 400
