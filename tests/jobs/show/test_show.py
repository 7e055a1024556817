"""/explain, metrics and health of the job engine."""

import json
from dataclasses import replace
from typing import Any

import pytest

from device_plugin.core.contract.metrics import OTHERS
from device_plugin.core.contract.resize import Resize, api_time
from device_plugin.core.http_values import HttpAnswer, HttpRequest
from device_plugin.core.jobs.engine import BEHIND_HIGHER
from device_plugin.core.jobs.plan import Plan, Reserved
from device_plugin.core.jobs.progress import Progress, ProgressReport
from device_plugin.core.jobs.rules import HOUR, Rules
from device_plugin.core.node_constraints import NodeConstraints, Operator, Requirement
from device_plugin.jobs.show import gauges
from device_plugin.jobs.show.explain import JobExplainer
from device_plugin.jobs.show.gauges import JobGauges
from tests.builders.batch_jobs import resize
from tests.jobs.pools.world import PoolsWorld
from tests.jobs.world import World

# In a record of a stop that was decided two minutes before the clock of a World begins.
STOPPED = {"attained": 400 * HOUR, "asked": 1_799_999_880.0, "until": 1_799_999_880.0, "applied": True}


@pytest.fixture
def world() -> World:
    made = World(rules=Rules(cooldown_s=60.0, young_s=60.0))
    made.queue("a", 2, 2, 4)
    made.queue("b", 4)
    made.settle(3)
    return made


def ask(world: World, target: str, accept: str = "*/*", method: str = "GET") -> tuple[int, str]:
    path, _, query = target.partition("?")
    request = HttpRequest(method, path, query, {"accept": accept}, b"")
    answer = JobExplainer(world.engine.known, world.engine.planners)(request)
    body = answer.body if isinstance(answer.body, str) else bytes(answer.body).decode()  # type: ignore[arg-type]
    return answer.status, body


def test_each_job_has_a_line(world: World) -> None:
    assert ask(world, "/explain") == (
        200,
        "default/a queue default running width 2 (2 to 4): runs with 2 pods\n"
        "default/b queue default waiting width 0 (4 to 4): waits for room for 4 of its pods;"
        " it is due: cards are kept for it on n1, and when all of them are free is not known\n",
    )


def test_a_job_whose_pods_fail_says_how_many_have(world: World) -> None:
    world.api.put(replace(world.job("a"), ready=0, failed=3, backoff_limit=6))
    _, text = ask(world, "/explain?job=default/a")
    assert "its pods fail: 3 have failed (its backoffLimit is 6)" in text
    world.api.put(replace(world.job("a"), ready=2))
    assert "fail" not in ask(world, "/explain?job=default/a")[1]


def test_a_replica_that_does_not_plan_says_so(world: World) -> None:
    world.leads = False
    _, text = ask(world, "/explain?job=default/a")
    assert text == "default/a queue default unknown width 0 (2 to 4): another replica holds the Lease\n"


def seen(world: World) -> dict[str, dict[str, Any]]:
    """The Jobs as a program sees them, by name."""
    status, text = ask(world, "/explain", "application/json")
    assert status == 200
    return {job["name"]: job for job in json.loads(text)["jobs"]}


def test_one_job_as_json(world: World) -> None:
    status, text = ask(world, "/explain?job=default/a", "application/json")
    (found,) = json.loads(text)["jobs"]
    assert (status, found["phase"], found["width"], found["min"], found["max"]) == (200, "running", 2, 2, 4)
    assert json.loads(text)["problem"] == ""
    world.leads = False
    _, text = ask(world, "/explain", "application/json")
    assert json.loads(text)["problem"] == "another replica holds the Lease"


def test_the_widths_that_a_job_lists_stand_in_place_of_its_bounds(world: World) -> None:
    world.queue("c", 4, annotations={"vgpu.io/widths": "3,4"})
    world.settle(2)
    _, text = ask(world, "/explain?job=default/c")
    assert text.startswith(
        "default/c queue default waiting width 0 (3 or 4): waits for room for 3 of its pods"
    )
    found = seen(world)
    assert (found["c"]["widths"], found["c"]["min"], found["c"]["max"]) == ([3, 4], 3, 4)
    assert found["a"]["widths"] is None


