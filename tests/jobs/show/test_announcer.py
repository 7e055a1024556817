"""Events on Jobs: one for each thing that is done, few of each Job, and none where nothing changes."""

from dataclasses import replace

import pytest

from device_plugin.core.batch import Job
from device_plugin.core.contract.events import Event
from device_plugin.core.contract.resize import api_time
from device_plugin.core.jobs.rules import Rules
from device_plugin.jobs.execute.writes import Action, Write
from device_plugin.jobs.show.announcer import (
    HOUR,
    MOST_AT_ONCE,
    MOST_IN_HOUR,
    MOST_WAITS,
    Announcer,
    said,
)
from device_plugin.jobs.show.backlog import MOST_WAITING
from device_plugin.kube.api import JOBS
from device_plugin.kube.errors import UnknownError
from tests.builders.batch_jobs import job, managed, resize, spec
from tests.jobs.world import World


class Posted:
    """What an announcer posts about the Jobs of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.events: list[tuple[str, str, str, bool]] = []
        self.away = False
        self.announcer = Announcer(self, world.engine.known, lambda: world.now)  # type: ignore[arg-type]

    def post_event(self, kind: object, of: Job, reason: str, message: str, *, warning: bool = True) -> None:
        assert kind is JOBS
        assert of.uid
        if self.away:
            raise UnknownError("no answer")
        self.events.append((of.name, reason, message, warning))

    def turn(self, seconds: float = 6.0) -> None:
        sent = self.world.engine.sent
        before = len(sent)
        self.world.turn(seconds)
        for write in sent[before:]:
            self.announcer.wrote(write)
        self.announcer.planned([self.world.engine.rounds], dispatches=True)
        self.announcer.step()

    def settle(self, turns: int = 12) -> list[tuple[str, str, str]]:
        """What is posted in so many turns."""
        self.events.clear()
        for _ in range(turns):
            self.turn()
        return [event[:3] for event in self.events]


@pytest.fixture
def world() -> World:
    return World(rules=Rules(cooldown_s=60.0, young_s=0.0))


@pytest.fixture
def posted(world: World) -> Posted:
    return Posted(world)


def test_admission_shrink_and_growth_are_an_event_each(world: World, posted: Posted) -> None:
    world.queue("a", 4, 2)
    assert posted.settle() == [("a", "JobAdmitted", "starts with 4 pods")]
    world.queue("b", 1)
    assert posted.settle(4) == [
        ("a", "JobShrunk", "goes from 4 to 3 pods for job default/b"),
        ("b", "JobAdmitted", "starts with 1 pod"),
    ]
    world.finish("b")
    assert posted.settle(15) == [("a", "JobGrown", "goes from 3 to 4 pods")]
    assert posted.settle(60) == []
    assert not any(warning for *_, warning in posted.events)


def test_a_job_that_is_stopped_for_another_one_is_told_for_which() -> None:
    write = Write(
        Action.STOP,
        managed(job("a", 4)),
        resize(4, 0, beneficiary=("default", "b"), replicas=1, applied=True),
    )
    (found,) = said(write)
    assert found == (Event.JOB_STOPPED, "stops for job default/b, and goes on when there is room again")


def test_a_job_that_is_stopped_because_its_pods_find_no_room_is_told_so() -> None:
    (found,) = said(Write(Action.STOP, managed(job("a", 4)), resize(4, 0, applied=True)))
    text = "stops, because there is no room for some of its pods, and goes on when there is room again"
    assert found == (Event.JOB_STOPPED, text)


def test_a_job_that_is_stopped_because_it_is_held_is_told_so() -> None:
    (found,) = said(Write(Action.STOP, managed(job("a", 4)), resize(4, 0, applied=True, held_since=1000.0)))
    text = "stops, because it is held (vgpu.io/hold), and waits again once it is released"
    assert found == (Event.JOB_STOPPED, text)


def test_a_program_that_tells_no_progress_is_told_that_its_job_is_not_sized(
    world: World, posted: Posted
) -> None:
    goal = {"samples": "1281167", "epochs": "90", "duration": "8h", "model": "resnet50"}
    world.queue("a", 1, annotations={f"vgpu.io/{key}": text for key, text in goal.items()})
    world.queue("b", 1)
    assert {(name, event) for name, event, _ in posted.settle(2)} == {
        ("a", "JobAdmitted"),
        ("b", "JobAdmitted"),
    }
    ((name, event, text),) = posted.settle(160)
    assert (name, event) == ("a", "JobRefused")
    assert text.startswith(
        "is not sized, because its program has reported no progress in 15 min: let it write its progress"
    )
    assert posted.settle() == []


def test_a_refusal_is_told_once_and_again_when_it_changes(world: World, posted: Posted) -> None:
    world.queue("a", 9)
    ((name, event, text),) = posted.settle()
    assert (name, event) == ("a", "JobRefused")
    assert "ask for fewer" in text
    assert posted.events[0][3], "a warning"
    world.queue("b", 1)
    assert [event for _, event, _ in posted.settle()] == ["JobAdmitted"]
    changed = world.job("a")
    world.api.put(replace(changed, parallelism=8, completions=8))
    assert [event for _, event, _ in posted.settle()] == ["JobRefused"]
    world.api.put(replace(world.job("a"), uid="another"))
    assert [event for _, event, _ in posted.settle()] == ["JobRefused"], "another Job of the name"


def test_a_job_that_waits_is_told_its_place_once_and_not_again_by_another_replica(
    world: World, posted: Posted
) -> None:
    world.queue("a", 4)
    assert posted.settle() == [("a", "JobAdmitted", "starts with 4 pods")]
    now = api_time(world.now)
    world.queue("old", 2)
    world.queue("b", 2, created=now)
    told = (
        "waits for room for 2 pods; it is number 2 of those that wait in queue default; it goes before others of its"
        f" priority from {api_time(world.now + 3600)} on"
    )
    assert posted.settle() == [("b", "JobWaits", told)]
    world.restart()
    world.now += 60
    assert Posted(world).settle() == []


def test_a_job_that_waits_for_a_closed_card_is_told_which(world: World, posted: Posted) -> None:
    world.change_node("n1", cordoned="n1-3")
    world.queue("a", 4, created=api_time(world.now))
    ((_, event, text),) = posted.settle()
    assert event == "JobWaits"
    assert (
        "; needs 4 replicas, and 3 fit on the cards that are open: card n1-3 of node n1 is cordoned; " in text
    )


def test_a_burst_of_jobs_that_wait_leaves_room_for_other_events(world: World, posted: Posted) -> None:
    world.queue("a", 4)
    posted.settle()
    for number in range(MOST_WAITS + 9):
        world.queue(f"b-{number}", 4, created=api_time(world.now))
    told = posted.settle(MOST_WAITS // MOST_AT_ONCE + 2)
    assert [event for _, event, _ in told] == ["JobWaits"] * MOST_WAITS


def test_what_cannot_be_read_is_told_and_what_to_write(world: World, posted: Posted) -> None:
    world.queue("wrong", 4, annotations={"vgpu.io/min-replicas": "8 or so"})
    ((name, event, text),) = posted.settle()
    assert (name, event) == ("wrong", "JobRefused")
    assert "vgpu.io/min-replicas" in text


def test_pods_that_a_quota_refuses_are_told_with_the_quota(world: World, posted: Posted) -> None:
    world.queue("a", 2, 1, 4)
    world.quotas["default"] = 3
    for _ in range(10):
        posted.turn(1.0)
    assert [event[:2] for event in posted.events] == [("a", "JobAdmitted"), ("a", "PodsRefused")]
    text = posted.events[1][2]
    assert (
        "exceeded quota: team, limited: pods=3; it goes on with 3 of 4 pods, and asks for more after 2027-"
        in text
    )
    rigid = Write(Action.STOP, managed(job("a", 4)), resize(4, 0, refusals=1, refusal="no", applied=True))
    ((event, text),) = said(rigid)
    assert event is Event.PODS_REFUSED
    assert "it stops, and is started again after 1970-01-01T00:17:40Z" in text


def test_a_checkpoint_that_did_not_come_is_told_with_the_time_that_was_given() -> None:
    slow = replace(managed(job("a", 4)), spec=spec(job("a", 4), checkpoint_seconds=120.0))
    asked = resize(4, 2, beneficiary=("default", "b"), replicas=2, unsaved=1)
    done = replace(asked, applied=True, unsaved=2, spared_until=4600.0)
    events = dict(said(Write(Action.WIDTH, replace(slow, record=asked), done, 2)))
    assert events[Event.CHECKPOINT_MISSED] == (
        "its program was asked for a checkpoint and reported none within 120 s: the pods that leave get SIGTERM, and"
        " 30 s to end; it is not made narrower before 1970-01-01T01:16:40Z"
    )
    assert Event.JOB_SHRUNK in events
    saved = replace(asked, applied=True, unsaved=0)
    assert [event for event, _ in said(Write(Action.WIDTH, replace(slow, record=asked), saved, 2))] == [
        Event.JOB_SHRUNK
    ]


@pytest.mark.parametrize("action", [Action.RECORD, Action.ASK, Action.DROP, Action.WINDOW])
def test_what_prepares_a_change_or_ends_one_is_no_event(action: Action) -> None:
    assert not list(said(Write(action, managed(job("a", 4)), resize(4, 2))))


def test_a_job_has_a_bounded_number_of_events_in_an_hour(world: World, posted: Posted) -> None:
    write = Write(Action.START, managed(job("a", 4)), resize(0, 4, applied=True))
    other = Write(Action.START, managed(job("b", 4)), resize(0, 4, applied=True))
    for _ in range(10 * MOST_IN_HOUR):
        posted.announcer.wrote(write)
    posted.announcer.wrote(other)
    for _ in range(10 * MOST_IN_HOUR):
        posted.announcer.step()
    assert [name for name, *_ in posted.events] == ["a"] * MOST_IN_HOUR + ["b"]
    world.now += HOUR
    posted.announcer.wrote(write)
    posted.announcer.step()
    assert len(posted.events) == MOST_IN_HOUR + 2


def test_a_tenant_with_events_beyond_number_keeps_nobody_elses_back(posted: Posted) -> None:
    def start(name: str, namespace: str) -> Write:
        made = managed(job(name, 4, namespace=namespace))
        return Write(Action.START, made, resize(0, 4, applied=True))

    posted.announcer.wrote(start("mine", "team-a"))
    for number in range(2 * MOST_WAITING):
        posted.announcer.wrote(start(f"job{number}", "team-b"))
    posted.announcer.wrote(start("other", "team-a"))
    posted.announcer.step()
    assert [name for name, *_ in posted.events if not name.startswith("job")] == ["mine", "other"]


def test_while_the_api_server_is_away_events_are_left_out(posted: Posted) -> None:
    posted.away = True
    for number in range(2 * MOST_WAITING):
        posted.announcer.wrote(
            Write(Action.START, managed(job(f"job{number}", 4)), resize(0, 4, applied=True))
        )
    posted.announcer.step()
    posted.away = False
    for _ in range(MOST_WAITING):
        posted.announcer.step()
    assert len(posted.events) == MOST_WAITING - MOST_AT_ONCE
    assert posted.events[-1][0] == f"job{2 * MOST_WAITING - 1}", "the newest are kept"
