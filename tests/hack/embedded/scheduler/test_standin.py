"""The scheduler stand-in with an extender of the test's own, on the real wire."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from device_plugin.adapters.http import server as http
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.core.http_values import JSON, HttpAnswer, HttpRequest
from device_plugin.kube.api import EVENTS, NODES, PODS, Ref
from device_plugin.kube.leases import LEASES
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.claims.uses import CLAIMS
from hack.embedded.scheduler import SchedulerStandIn, SchedulerTiming
from hack.embedded.scheduler.standin import LEASE
from tests.builders import objects
from tests.builders.cards import MEM
from tests.deadline import eventually

SECONDS = 60.0
TIMING = SchedulerTiming(
    lease=2.0, renew_deadline=1.5, retry_period=0.1, backoff=0.05, backoff_limit=0.2, extender=60.0
)


class FakeExtender:
    """Chooses the first node and binds; `on_filter` and `on_bind` may answer in its place."""

    def __init__(self, api: KubeClient) -> None:
        self.api = api
        self.calls: list[tuple[str, Any]] = []
        self.running: list[str] = []
        self.most: dict[str, int] = {"filter": 0, "bind": 0}
        self.on_filter: Callable[[Any], Mapping[str, Any] | None] = lambda _: None
        self.on_bind: Callable[[Any], Mapping[str, Any] | None] = lambda _: None
        self.status = 200
        self.server = http.Server(self._app, "127.0.0.1:0")

    def _app(self, request: HttpRequest) -> HttpAnswer:
        body = json.loads(request.body)
        verb = request.path.strip("/")
        self.calls.append((verb, body))
        self.running.append(verb)
        self.most[verb] = max(self.most[verb], self.running.count(verb))
        answer = self._filter(body) if verb == "filter" else self._bind(body)
        self.running.remove(verb)
        return HttpAnswer(json.dumps(answer), JSON, self.status)

    def _filter(self, body: Any) -> Mapping[str, Any]:
        return self.on_filter(body) or {"NodeNames": body["NodeNames"][:1], "FailedNodes": {}, "Error": ""}

    def _bind(self, body: Any) -> Mapping[str, Any]:
        answer = self.on_bind(body)
        if answer is not None:
            return answer
        self.bind(body)
        return {"Error": ""}

    def bind(self, body: Any) -> None:
        self.api.bind(Ref(body["PodName"], body["PodNamespace"], body["PodUID"]), body["Node"], {}, {})

    def told(self, verb: str) -> list[Any]:
        return [body for called, body in self.calls if called == verb]


class World:
    def __init__(self, *, claims: bool = False) -> None:
        self.server = EmbeddedApiServer()
        self.server.start()
        self.api = KubeClient(Endpoint(self.server.url, lambda: "Bearer system:admin"), "test")
        self.extender = FakeExtender(self.api)
        url = f"http://127.0.0.1:{self.extender.server.port}"
        self.scheduler = SchedulerStandIn(
            self.server.url, "system:kube-scheduler", url, "vgpu-0", timing=TIMING, claims=claims
        )

    def close(self) -> None:
        self.scheduler.stop()
        self.extender.server.close()
        self.api.close()
        self.server.stop()

    def node(self, name: str, mem: int = 16) -> None:
        status = {"allocatable": {MEM: str(mem)}}
        self.api.create(NODES.json, {**objects.node(name), "status": status})

    def pod(self, name: str, mem: int = 0, **spec: Any) -> str:
        limits = {MEM: str(mem)} if mem else {}
        body = objects.pod(name, limits, **{"schedulerName": "vgpu-scheduler", **spec})
        uid: str = self.api.create(PODS.json, body, "default")["metadata"]["uid"]
        return uid

    def claim(self, name: str, **metadata: Any) -> None:
        spec = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "example.com"}}]}}
        self.api.create(CLAIMS, {"metadata": {"name": name, **metadata}, "spec": spec}, "default")

    def uses(self, pod: str, **claims: str) -> None:
        made = [{"name": entry, "resourceClaimName": name} for entry, name in claims.items()]
        status = {"status": {"resourceClaimStatuses": made}}
        self.api.patch(PODS.json, Ref(pod, "default"), status, subresource="status")

    def get(self, name: str) -> Any:
        return self.api.get(PODS.json, Ref(name, "default"))

    def where(self, name: str) -> str:
        return str(self.get(name)["spec"].get("nodeName", ""))

    def why(self, name: str) -> str:
        """The message of the condition PodScheduled, if it is false."""
        conditions = self.get(name)["status"].get("conditions", [])
        return next((str(c.get("message")) for c in conditions if c["status"] == "False"), "")

    def events(self, reason: str) -> list[str]:
        events = self.api.list(EVENTS).items
        return [event["message"] for event in events if event["reason"] == reason]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.fixture
def claiming() -> Iterator[World]:
    """A world whose scheduler has the profile for claims."""
    made = World(claims=True)
    yield made
    made.close()


def test_the_extender_is_asked_in_the_words_of_the_real_one(world: World) -> None:
    world.node("n1")
    world.node("n2")
    uid = world.pod("p", 4)
    world.scheduler.start()
    assert eventually(lambda: world.where("p") == "n1", SECONDS)
    (asked,), (bound,) = world.extender.told("filter"), world.extender.told("bind")
    assert sorted(asked) == ["NodeNames", "Nodes", "Pod"]
    assert (asked["Nodes"], asked["NodeNames"]) == (None, ["n1", "n2"])
    assert asked["Pod"]["metadata"]["uid"] == uid
    assert "kind" not in asked["Pod"]
    assert bound == {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "n1"}
    assert eventually(lambda: world.events("Scheduled") == ["Successfully assigned default/p to n1"], SECONDS)


def test_a_pod_that_the_extender_refused_is_asked_for_again_when_another_is_bound(world: World) -> None:
    world.node("n1")
    refusal = {"NodeNames": [], "FailedNodes": {"n1": "waits for another"}}
    world.extender.on_filter = lambda body: (
        refusal if body["Pod"]["metadata"]["name"] == "first" and not world.where("second") else None
    )
    world.pod("first", 4)
    world.scheduler.start()
    assert eventually(lambda: world.why("first"), SECONDS)
    world.pod("second", 4)
    assert eventually(lambda: world.where("first") == "n1", SECONDS)


def test_refusals_are_grouped_by_text_beside_its_own(world: World) -> None:
    for name in ("n1", "n2", "n3"):
        world.node(name)
    world.node("small", 1)
    world.extender.on_filter = lambda _: {
        "NodeNames": [],
        "FailedNodes": {"n1": "lack memory", "n2": "lack memory"},
        "FailedAndUnresolvableNodes": {"n3": "unhealthy"},
    }
    world.pod("p", 4)
    world.scheduler.start()
    text = f"0/4 nodes are available: 1 Insufficient {MEM}, 1 unhealthy, 2 lack memory."
    assert eventually(lambda: world.why("p") == text, SECONDS)
    assert world.events("FailedScheduling") == [text]
    assert world.extender.told("filter")[0]["NodeNames"] == ["n1", "n2", "n3"]


def test_an_unschedulable_pod_is_tried_again_when_room_appears(world: World) -> None:
    world.node("n1", 4)
    world.pod("first", 4)
    world.scheduler.start()
    assert eventually(lambda: world.where("first"), SECONDS)
    world.pod("second", 4)
    assert eventually(lambda: world.why("second"), SECONDS)
    world.api.delete(PODS, Ref("first", "default"), grace_seconds=0)
    assert eventually(lambda: world.where("second") == "n1", SECONDS)


def test_filters_are_serial_and_bindings_are_not(world: World) -> None:
    world.node("n1", 100)
    together = threading.Barrier(4, timeout=SECONDS)

    def hold(_: Any) -> None:
        together.wait()

    world.extender.on_bind = hold
    for index in range(4):
        world.pod(f"p{index}", 1)
    world.scheduler.start()
    assert eventually(lambda: all(world.where(f"p{index}") for index in range(4)), SECONDS)
    assert world.extender.most == {"filter": 1, "bind": 4}


def test_a_failed_bind_frees_the_room_and_is_tried_again(world: World) -> None:
    world.node("n1", 4)
    refusals = iter([{"Error": "not the leader"}, {"Error": "not the leader"}])
    world.extender.on_bind = lambda _: next(refusals, None)
    world.pod("p", 4)
    world.scheduler.start()
    assert eventually(lambda: world.where("p") == "n1", SECONDS)
    assert len(world.extender.told("bind")) == len(world.extender.told("filter")) == 3
    assert world.events("FailedScheduling") == ["not the leader"]


def test_a_bind_that_happened_although_it_failed_is_not_repeated(world: World) -> None:
    world.node("n1", 8)

    def lose_the_answer(body: Any) -> Mapping[str, Any]:
        world.extender.bind(body)
        return {"Error": "no answer"}

    world.extender.on_bind = lose_the_answer
    world.pod("p", 4)
    world.scheduler.start()
    assert eventually(lambda: world.where("p") == "n1", SECONDS)
    world.pod("after", 4)
    assert eventually(lambda: world.where("after") == "n1", SECONDS)
    assert eventually(lambda: not world.extender.running, SECONDS)
    assert len(world.extender.told("bind")) <= 3


def test_errors_of_the_extender_are_shown_and_tried_again(world: World) -> None:
    world.node("n1")
    world.extender.status = 500
    world.pod("p", 4)
    world.scheduler.start()
    assert eventually(lambda: "failed filter with extender" in world.why("p"), SECONDS)
    world.extender.status = 200
    world.extender.on_filter = lambda _: {"NodeNames": ["elsewhere"]}
    assert eventually(lambda: 'claims a filtered node "elsewhere"' in world.why("p"), SECONDS)
    world.extender.on_filter = lambda _: None
    assert eventually(lambda: world.where("p") == "n1", SECONDS)


def test_other_pods_are_none_of_the_extenders_business(world: World) -> None:
    world.node("n1")
    world.pod("plain")
    world.pod("foreign", schedulerName="another")
    world.pod("gated", 1, schedulingGates=[{"name": "wait"}])
    world.scheduler.start()
    assert eventually(lambda: world.where("plain") == "n1", SECONDS)
    assert not world.where("foreign")
    assert not world.where("gated")
    assert world.extender.calls == []


def test_with_claims_the_extender_is_asked_about_every_pod(claiming: World) -> None:
    claiming.node("n1")
    claiming.pod("plain")
    claiming.pod("foreign", schedulerName="another")
    claiming.scheduler.start()
    assert eventually(lambda: claiming.where("plain") == "n1", SECONDS)
    (asked,), (bound,) = claiming.extender.told("filter"), claiming.extender.told("bind")
    assert asked["Pod"]["metadata"]["name"] == bound["PodName"] == "plain"


def test_a_pod_is_not_asked_about_before_its_claims_exist(claiming: World) -> None:
    claiming.node("n1")
    claiming.pod(
        "p",
        resourceClaims=[{"name": "one", "resourceClaimName": "a"}, {"name": "two", "resourceClaimName": "b"}],
    )
    claiming.scheduler.start()
    claiming.claim("a")
    claiming.pod("later")
    assert eventually(lambda: claiming.where("later") == "n1", SECONDS)
    assert [each["Pod"]["metadata"]["name"] for each in claiming.extender.told("filter")] == ["later"]
    assert "conditions" not in claiming.get("p")["status"]
    claiming.claim("b")
    assert eventually(lambda: claiming.where("p") == "n1", SECONDS)


def test_a_pod_whose_claim_is_made_from_a_template_is_asked_about_with_its_name(claiming: World) -> None:
    claiming.node("n1")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": True}
    uid = claiming.pod("p", resourceClaims=[{"name": "one", "resourceClaimTemplateName": "t"}])
    claiming.scheduler.start()
    claiming.claim("mine", ownerReferences=[{**owner, "uid": uid}])
    claiming.claim("another", ownerReferences=[{**owner, "uid": "other"}])
    claiming.uses("p", one="another")
    claiming.pod("later")
    assert eventually(lambda: claiming.where("later") == "n1", SECONDS)
    assert [each["Pod"]["metadata"]["name"] for each in claiming.extender.told("filter")] == ["later"]
    claiming.uses("p", one="mine")
    assert eventually(lambda: claiming.where("p") == "n1", SECONDS)
    asked = claiming.extender.told("filter")[-1]["Pod"]
    assert asked["status"]["resourceClaimStatuses"] == [{"name": "one", "resourceClaimName": "mine"}]


def test_only_the_holder_of_the_lease_schedules(world: World) -> None:
    world.node("n1", 100)
    world.scheduler.start()
    assert world.scheduler.leading.wait(SECONDS)
    url = f"http://127.0.0.1:{world.extender.server.port}"
    second = SchedulerStandIn(world.server.url, "system:kube-scheduler", url, "vgpu-1", timing=TIMING)
    second.start()
    try:
        world.pod("p", 1)
        assert eventually(lambda: world.where("p"), SECONDS)
        assert not second.leading.is_set()
        world.scheduler.pause()
        assert second.leading.wait(SECONDS)
        world.scheduler.resume()
        assert eventually(lambda: not world.scheduler.leading.is_set(), SECONDS)
        world.pod("q", 1)
        assert eventually(lambda: world.where("q"), SECONDS)
        assert len(world.extender.told("bind")) == 2
    finally:
        second.stop()


def test_a_holder_that_cannot_renew_stops_leading_and_one_that_ends_gives_the_lease_up(world: World) -> None:
    world.scheduler.start()
    assert world.scheduler.leading.wait(SECONDS)
    world.server.stop()
    assert eventually(lambda: not world.scheduler.leading.is_set(), SECONDS)
    world.server.start()
    assert world.scheduler.leading.wait(SECONDS)
    world.scheduler.stop()
    assert world.api.get(LEASES, LEASE).holder == ""


def test_it_outlives_an_api_server_that_is_away(world: World) -> None:
    world.node("n1")
    world.scheduler.start()
    assert world.scheduler.leading.wait(SECONDS)
    world.server.stop()
    world.server.start()
    world.pod("p", 1)
    assert eventually(lambda: world.where("p") == "n1", SECONDS)