def test_a_job_of_a_group_waits_for_its_group(world: World) -> None:
    labels = {"vgpu.io/queue": "default", "vgpu.io/group": "g", "vgpu.io/role": "master"}
    world.queue("master", 3, labels=labels, annotations={"vgpu.io/group-jobs": "2"})
    world.settle(2)
    found = seen(world)["master"]
    assert (found["waitsFor"], found["why"]) == ("1 more Job of group g", "waits for 1 more Job of group g")
    assert found["place"] is None
    world.queue("ps", 1, labels={**labels, "vgpu.io/role": "ps"}, annotations={"vgpu.io/group-jobs": "2"})
    world.settle(2)
    found = seen(world)["master"]
    assert found["waitsFor"] == "room for group g"
    assert found["why"].startswith("waits for room for group g; it is due, and no cards are kept for it: ")


def test_a_job_that_waits_has_a_place_and_the_time_from_which_it_goes_first(world: World) -> None:
    world.queue("c", 3, created="2027-01-15T07:30:00Z")
    world.settle(2)
    found = seen(world)
    # b has waited for an hour.
    assert {name: job["place"] for name, job in found.items()} == {"a": None, "b": 1, "c": 2}
    read = JobGauges(world.engine.known, world.engine.planners, lambda: True, lambda: world.now)
    (places,) = (reading.samples for reading in read() if reading.metric.name == "vgpu_job_place")
    assert [*places] == [(("default", "b"), 1.0), (("default", "c"), 2.0)]
    assert [found[name]["waitsFor"] for name in "abc"] == ["", "room for 4 pods", "room for 3 pods"]
    created = 1_799_998_200
    assert found["c"]["since"] == created
    assert found["c"]["nextChange"] == {"what": "goes before others of its priority", "from": created + 3600}


def test_a_job_that_runs_may_grow_once_it_has_rested_unless_another_waits() -> None:
    world = World(cards=2, rules=Rules(cooldown_s=600.0, quantum_s=300.0))
    bounds = {"vgpu.io/min-replicas": "2", "vgpu.io/max-replicas": "4"}
    world.queue("a", 2, annotations={**bounds, "vgpu.io/resumable": "true"})
    world.settle(3)
    state = world.engine.rounds.last.states["default", "a"]
    assert seen(world)["a"]["nextChange"] == {"what": "may grow", "from": int(state.resized) + 600}
    world.queue("b", 2, created=api_time(world.now))
    world.settle(3)
    expected = {"what": "may be stopped for a job that waits", "from": int(state.since) + 300}
    assert seen(world)["a"]["nextChange"] == expected


def test_one_job_is_told_in_a_paragraph(world: World) -> None:
    assert ask(world, "/explain?job=default/b")[1] == (
        "default/b queue default waiting width 0 (4 to 4): waits for room for 4 of its pods; it is due: cards are kept"
        " for it on n1, and when all of them are free is not known; it is number 1 of those that wait in its queue;"
        " waiting since 2027-01-15T07:00:00Z\n"
    )


def test_the_answer_about_one_job_has_parts_and_a_list_has_none(world: World) -> None:
    _, text = ask(world, "/explain?job=default/b", "application/json")
    (found,) = json.loads(text)["jobs"]
    assert found["answer"] == "default/b waiting: waits for room for 4 of its pods"
    assert found["reasons"] == [
        "It is due: cards are kept for it on n1, and when all of them are free is not known",
        "Queue default, width 0 (4 to 4)",
        "It is number 1 of those that wait in its queue",
        "Waiting since 2027-01-15T07:00:00Z",
    ]
    assert found["help"] == []
    assert "answer" not in seen(world)["b"]


