"""/explain, metrics and health of the job engine."""

import json

import pytest

from device_plugin.core.http_values import HttpRequest
from device_plugin.core.jobs.rules import Rules
from device_plugin.jobs.show.explain import JobExplainer
from device_plugin.jobs.show.gauges import JobGauges
from device_plugin.jobs.show.health import STUCK_SECONDS, LoopHealth
from tests.jobs.world import World


@pytest.fixture
def world() -> World:
    made = World(rules=Rules(cooldown_s=60.0))
    made.queue("a", 3, 2, 4)
    made.queue("b", 4)
    made.settle(3)
    return made


def ask(world: World, target: str, accept: str = "*/*", method: str = "GET") -> tuple[int, str]:
    path, _, query = target.partition("?")
    request = HttpRequest(method, path, query, {"accept": accept}, b"")
    answer = JobExplainer(world.engine.known, world.engine.rounds)(request)
    body = answer.body if isinstance(answer.body, str) else bytes(answer.body).decode()  # type: ignore[arg-type]
    return answer.status, body


def test_each_job_has_a_line(world: World) -> None:
    assert ask(world, "/explain") == (
        200,
        "default/a queue default running 2 (2 to 4): runs with 2 pods\n"
        "default/b queue default waiting 0 (4 to 4): waits for room for 4 of its pods\n",
    )


def test_a_replica_that_does_not_plan_says_so(world: World) -> None:
    world.leads = False
    _, text = ask(world, "/explain?job=default/a")
    assert text == "default/a queue default unknown 0 (2 to 4): another replica holds the Lease\n"


def test_one_job_as_json(world: World) -> None:
    status, text = ask(world, "/explain?job=default/a", "application/json")
    (found,) = json.loads(text)["jobs"]
    assert (status, found["phase"], found["width"], found["min"], found["max"]) == (200, "running", 2, 2, 4)


@pytest.mark.parametrize(
    ("target", "status", "says"),
    [
        ("/explain?job=default/none", 404, "label vgpu.io/queue"),
        ("/explain?job=a", 400, "/explain?job=NAMESPACE/NAME"),
        ("/explain?pod=default/a", 400, "/explain?job=NAMESPACE/NAME"),
        ("/other", 404, "not found"),
    ],
)
def test_what_cannot_be_answered_says_what_to_write(
    world: World, target: str, status: int, says: str
) -> None:
    found, text = ask(world, target)
    assert found == status
    assert says in text


def test_it_is_only_read(world: World) -> None:
    assert ask(world, "/explain", method="POST")[0] == 405


def test_without_jobs_it_says_so() -> None:
    assert ask(World(), "/explain") == (200, "no job is in a queue\n")


def test_metrics_of_jobs_come_from_the_leader_alone(world: World) -> None:
    leads = True
    gauges = JobGauges(world.engine.rounds, lambda: leads)
    for write in world.engine.sent:
        gauges.count(write)

    def samples() -> dict[str, list[tuple[tuple[str, ...], float]]]:
        return {r.metric.name: [(tuple(labels), value) for labels, value in r.samples] for r in gauges()}

    found = samples()
    assert found["vgpu_jobs"] == [(("default", "running"), 1.0), (("default", "waiting"), 1.0)]
    assert found["vgpu_job_replicas"] == [(("default", "a"), 2.0)]
    assert found["vgpu_job_writes_total"] == [(("start",), 1.0)]
    assert found["vgpu_job_engine_leader"] == [((), 1.0)]
    leads = False
    assert samples().keys() == {"vgpu_job_engine_leader", "vgpu_job_writes_total"}


def test_a_loop_that_hangs_is_named() -> None:
    now = 0.0
    health = LoopHealth(lambda: now)
    health.turn("rounds")
    assert health.why_dead() == ""
    now = STUCK_SECONDS
    assert health.why_dead() == "rounds has not turned for 120 s"
