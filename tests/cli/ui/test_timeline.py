"""The record of each Job's width over time: every change within a tick, in bounded memory, whatever the order."""

import random
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from device_plugin.cli.ui import timeline as module
from device_plugin.cli.ui.rows import Row
from device_plugin.cli.ui.timeline import KEPT_SECONDS, MOST_CHANGES, Timeline
from device_plugin.core.batch import Job, JobCondition
from tests.builders import batch_jobs
from tests.builders.batch_jobs import ended, job, waiting

START = 1_800_000_000.0


def written(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Page:
    """A timeline in virtual time, and the rows that a page got from it."""

    def __init__(self) -> None:
        self.now = START
        self.timeline = Timeline(lambda: self.now)
        self.rows: dict[str, Row] = {}

    def tick(self, seconds: float = 1.0) -> dict[str, Row]:
        self.now += seconds
        for uid, row in self.timeline.changes().items():
            if row is None:
                self.rows.pop(uid)
            else:
                self.rows[uid] = row
        return self.rows


def stays(row: Row) -> list[tuple[float, int, str]]:
    """The stays of a row, with their times counted from START."""
    return [(round(at - START, 1), width, phase) for at, width, phase in row["stays"]]


def width_at(row: Row, at: float) -> int:
    if row["ended"] is not None and at >= row["ended"]:
        return 0
    times = [stay[0] for stay in row["stays"]]
    return int(row["stays"][max(0, bisect_right(times, at) - 1)][1])


def test_a_job_that_grows_shrinks_stops_and_ends() -> None:
    page = Page()
    page.timeline.see(waiting("a", 4, created=written(START - 60)))
    page.tick()
    for width in (2, 4, 1):
        page.timeline.see(job("a", width))
        page.tick()
    page.timeline.see(waiting("a", 4, active=1))
    page.tick()
    page.timeline.see(waiting("a", 4))
    page.tick()
    page.timeline.see(job("a", 4))
    page.tick()
    assert stays(page.rows["uid-a"]) == [
        (-60, 0, "waiting"), (1, 2, "running"), (2, 4, "running"), (3, 1, "running"), (4, 1, "stopping"),
        (5, 0, "stopped"), (6, 4, "running"),
    ]  # fmt: skip
    page.timeline.see(ended(job("a", 4)))
    page.tick()
    assert (page.rows["uid-a"]["ended"], page.rows["uid-a"]["outcome"]) == (START + 7, "complete")
    page.timeline.forget(ended(job("a", 4)))
    assert page.tick()["uid-a"]["outcome"] == "complete", "a Job that is removed after its end stays"


def test_a_job_that_comes_back_to_a_queue_is_live_again() -> None:
    page = Page()
    page.timeline.see(job("a", 4))
    page.tick()
    page.timeline.forget(job("a", 4))
    assert page.tick()["uid-a"]["outcome"] == "gone"
    page.timeline.see(job("a", 9))
    row = page.tick(5)["uid-a"]
    assert (row["ended"], row["outcome"]) == (None, "")
    assert stays(row)[-1] == (2, 9, "running")


@pytest.mark.parametrize("steps", [3000])
def test_every_change_of_width_is_shown_within_one_tick(steps: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    page = Page()
    live: dict[str, Job] = {}
    changes = Counter[str]()
    # By uid, the width just before each tick.
    truth: dict[str, list[tuple[float, int]]] = {}
    for step in range(steps):
        for _ in range(rng.choice((0, 1, 1, 3))):
            changes[change(rng, page.timeline, live, step)] += 1
        page.tick()
        gone = page.rows.keys() - live.keys()
        assert live.keys() <= page.rows.keys()
        assert all(page.rows[uid]["ended"] is not None for uid in gone)
        for uid, each in live.items():
            assert width_at(page.rows[uid], page.now) == each.active, (step, uid)
            truth.setdefault(uid, []).append((page.now - 0.5, each.active))
    for uid, seen in truth.items():
        row = page.rows[uid]
        assert len(row["stays"]) <= MOST_CHANGES
        if changes[uid] <= MOST_CHANGES:
            wrong = [(at, width, width_at(row, at)) for at, width in seen if width_at(row, at) != width]
            assert wrong == [], (uid, row)


def change(rng: random.Random, timeline: Timeline, live: dict[str, Job], step: int) -> str:
    """Create, resize, stop, end or remove a Job; returns its uid."""
    if not live or (len(live) < 30 and rng.random() < 0.2):
        made = waiting(f"j{step}-{rng.randrange(1000)}", 4)
        live[made.uid] = made
        timeline.see(made)
        return made.uid
    uid = rng.choice(sorted(live))
    what = rng.random()
    if what < 0.03:
        timeline.see(ended(live.pop(uid)))
    elif what < 0.05:
        timeline.forget(live.pop(uid))
    elif what < 0.06:
        del live[uid]
        timeline.sync(list(live.values()))
    else:
        width = rng.randrange(9)
        live[uid] = replace(live[uid], suspend=rng.random() < 0.3, active=width)
        timeline.see(live[uid])
    return uid


def test_a_split_that_changes_often_takes_bounded_memory_and_keeps_its_newest_changes() -> None:
    page = Page()
    for number in range(10_000):
        page.timeline.see(job("a", 4, active=3 + number % 2))
        page.now += 1 if number % 100 else 600
    (row,) = page.tick().values()
    assert len(row["stays"]) <= MOST_CHANGES
    assert [stay[1] for stay in row["stays"][-16:]] == [3, 4] * 8
    assert row["stays"][0][0] == START
    assert [stay[0] for stay in row["stays"]] == sorted(stay[0] for stay in row["stays"])


@pytest.mark.parametrize(
    ("seen", "first"),
    [
        (job("a", 4, started=written(START - 100), created=written(START - 300)), (-100, 4, "running")),
        (job("a", 4), (0, 4, "running")),
        (waiting("a", 4, conditions=(JobCondition("Suspended", since=written(START - 50)),)), (-50, 0, "waiting")),
        (waiting("a", 4, created=written(START + 90)), (0, 0, "waiting")),
    ],
)  # fmt: skip
def test_times_before_the_command_began_are_those_of_the_object(
    seen: Job, first: tuple[float, int, str]
) -> None:
    page = Page()
    page.timeline.sync([seen])
    (row,) = page.tick().values()
    assert (stays(row), row["seen"]) == ([first], START)


def test_a_job_that_ended_stays_for_a_day() -> None:
    page = Page()
    done = JobCondition("Complete", since=written(START - 3600))
    page.timeline.sync(
        [job("a", 4, active=0, started=written(START - 7200), conditions=(done,)), job("b", 1)]
    )
    rows = page.tick()
    assert (stays(rows["uid-a"]), rows["uid-a"]["ended"]) == ([(-7200, 4, "running")], START - 3600)
    page.now = START + KEPT_SECONDS - 3601
    assert "uid-a" in page.tick()
    assert "uid-a" not in page.tick()
    page.timeline.see(job("a", 4, active=0, started=written(START - 7200), conditions=(done,)))
    assert page.tick().keys() == {"uid-b"}, "a later version of it changes nothing"


def test_of_thousands_that_end_the_newest_of_each_namespace_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENDED", 4)
    page = Page()
    many = [job(f"many-{number}", namespace="many") for number in range(20)]
    for each in [*many, job("few", namespace="few")]:
        page.timeline.see(each)
        page.timeline.see(batch_jobs.ended(each))
        page.tick()
    assert set(page.rows) == {"uid-few", "uid-many-17", "uid-many-18", "uid-many-19"}


def test_no_namespace_hides_the_live_jobs_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LIVE", 3)
    page = Page()
    page.timeline.sync([job(f"many-{number}", namespace="many") for number in range(20)])
    assert len(page.tick()) == 3
    page.timeline.see(job("few", namespace="few"))
    assert set(page.tick()) == {"uid-many-0", "uid-many-1", "uid-few"}
    page.timeline.see(job("many-0", 2, namespace="many"))
    assert page.tick()["uid-many-0"]["stays"][-1][1] == 2


def test_what_may_not_be_read_any_more_is_forgotten_and_what_did_not_change_is_not_sent() -> None:
    page = Page()
    page.timeline.sync([job("a"), job("b")])
    page.tick()
    assert page.timeline.changes() == {}
    page.timeline.see(job("a", labels={"vgpu.io/queue": "other"}))
    changed: dict[str, Any] = dict(page.timeline.changes())
    assert [(uid, row["queue"]) for uid, row in changed.items()] == [("uid-a", "other")]
    page.timeline.clear()
    assert page.timeline.changes() == {"uid-a": None, "uid-b": None}