def test_a_job_for_which_others_give_way_names_them_and_when_it_starts() -> None:
    world = World(rules=Rules(cooldown_s=60.0, young_s=0.0))
    world.queue("wide", 4, 2)
    world.settle(3)
    assert seen(world)["wide"]["width"] == 4
    world.lingers = True
    world.queue("small", 1)
    world.settle(2)
    found = seen(world)
    until = int(world.record("wide").until)
    assert (found["wide"]["phase"], found["wide"]["why"]) == (
        "resizing",
        "goes from 4 to 3 pods for job default/small",
    )
    assert (found["small"]["phase"], found["small"]["waitsFor"]) == (
        "starting",
        "pods of other jobs that leave",
    )
    assert found["small"]["nextChange"] == {"what": "starts with 1 pod", "until": until}
    assert found["small"]["why"] == "pods of default/wide leave, so that it can start"
    world.lingers = False
    world.settle(3)
    assert seen(world)["small"]["why"] == "runs with 1 pod"
    grows = api_time(world.record("wide").asked + world.rules.cooldown_s)
    gave = "runs with 3 pods; it gave 1 pod for job default/small, and grows"
    assert seen(world)["wide"]["why"] == f"{gave} from {grows} on where cards are idle"
    world.settle(10)
    assert seen(world)["wide"]["why"] == f"{gave} again where cards are idle"


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (resize(4, 0, beneficiary=("default", "b"), **STOPPED), "stopped for job default/b"),
        (resize(4, 0, refusal="quota", **STOPPED), "stopped because the API server refused its pods"),
        (resize(4, 0, **STOPPED), "stopped because some of its pods found no room"),
        (resize(0, 4, **STOPPED), "suspended by hand"),
    ],
)
def test_a_job_that_was_stopped_says_why_and_from_when_on_cards_are_kept_for_it(
    record: Resize, why: str
) -> None:
    world = World()
    world.queue("b", 4)
    world.settle(2)
    world.queue("a", 4, annotations={"vgpu.io/resize": record.encode()})
    world.settle(1)
    state = world.engine.rounds.last.states["default", "a"]
    back = api_time(state.since + world.rules.stop_s)
    assert seen(world)["a"]["why"] == (
        f"was {why}, and waits for room for 4 of its pods; cards are kept for it from {back} on"
    )
    world.now += world.rules.stop_s
    world.settle(1)
    assert "; it is due, and no cards are kept for it: waits for pods" in seen(world)["a"]["why"]


def test_a_job_that_is_due_says_where_and_when_it_starts_or_why_no_cards_are_kept_for_it(
    world: World,
) -> None:
    last, key = world.engine.rounds.last, ("default", "b")
    nodes, at = tuple(f"n{number}" for number in range(5)), 1_800_007_200.0

    def why(**plan: Any) -> str:
        world.engine.rounds.last = replace(last, plan=Plan(**plan))
        return str(seen(world)["b"]["why"]).removeprefix("waits for room for 4 of its pods; ")

    assert why(reserved={key: Reserved(nodes, at)}) == (
        "it is due: cards are kept for it on n0, n1, n2 and 2 more, and it is expected to start there at"
        " 2027-01-15T10:00:00Z"
    )
    assert seen(world)["b"]["nextChange"] == {"what": "is expected to start with 4 pods", "from": int(at)}
    assert seen(world)["b"]["expected"] == {"width": 4, "start": int(at), "end": None, "promised": True}
    assert why(reserved={key: Reserved(())}) == (
        "it is due: cards are kept for it, and when all of them are free is not known"
    )
    assert why(unreserved={key: "cards are reserved for other jobs that wait longer"}) == (
        "it is due, and no cards are kept for it: cards are reserved for other jobs that wait longer"
    )
    young = replace(last.states[key], since=last.at)
    last = replace(last, states={**last.states, key: young})
    assert why(unreserved={key: BEHIND_HIGHER}) == f"it does not start: {BEHIND_HIGHER}"


def test_what_has_a_mistake_waits_for_a_correction(world: World) -> None:
    world.queue("wrong", 4, annotations={"vgpu.io/min-replicas": "8 or so"})
    found = seen(world)["wrong"]
    assert (found["phase"], found["place"], found["waitsFor"]) == ("refused", None, "a correction")
    assert "vgpu.io/min-replicas" in found["why"]
    world.queue("large", 99)
    world.settle(2)
    found = seen(world)["large"]
    assert (found["phase"], found["place"], found["waitsFor"]) == ("refused", None, "a correction")
    assert "ask for fewer" in found["why"]


def test_a_split_with_a_ratio_waits_for_room_for_several_sub_tasks_until_it_is_due() -> None:
    world = World()
    world.queue("a", 4)
    world.settle(2)
    annotations = {"vgpu.io/split": "ordered", "vgpu.io/split-ratio": "10"}
    world.queue("s", 1, annotations=annotations, completions=30, created=api_time(world.now))
    world.settle(2)
    told = seen(world)["s"]
    assert (told["waitsFor"], told["why"]) == (
        "room for 4 of its 30 sub-tasks", "waits for room for 4 of its 30 sub-tasks",
    )  # fmt: skip
    world.now += world.rules.age_s
    world.settle(2)
    assert seen(world)["s"]["waitsFor"] == "room for 1 of its 30 sub-tasks"


def test_the_progress_of_a_split_is_its_sub_tasks() -> None:
    world = World()
    world.queue("s", 1, annotations={"vgpu.io/split": "ordered"}, completions=30)
    world.settle(2)
    world.api.put(replace(world.job("s"), succeeded=12))
    assert seen(world)["s"]["progress"] == {"done": 12, "total": 30}
    assert "; 12 of 30 are done; " in ask(world, "/explain?job=default/s")[1]


