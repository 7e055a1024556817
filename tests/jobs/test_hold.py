"""Jobs that a person holds: they stop, never start, keep nothing from others, and wait on as before once released."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from device_plugin.core.contract.annotations import GROUP, HOLD, QUEUE, RESIZE
from device_plugin.core.jobs.job import JobPhase, JobState
from device_plugin.core.jobs.plan import Plan
from device_plugin.core.jobs.progress import ProgressReport
from device_plugin.core.jobs.rules import HOUR, Rules
from device_plugin.jobs.execute.executor import MOST_KEPT, Executor
from device_plugin.jobs.plan.fork import Free
from device_plugin.jobs.show.views import views
from tests.jobs.world import World

NAMES = ("a", "b", "c", "d", "e")


@pytest.fixture
def world() -> World:
    return World()


def hold(world: World, name: str, text: str = "true") -> None:
    job = world.job(name)
    world.api.put(replace(job, annotations={**job.annotations, HOLD: text}))


def release(world: World, name: str) -> None:
    job = world.job(name)
    kept = {key: text for key, text in job.annotations.items() if key != HOLD}
    world.api.put(replace(job, annotations=kept))


def state(world: World, name: str) -> JobState:
    return world.engine.rounds.last.states["default", name]


def why(world: World, name: str) -> str:
    return next(view.why for view in views(world.engine.known, world.engine.planners) if view.name == name)


def runs(world: World, name: str) -> bool:
    return not world.job(name).suspend and bool(world.of(world.job(name)))


def test_a_held_job_does_not_start_and_others_do(world: World) -> None:
    world.queue("a", 4, annotations={HOLD: "true"})
    world.queue("b", 4)
    world.settle()
    assert (state(world, "a").phase, state(world, "a").width) == (JobPhase.HELD, 0)
    assert world.job("b").active == 4
    assert "is held by its author" in why(world, "a")
    world.finish("b")
    world.settle()
    assert not runs(world, "a")
    release(world, "a")
    world.settle()
    assert world.job("a").active == 4


def test_a_running_job_that_is_held_stops_and_its_cards_go_to_others(world: World) -> None:
    world.queue("a", 4)
    world.settle(3)
    world.queue("b", 4)
    world.settle(3)
    assert (runs(world, "a"), runs(world, "b")) == (True, False)
    hold(world, "a")
    world.settle(4)
    assert (runs(world, "a"), world.job("b").active) == (False, 4)
    assert world.job("a").annotations[HOLD] == "true", "only its author removes it"
    assert world.record("a").beneficiary is None
    assert state(world, "a").phase is JobPhase.HELD
    release(world, "a")
    world.settle(2)
    assert state(world, "a").phase is JobPhase.STOPPED
    assert "was held by its author, and waits for room" in why(world, "a")
    world.finish("b")
    world.settle()
    assert runs(world, "a")


def test_a_job_that_has_just_started_stops_at_once(world: World) -> None:
    world.kept_back.add("a-1")
    world.queue("a", 2)
    world.settle(2)
    assert state(world, "a").phase is JobPhase.STARTING
    hold(world, "a")
    world.turn()
    assert world.job("a").suspend


def test_its_program_is_asked_for_a_checkpoint_first(world: World) -> None:
    world.queue("a", 2, annotations={"vgpu.io/checkpoint-seconds": "600"})
    world.settle(12)
    world.tell("a", ProgressReport(checkpoints=3))
    hold(world, "a")
    world.settle(3)
    assert runs(world, "a")
    assert why(world, "a").startswith("was held by its author, and some of its pods have not ended yet")
    world.tell("a", ProgressReport(checkpoints=4))
    world.settle(2)
    assert world.job("a").suspend


def test_a_job_that_is_released_before_its_checkpoint_runs_on(world: World) -> None:
    world.queue("a", 2, annotations={"vgpu.io/checkpoint-seconds": "600"})
    world.settle(12)
    world.tell("a", ProgressReport(checkpoints=3))
    hold(world, "a")
    world.settle(2)
    release(world, "a")
    world.settle(3)
    assert runs(world, "a")
    assert not world.record("a").held
    assert state(world, "a").phase is JobPhase.RUNNING


def test_nothing_is_kept_for_a_job_that_is_held(world: World) -> None:
    world.queue("a", 4, 1, 4, annotations={
        "vgpu.io/min-replicas": "1", "vgpu.io/max-replicas": "4", "vgpu.io/checkpoint-seconds": "600",
    })  # fmt: skip
    world.settle()
    world.tell("a", ProgressReport(checkpoints=0))
    world.now += HOUR
    world.queue("b", 2)
    world.settle(2)
    assert world.record("a").beneficiary == ("default", "b")
    hold(world, "b")
    world.settle(3)
    assert world.job("a").active == 4
    assert world.record("a").until < world.now
    assert not any(world.engine.rounds.last.plan.reserved)


def test_time_that_a_job_is_held_earns_no_turn_and_time_before_is_kept(world: World) -> None:
    world.queue("z", 4)
    world.settle()
    world.queue("a", 4)
    world.settle(2)
    before = world.now - state(world, "a").since
    hold(world, "a")
    world.settle(2)
    world.now += 20 * HOUR
    release(world, "a")
    world.settle(2)
    waited = world.now - state(world, "a").since
    assert before <= waited <= before + 60
    assert state(world, "a").phase is JobPhase.WAITING
    assert not world.engine.rounds.last.plan.reserved


@pytest.mark.parametrize("again", [False, True], ids=["same engine", "another engine"])
def test_removing_the_record_counts_no_time_that_the_job_was_held(world: World, *, again: bool) -> None:
    world.queue("z", 4)
    world.settle()
    world.queue("a", 4, annotations={HOLD: "true"})
    world.settle()
    world.now += 20 * HOUR
    job = world.job("a")
    if again:
        world.api.engines = []
    kept = {key: text for key, text in job.annotations.items() if key not in (HOLD, RESIZE)}
    world.api.put(replace(job, annotations=kept))
    if again:
        world.restart()
    world.settle(2)
    assert world.now - state(world, "a").since <= HOUR + 120, "it was created an hour before it was held"
    assert state(world, "a").phase is JobPhase.WAITING


def test_a_stop_by_hold_does_not_count_as_a_stop_for_others(world: World) -> None:
    world.queue("a", 4)
    world.settle()
    hold(world, "a")
    world.settle()
    world.now += 8 * HOUR
    release(world, "a")
    world.settle()
    assert runs(world, "a")
    assert world.record("a").stopped_for < 120
    assert not world.record("a").held


def test_who_holds_a_job_as_others_stop_for_it_waits_anew(world: World) -> None:
    """Otherwise its author could have others stopped all the time, and never take their cards."""
    world.queue("a", 4, annotations={"vgpu.io/resumable": "true"})
    world.settle()
    world.now += HOUR
    world.queue("b", 4)
    stops, began = 0, world.now
    while world.now < began + 20 * HOUR:
        stopped = world.job("a").suspend
        (hold if stopped else release)(world, "b")
        world.turn(60.0)
        stops += world.job("a").suspend and not stopped
    assert 1 <= stops <= 20 * HOUR / world.rules.age_s


@pytest.mark.parametrize("held", ["b", "c", "bc"])
def test_who_holds_a_job_of_a_group_as_others_stop_for_the_group_waits_anew(world: World, held: str) -> None:
    world.queue("a", 4, annotations={"vgpu.io/resumable": "true"})
    world.settle()
    world.now += HOUR
    for name in ("b", "c"):
        world.queue(name, 2, labels={QUEUE: "default", GROUP: "g"}, annotations={"vgpu.io/group-jobs": "2"})
    stops, began = 0, world.now
    while world.now < began + 20 * HOUR:
        stopped = world.job("a").suspend
        for name in held:
            (hold if stopped else release)(world, name)
        world.turn(60.0)
        stops += world.job("a").suspend and not stopped
    assert 1 <= stops <= 20 * HOUR / world.rules.age_s


def test_a_group_waits_for_a_held_job_of_it(world: World) -> None:
    labels = {QUEUE: "default", GROUP: "g"}
    for name in ("a", "b"):
        world.queue(name, 1, labels=labels, annotations={"vgpu.io/group-jobs": "2"})
    hold(world, "b")
    world.settle()
    assert not any(runs(world, name) for name in ("a", "b"))
    assert "waits for Job b of group g, which is held" in why(world, "a")
    release(world, "b")
    world.settle()
    assert runs(world, "a")
    assert runs(world, "b")


def test_no_job_stops_for_a_group_of_which_one_job_is_held(world: World) -> None:
    world.queue("z", 4, annotations={"vgpu.io/resumable": "true", "vgpu.io/checkpoint-seconds": "600"})
    world.settle(3)
    world.tell("z", ProgressReport(checkpoints=1))
    world.now += HOUR
    for name in ("a", "b"):
        world.queue(name, 2, labels={QUEUE: "default", GROUP: "g"}, annotations={"vgpu.io/group-jobs": "2"})
    world.tell("z", ProgressReport(checkpoints=1))
    world.settle(2)
    assert world.record("z").beneficiary == ("default", "a")
    hold(world, "b")
    for _ in range(200):
        world.tell("z", ProgressReport(checkpoints=1))
        world.turn()
        assert runs(world, "z")
    assert world.record("z").until < world.now


def test_a_group_that_was_held_before_its_first_start_still_waits_for_all_of_its_jobs(world: World) -> None:
    labels = {QUEUE: "default", GROUP: "g"}
    world.queue("a", 1, labels=labels, annotations={"vgpu.io/group-jobs": "2", HOLD: "true"})
    world.settle(3)
    release(world, "a")
    world.settle()
    assert not runs(world, "a")


def test_a_held_split_gets_no_more_sub_tasks(world: World) -> None:
    world.queue("a", 1, completions=40, annotations={"vgpu.io/split": "ordered"})
    world.settle()
    assert world.job("a").active == 4
    hold(world, "a")
    world.settle()
    assert not runs(world, "a")


def test_a_held_job_whose_pods_are_refused_is_held_and_not_said_to_start_again(world: World) -> None:
    world.quotas["default"] = 1
    world.queue("a", 2)
    world.settle(20)
    assert world.record("a").refusal
    assert world.job("a").suspend
    hold(world, "a")
    world.settle(2)
    assert "started again" not in why(world, "a")
    assert "is held by its author" in why(world, "a")
    assert state(world, "a").phase is JobPhase.HELD


def test_a_malformed_value_holds_nothing_and_is_said(world: World) -> None:
    world.queue("a", 1)
    world.settle()
    hold(world, "a", "yes")
    world.settle()
    assert runs(world, "a")
    assert "annotation vgpu.io/hold is 'yes': write true or false" in why(world, "a")


def test_holding_and_releasing_costs_two_writes_each_time(world: World) -> None:
    world.queue("z", 4)
    world.settle()
    world.queue("a", 4)
    world.settle()
    before = len(world.api.patches)
    for _ in range(5):
        hold(world, "a")
        world.settle(3)
        release(world, "a")
        world.settle(3)
    assert len(world.api.patches) - before == 10
    world.settle(20)
    assert len(world.api.patches) - before == 10


def test_a_tenant_who_holds_many_jobs_at_once_costs_few_writes_at_a_time(world: World) -> None:
    world.queue("z", 4)
    world.settle()
    names = [f"many-{number}" for number in range(3 * MOST_KEPT)]
    for name in names:
        world.queue(name, 4)
    world.settle()
    for name in names:
        hold(world, name)
    world.cluster()
    jobs = world.engine.known.managed()
    due = Executor(world.now, jobs, Free(world.engine.rounds._fork, jobs, world.now)).due(Plan())
    assert len(due) == MOST_KEPT
    world.settle()
    assert all(world.record(name).held_since for name in names)


@pytest.mark.parametrize("seed", range(12))
def test_in_random_worlds_a_held_job_never_starts_and_rounds_come_to_rest(seed: int) -> None:
    rng = random.Random(seed)
    world = World(rules=Rules(young_s=0.0, resumable=rng.random() < 0.5))
    land = world.api.on_patch

    def checked(kind, of, change):  # type: ignore[no-untyped-def]
        started = change.get("spec", {}).get("suspend") is False
        assert not (started and world.job(of.name).annotations.get(HOLD) == "true"), f"{of.name} is held"
        return land(kind, of, change)

    world.api.on_patch = checked
    for name in NAMES:
        least = rng.choice((0, 0, 1, 2))
        world.queue(name, rng.randint(max(1, least), 4), least, 4)
    for _ in range(60):
        happens(world, rng)
        world.turn(rng.choice((2.0, 6.0, 60.0, HOUR)))
    for name in NAMES:
        if rng.random() < 0.5:
            hold(world, name)
    world.settle(20)
    held = {
        name
        for name in NAMES
        if world.job(name).annotations.get(HOLD) == "true" and not world.job(name).ended
    }
    assert not any(runs(world, name) for name in held)
    assert_idle_cards_are_used(world)
    before = len(world.api.patches)
    world.turn()
    world.turn()
    assert len(world.api.patches) == before, "the rounds have come to rest"


def happens(world: World, rng: random.Random) -> None:
    """A person holds or releases a Job, a Job ends, or another engine takes over."""
    name, what = rng.choice(NAMES), rng.random()
    held = world.job(name).annotations.get(HOLD) == "true"
    if what < 0.4:
        (release if held else hold)(world, name)
    elif what < 0.45 and runs(world, name):
        world.finish(name)
    elif what < 0.55:
        world.restart()


def assert_idle_cards_are_used(world: World) -> None:
    """Raise AssertionError if a Job waits that fits on the free cards, or if cards are kept for a held Job."""
    free, waits = 4 - len(world.api.pods), set(waiting(world))
    reserved = {name for _, name in world.engine.rounds.last.plan.reserved}
    assert reserved <= waits
    assert reserved or all(state(world, name).spec.least > free for name in waits)


def waiting(world: World) -> Iterator[str]:
    for name in NAMES:
        job = world.job(name)
        if job.suspend and not job.ended and job.annotations.get(HOLD) != "true":
            yield name
