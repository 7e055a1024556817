"""Jobs as the job engine sees them: phase, width, times, and the replicas that hold cards."""

from dataclasses import replace
from math import log2

import pytest
from msgspec import structs

from device_plugin.core.contract.annotations import GRANT, RESIZE
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.jobs.job import EXPONENT, JobPhase, JobState
from device_plugin.core.jobs.progress import Progress, ProgressReport
from device_plugin.core.pods import Pod
from device_plugin.jobs.plan.states import round_input
from tests.builders.batch_jobs import replica, resize
from tests.jobs.world import CARD_MIB, CORES, ONE_CARD, World

NOW = 1_800_000_000.0
B = ("default", "b")


@pytest.fixture
def world() -> World:
    return World()


def record(before: int, after: int, **more: object) -> str:
    made = resize(before, after, asked=NOW - 10, until=NOW + 90, **more)
    return made.encode()


def hold(world: World, name: str, count: int) -> None:
    """So many pods of a Job hold a card each."""
    job = world.job(name)
    taken = len(world.api.pods)
    for index in range(count):
        pod = replica(job, index, containers=ONE_CARD)
        text = Grant(pod.uid, "n1", {"main": (Slice(f"n1-{taken + index}", CARD_MIB, CORES),)}).encode()
        world.api.put_pod(structs.replace(pod, annotations={GRANT: text}))


def states(world: World) -> dict[str, JobState]:
    fork = world.engine.rounds._fork
    return {state.spec.key[1]: state for state in round_input(NOW, world.engine.known.managed(), fork).states}


def free(world: World) -> int:
    """The cards that the plan may use."""
    fork = world.engine.rounds._fork
    made = round_input(NOW, world.engine.known.managed(), fork)
    return made.room.free(world.engine.known.managed()["default", "a"].spec)


def running(world: World, name: str, width: int, pods: int, **more: object) -> None:
    world.queue(name, width, 1, 4, suspend=False, active=pods, started="2027-01-15T07:50:00Z")
    if more:
        world.api.put(replace(world.job(name), **more))  # type: ignore[arg-type]
    hold(world, name, pods)


def annotated(world: World, name: str, text: str) -> None:
    job = world.job(name)
    world.api.put(replace(job, annotations={**job.annotations, RESIZE: text}))


def test_a_job_that_never_ran_waits_since_it_was_made(world: World) -> None:
    world.queue("a", 2)
    state = states(world)["a"]
    assert (state.phase, state.width, state.since) == (JobPhase.WAITING, 0, NOW - 3600)
    assert free(world) == 4


def test_a_job_runs_once_all_of_its_pods_are_bound(world: World) -> None:
    running(world, "a", 3, 2)
    assert (states(world)["a"].phase, states(world)["a"].width) == (JobPhase.STARTING, 3)
    hold(world, "a", 3)
    assert states(world)["a"].phase is JobPhase.RUNNING
    assert states(world)["a"].attained == pytest.approx(3 * 600)


def test_pods_that_wait_for_something_else_keep_no_cards_from_others(world: World) -> None:
    running(world, "a", 3, 2)
    pod = replica(
        world.job("a"), 2, node="", phase="Pending", containers=ONE_CARD, created="2027-01-15T07:59:30Z"
    )
    world.api.put_pod(pod)
    assert free(world) == 1, "it was created half a minute ago"
    world.api.put_pod(structs.replace(pod, created="2027-01-15T07:59:00Z"))
    assert free(world) == 2


def test_service_and_times_go_on_from_the_record(world: World) -> None:
    running(world, "a", 2, 2)
    annotated(world, "a", record(0, 2, applied=True, attained=5000))
    state = states(world)["a"]
    assert (state.attained, state.since, state.resized) == (5000 + 2 * 10, NOW - 10, NOW - 10)


def test_requests_for_a_checkpoint_that_had_no_answer_are_counted(world: World) -> None:
    running(world, "a", 2, 2)
    assert states(world)["a"].unanswered == 0
    annotated(world, "a", record(4, 2, applied=True, unsaved=1))
    assert states(world)["a"].unanswered == 1