def test_the_progress_of_another_job_is_what_its_first_program_tells(world: World) -> None:
    world.tell("a", ProgressReport(Progress(1, 9)), index=1)
    assert seen(world)["a"]["progress"] is None
    world.tell("a", ProgressReport(Progress(400, 9000), checkpoints=3))
    assert seen(world)["a"]["progress"] == {"done": 400, "total": 9000}
    world.tell("a", ProgressReport())
    assert seen(world)["a"]["progress"] is None, "it ran anew and has told nothing yet"


def run_steadily(world: World, seconds: int) -> int:
    """The program of job a does 100 units a second and tells so every 10 s; returns what it has done."""
    for at in range(0, seconds + 1, 10):
        world.tell("a", ProgressReport(Progress(100 * at, 1_000_000)))
        world.now += 10
    return 100 * seconds


def test_what_a_program_has_done_and_when_it_ends(world: World) -> None:
    run_steadily(world, 200)
    found = seen(world)["a"]
    assert (found["progress"], found["secondsLeft"]) == ({"done": 20_000, "total": 1_000_000}, None)
    run_steadily(world, 400)
    found = seen(world)["a"]
    assert (found["progress"]["done"], found["secondsLeft"], found["secondsStuck"]) == (40_000, 9600, None)
    assert (
        "; 40000 of 1000000 are done; it ends in about 2 h 40 min; "
        in ask(world, "/explain?job=default/a")[1]
    )
    reported = int(world.now) - 10
    assert found["expected"] == {"width": 2, "start": None, "end": reported + 9600, "promised": False}
    found = seen(world)["b"]
    assert (found["progress"], found["secondsLeft"], found["secondsStuck"]) == (None, None, None)


def test_a_job_that_no_longer_advances_is_said_to_be_stuck(world: World) -> None:
    read = JobGauges(world.engine.known, world.engine.planners, lambda: True, lambda: world.now)

    def stuck() -> list[tuple[tuple[str, ...], float]]:
        (found,) = (reading for reading in read() if reading.metric.name == "vgpu_job_stuck_seconds")
        return [(tuple(labels), value) for labels, value in found.samples]

    done = run_steadily(world, 400)
    world.now += 589
    world.tell("a", ProgressReport(Progress(done, 1_000_000)))
    assert stuck() == []
    world.now += 1
    world.tell("a", ProgressReport(Progress(done, 1_000_000)))
    assert stuck() == [(("default", "a"), 600.0)]
    assert "; it is stuck: no progress for 10 min; " in ask(world, "/explain?job=default/a")[1]
    assert seen(world)["a"]["secondsStuck"] == 600
    world.tell("a", ProgressReport(Progress(done + 1, 1_000_000)))
    assert stuck() == []


def test_a_job_that_kueue_starts_says_so(world: World) -> None:
    job = world.queue("theirs", 1)
    world.api.put(replace(job, labels={**job.labels, "kueue.x-k8s.io/queue-name": "team"}))
    world.settle(2)
    assert (seen(world)["theirs"]["waitsFor"], seen(world)["theirs"]["place"]) == ("Kueue", None)


