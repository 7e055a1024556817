"""Turns do not depend on what a Job's author removes: by the record, the Job's status, and Kubernetes' own times."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import RESIZE, RESIZE_DROP
from device_plugin.core.contract.resize import Resize
from device_plugin.core.jobs.job import JobPhase
from device_plugin.core.jobs.progress import ProgressReport
from device_plugin.core.jobs.rules import Rules
from device_plugin.jobs.execute.writes import Action
from tests.jobs.world import World

HOURS, STEP_S = 24, 120.0
CREATED = "2027-01-15T07:00:00Z"
# All of them consent to be stopped for their equals.
RULES = Rules(young_s=0.0, resumable=True)
Cheat = Callable[[World, Job], None]


def without_record(job: Job) -> Job:
    return replace(job, annotations={key: text for key, text in job.annotations.items() if key != RESIZE})


def removes(world: World, job: Job) -> None:
    """The author removes the record whenever his Job is stopped, and its pods are gone."""
    if job.suspend and RESIZE in job.annotations and not world.of(job):
        world.api.put(without_record(job))


def removes_while_no_engine_lives(world: World, job: Job) -> None:
    """He does it where no engine sees it: the next one knows nothing of the record."""
    if job.suspend and RESIZE in job.annotations and not world.of(job):
        world.api.engines = []
        world.api.put(without_record(job))
        world.restart()


def stops_it_himself(world: World, job: Job) -> None:
    """He stops his Job just before his time is over, so that the engine makes no record of it."""
    if not job.suspend and RESIZE in job.annotations:
        record = Resize.decode(job.annotations[RESIZE])
        if record.after and world.now >= record.asked + world.rules.quantum_s - 2 * STEP_S:
            world.api.put(replace(job, suspend=True))


def service(cheat: Cheat | None) -> float:
    """The hours that the Job of one of two tenants has had the only card, if he cheats."""
    world = World(cards=1, rules=RULES)
    for name in ("good", "evil"):
        world.queue(name, 1, namespace=name, created=CREATED)
    had = 0.0
    for _ in range(int(HOURS * 3600 / STEP_S)):
        world.turn(STEP_S)
        job = world.api.jobs["evil", "evil"]
        if not job.suspend:
            had += STEP_S / 3600
        if cheat is not None:
            cheat(world, job)
    return had


@pytest.mark.no_cover
@pytest.mark.parametrize("cheat", [removes, removes_while_no_engine_lives, stops_it_himself])
def test_who_hides_that_his_job_has_run_gains_nothing(cheat: Cheat) -> None:
    honest = service(None)
    assert HOURS / 3 < honest < HOURS * 2 / 3, "they take turns"
    assert service(cheat) <= honest + 1.0


def running(world: World, **annotations: str) -> None:
    """The Job a has all cards, for longer than a turn."""
    world.queue("a", 4, annotations=annotations)
    for _ in range(40):
        world.turn(STEP_S)


def stopped(world: World) -> Job:
    """The Job a was stopped for the Job b, which has not had any card yet."""
    running(world)
    world.queue("b", 4)
    world.settle(6)
    assert (world.job("a").suspend, world.job("b").suspend) == (True, False)
    return world.job("a")


def actions(world: World, name: str) -> list[Action]:
    return [write.action for write in world.engine.sent if write.key[1] == name]


def test_a_stop_keeps_its_past_without_a_further_write() -> None:
    world = World(rules=RULES)
    job = stopped(world)
    assert actions(world, "a") == [Action.START, Action.RECORD, Action.STOP]
    assert actions(world, "b") == [Action.START]
    assert Resize.decode(job.kept) == world.record("a").past
    assert world.record("a").attained > 0


def test_a_removed_record_is_written_again_and_the_job_is_planned_as_before() -> None:
    world = World(rules=RULES)
    job, record = stopped(world), world.record("a")
    state = world.engine.rounds.last.states["default", "a"]
    world.api.put(without_record(job))
    world.turn()
    assert world.record("a") == record
    after = world.engine.rounds.last.states["default", "a"]
    assert (after.phase, after.since, after.attained) == (JobPhase.STOPPED, state.since, state.attained)
    written = len(world.api.patches)
    world.settle(30)
    assert len(world.api.patches) == written, "it is written once"


def test_an_engine_that_has_not_seen_the_record_takes_it_from_the_status() -> None:
    world = World(rules=RULES)
    job, record = stopped(world), world.record("a")
    world.api.engines = []
    world.api.put(without_record(job))
    world.restart()
    world.turn()
    assert world.record("a") == record.past
    state = world.engine.rounds.last.states["default", "a"]
    assert (state.phase, state.since, state.attained) == (JobPhase.STOPPED, record.asked, record.attained)


def test_who_stops_his_job_himself_has_had_what_it_ran_and_was_stopped_then() -> None:
    world = World(rules=RULES)
    running(world)
    began, by_hand = world.record("a").asked, world.now
    # Another one has the cards then, so that it stays stopped.
    world.api.put(replace(world.job("a"), suspend=True))
    world.queue("b", 4)
    world.settle(20)
    assert world.job("a").suspend
    state = world.engine.rounds.last.states["default", "a"]
    assert state.phase is JobPhase.STOPPED
    assert by_hand <= state.since <= by_hand + 12
    assert state.attained == pytest.approx(4 * (by_hand - began), abs=4 * 12)


def test_who_ends_each_request_begins_no_new_turn() -> None:
    """A record that was not carried out says nothing of since when the Job runs."""
    world = World(rules=RULES)
    running(world, **{"vgpu.io/checkpoint-seconds": "600"})
    began = world.engine.rounds.last.states["default", "a"].since
    b = world.queue("b", 4)
    for _ in range(3):
        world.turn()
        world.tell("a", ProgressReport())
    record, job = world.record("a"), world.job("a")
    assert (record.applied, record.before, record.after) == (False, 4, 0)
    del world.api.jobs["default", "b"]
    world.engine.known.gone(b.uid)
    world.api.put(replace(job, annotations={**job.annotations, RESIZE_DROP: str(record.gen)}))
    world.settle(3)
    state = world.engine.rounds.last.states["default", "a"]
    assert (world.record("a").until, state.phase) == (0.0, JobPhase.RUNNING)
    assert state.since == began


def test_jobs_that_only_start_and_end_cost_one_write_each() -> None:
    world = World(rules=RULES)
    for name in "abcd":
        world.queue(name, 1)
    world.settle(30)
    for name in "abcd":
        world.finish(name)
    world.settle(30)
    assert [write.action for write in world.engine.sent] == [Action.START] * 4
    assert {job.kept for job in world.api.jobs.values()} == {""}