def test_what_is_left_of_a_declared_duration_is_counted_at_the_width_that_was_asked_for(world: World) -> None:
    declared = {"vgpu.io/expected-duration": "1h", "vgpu.io/min-replicas": "1", "vgpu.io/max-replicas": "4"}
    world.queue("a", 4, annotations=declared)
    hour = pytest.approx(3600 * 4**EXPONENT)
    assert states(world)["a"].remaining == hour
    world.api.put(replace(world.job("a"), suspend=False, active=2, parallelism=2, completions=2))
    hold(world, "a", 2)
    annotated(world, "a", record(4, 2, applied=True, attained=1800, author_width=4))
    assert states(world)["a"].remaining == pytest.approx((3600 - (1800 + 2 * 10) / 4) * 4**EXPONENT)
    annotated(world, "a", record(4, 2, applied=True, attained=1800))
    assert states(world)["a"].remaining is None, "it is not known what was asked for"


def test_a_stopped_job_is_no_new_one(world: World) -> None:
    world.queue("a", 2)
    annotated(world, "a", record(2, 0, applied=True))
    assert (states(world)["a"].phase, states(world)["a"].since) == (JobPhase.STOPPED, NOW - 10)
    world.api.put(replace(world.job("a"), terminating=1))
    assert states(world)["a"].phase is JobPhase.STOPPING


def test_what_others_free_for_a_job_is_its_own_in_the_plan(world: World) -> None:
    running(world, "a", 4, 4)
    world.queue("b", 2)
    annotated(world, "a", record(4, 2, beneficiary=B, replicas=2))
    found = states(world)
    assert (found["a"].phase, found["a"].width) == (JobPhase.RESIZING, 2)
    assert (found["b"].phase, found["b"].width) == (JobPhase.STARTING, 2)
    assert free(world) == 0


def test_what_others_free_for_a_group_is_its_own_in_the_plan(world: World) -> None:
    running(world, "a", 4, 4)
    labels = {"vgpu.io/queue": "default", "vgpu.io/group": "g"}
    for name, width in (("b", 1), ("c", 2)):
        world.queue(name, width, labels=labels, annotations={"vgpu.io/group-jobs": "2"})
    annotated(world, "a", record(4, 1, beneficiary=B, replicas=3))
    found = states(world)
    assert [(found[name].phase, found[name].width) for name in "bc"] == [
        (JobPhase.STARTING, 1), (JobPhase.STARTING, 2),
    ]  # fmt: skip
    assert free(world) == 0


def test_where_they_free_too_little_the_job_is_planned_anew(world: World) -> None:
    running(world, "a", 4, 4)
    world.queue("b", 3)
    annotated(world, "a", record(4, 2, beneficiary=B, replicas=3))
    assert states(world)["b"].phase is JobPhase.WAITING
    assert free(world) == 2


def test_a_width_that_is_not_the_engines_is_held(world: World) -> None:
    running(world, "a", 2, 2)
    assert states(world)["a"].adjustable
    running(world, "b", 1, 1, owner="JobSet")
    assert states(world)["b"].held
    world.api.put(replace(world.job("a"), completed_indexes="1", succeeded=1))
    assert not states(world)["a"].adjustable
    template = structs.replace(
        world.job("a").template, labels={"vgpu.io/group": "a", "vgpu.io/group-size": "1"}
    )
    world.api.put(replace(world.job("a"), template=template))
    assert states(world)["a"].held, "its pods would wait for the one that has succeeded"
    world.engine.known.keep_width(world.job("a").uid, "no")
    assert (states(world)["a"].spec.least, states(world)["a"].spec.most) == (2, 2)