@pytest.mark.parametrize(
    ("target", "status", "says"),
    [
        ("/explain?job=default/none", 404, "it has ended, or lacks the label vgpu.io/queue"),
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


def test_each_replica_tells_of_the_jobs_of_its_pools_and_who_plans_the_others() -> None:
    world = PoolsWorld({"n1": "x", "n2": "y"})
    for name in "xy":
        places = NodeConstraints((Requirement("vgpu.io/pool", Operator.IN, (name,)),))
        world.queue(name, 2, nodes=places)
    for _ in range(12):
        world.turn()
    holders = world.planners()
    mine = {name[-1]: world.replicas[holder] for name, holder in holders.items()}
    assert mine["x"] is not mine["y"]
    explain = JobExplainer(mine["x"].known, mine["x"].planners)

    def asked(query: str = "") -> HttpAnswer:
        return explain(HttpRequest("GET", "/explain", query, {}))

    text = str(asked().body)
    assert "default/x queue default running width 2 (2 to 2): runs with 2 pods" in text
    other = f"hygon.com/dcu/y is planned by {mine['y'].name}"
    assert f"default/y queue default unknown width 0 (2 to 2): pool {other}" in text
    assert f"pool {other}\n" in text
    assert f"; it is in pool hygon.com/dcu/x, which {mine['x'].name} plans" in str(
        asked("job=default/x").body
    )
    assert asked("job=default/x").headers == {}
    assert asked("job=default/y").headers == {"Vgpu-Planner": mine["y"].name}
    read = JobGauges(mine["x"].known, mine["x"].planners, lambda: False, lambda: world.now)
    found = {r.metric.name: [(tuple(labels), value) for labels, value in r.samples] for r in read()}
    assert found["vgpu_jobs"] == [(("hygon.com/dcu/x", "default", "running"), 1.0)]
    assert found["vgpu_job_pool_planner"] == [(("hygon.com/dcu/x",), 1.0)]
    assert found["vgpu_job_engine_leader"] == [((), 0.0)]


def test_of_many_jobs_the_widest_have_samples_and_the_others_are_summed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gauges, "MOST_JOBS", 1)
    world = World()
    for name, width in (("a", 1), ("b", 2), ("c", 1)):
        world.queue(name, width)
    world.settle(3)
    read = JobGauges(world.engine.known, world.engine.planners, lambda: True, lambda: world.now)
    found = {r.metric.name: dict(r.samples) for r in read()}
    assert found["vgpu_job_replicas"] == {("default", "b"): 2.0, (OTHERS, OTHERS): 2.0}
    assert found["vgpu_jobs"] == {("", "default", "running"): 3.0}


def test_metrics_of_jobs_come_from_the_leader_alone(world: World) -> None:
    leads = True
    read = JobGauges(world.engine.known, world.engine.planners, lambda: leads, lambda: world.now)
    for write in world.engine.sent:
        read.count(write)

    def samples() -> dict[str, list[tuple[tuple[str, ...], float]]]:
        return {r.metric.name: [(tuple(labels), value) for labels, value in r.samples] for r in read()}

    found = samples()
    assert found["vgpu_jobs"] == [(("", "default", "running"), 1.0), (("", "default", "waiting"), 1.0)]
    assert found["vgpu_job_replicas"] == [(("default", "a"), 2.0)]
    assert found["vgpu_job_writes_total"] == [(("start",), 1.0)]
    assert found["vgpu_queue_starts_total"] == [(("default",), 1.0)]
    assert found["vgpu_job_engine_leader"] == [((), 1.0)]
    leads = world.leads = False
    counters = {"vgpu_job_writes_total", "vgpu_queue_starts_total", "vgpu_queue_start_wait_seconds_total"}
    assert samples().keys() == {"vgpu_job_engine_leader", *counters}


def longest_waits(world: World) -> dict[tuple[str, ...], float]:
    """The samples of the longest wait of each queue."""
    read = JobGauges(world.engine.known, world.engine.planners, lambda: True, lambda: world.now)
    (found,) = (each for each in read() if each.metric.name == "vgpu_queue_longest_wait_seconds")
    return {tuple(labels): value for labels, value in found.samples}


def test_the_longest_wait_of_a_queue_is_that_of_the_job_which_has_waited_longest_for_room(
    world: World,
) -> None:
    for name, created in (("c", 1_799_990_000.0), ("d", 1_799_980_000.0)):
        world.queue(name, 4, labels={"vgpu.io/queue": "night"}, created=api_time(created))
    world.settle(2)
    waits = longest_waits(world)
    assert waits.keys() == {("", "default"), ("", "night")}
    assert waits["", "night"] == world.now - 1_799_980_000
    # No round is planned while nothing changes; the wait grows all the same.
    world.now += 100
    assert longest_waits(world)["", "night"] == waits["", "night"] + 100


def test_a_job_that_waits_for_its_group_has_no_part_in_the_longest_wait(world: World) -> None:
    labels = {"vgpu.io/queue": "night", "vgpu.io/group": "g", "vgpu.io/role": "master"}
    world.queue("master", 3, labels=labels, annotations={"vgpu.io/group-jobs": "2"})
    world.settle(2)
    assert longest_waits(world).keys() == {("", "default")}


def test_a_job_that_can_never_run_has_no_part_in_the_longest_wait(world: World) -> None:
    world.queue("huge", 50, labels={"vgpu.io/queue": "night"})
    world.settle(2)
    assert seen(world)["huge"]["phase"] == "refused"
    assert longest_waits(world).keys() == {("", "default")}


def test_of_many_queues_those_with_the_longest_waits_have_samples(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gauges, "MOST_QUEUES", 1)
    world.queue("c", 4, labels={"vgpu.io/queue": "night"}, created=api_time(1_700_000_000.0))
    world.settle(2)
    assert longest_waits(world).keys() == {("", "night")}