def test_a_width_that_was_left_out_of_the_list_is_kept_as_others_are(world: World) -> None:
    running(world, "a", 3, 3, annotations={"vgpu.io/widths": "1,2,4"})
    found = states(world)["a"]
    assert (found.phase, found.width, found.spec.least, found.spec.most) == (JobPhase.RUNNING, 3, 1, 4)
    assert found.adjustable
    spared = resize(4, 3, asked=NOW - 10, until=NOW - 5, applied=True, spared_until=NOW + 60).encode()
    annotations = {"vgpu.io/widths": "1,2", RESIZE: spared}
    world.api.put(replace(world.job("a"), annotations=annotations))
    found = states(world)["a"]
    assert (found.spec.least, found.spec.most, found.adjustable) == (3, 3, False)


def test_a_stopped_job_goes_on_with_a_listed_width(world: World) -> None:
    world.queue("a", 3, annotations={"vgpu.io/widths": "1,2,4", RESIZE: record(3, 0, applied=True)})
    found = states(world)["a"]
    assert (found.phase, found.spec.least, found.spec.asked, found.spec.most) == (JobPhase.STOPPED, 1, 4, 4)


def test_ended_jobs_are_none(world: World) -> None:
    running(world, "a", 2, 2)
    world.finish("a")
    assert states(world) == {}


def test_what_a_program_tells_becomes_the_work_left_and_the_speed_at_each_width(world: World) -> None:
    running(world, "a", 2, 2)
    assert (states(world)["a"].remaining, states(world)["a"].exponent) == (None, EXPONENT)

    def tell(begin: int, done: int, rate: int) -> None:
        for at in range(0, 301, 10):
            said = {("default", "a-0-x", "main"): ProgressReport(Progress(done + rate * at, 1_000_000))}
            world.engine.known.receive("n1", said, NOW + begin + at)

    tell(0, 0, 100)
    assert states(world)["a"].remaining == pytest.approx((1_000_000 - 30_000) / 100 * 2**EXPONENT)
    world.api.put(replace(world.job("a"), parallelism=1, completions=1))
    tell(400, 10_000, 70)
    assert states(world)["a"].exponent == EXPONENT, "it has 2 pods still"
    world.api.remove_pod(world.of(world.job("a"))[1])
    tell(800, 10_000, 80)
    assert states(world)["a"].exponent == pytest.approx(log2(100 / 80))
    assert states(world)["a"].remaining == pytest.approx((1_000_000 - 34_000) / 80)


def test_sub_tasks_of_high_indexes_hold_their_cards_while_the_window_is_narrow(world: World) -> None:
    job = world.queue(
        "a", 2, suspend=False, active=2, succeeded=4, completed_indexes="0-3", completions=8,
        annotations={"vgpu.io/split": "ordered"},
    )  # fmt: skip
    for number, index in enumerate((4, 5)):
        pod = replica(job, index, containers=ONE_CARD)
        text = Grant(pod.uid, "n1", {"main": (Slice(f"n1-{number}", CARD_MIB, CORES),)}).encode()
        world.api.put_pod(structs.replace(pod, annotations={GRANT: text}))
    assert free(world) == 2
    assert (states(world)["a"].width, states(world)["a"].spec.most) == (2, 4)


def test_sub_tasks_tell_only_of_themselves(world: World) -> None:
    world.queue("a", 2, suspend=False, active=2, annotations={"vgpu.io/split": "ordered"}, completions=8)
    hold(world, "a", 2)
    for at in range(0, 400, 10):
        world.engine.known.receive(
            "n1", {("default", "a-0-x", "main"): ProgressReport(Progress(at, 1000))}, NOW + at
        )
    assert states(world)["a"].spec.parts == 8
    assert states(world)["a"].remaining is None


def test_of_a_hundred_thousand_pods_without_cards_none_is_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = {"vgpu.io/split": "any"}
    world.queue(
        "frames", 100_000, suspend=False, annotations=split, template=Pod("default", "", ""), active=100_000
    )
    monkeypatch.setattr(world.engine.rounds._fork, "take", lambda *_: pytest.fail("of no use"))
    assert states(world)["frames"].width == 100_000
