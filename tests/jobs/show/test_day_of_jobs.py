"""The page's timeline against the engine's own record, over a day of random Jobs in virtual time."""

import random
import statistics
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import pytest

from device_plugin.cli.ui.rows import Row
from device_plugin.cli.ui.timeline import MOST_CHANGES, Timeline
from device_plugin.core.batch import Job
from device_plugin.core.jobs.progress import Progress, ProgressReport
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.pods import Pod
from device_plugin.jobs.execute.writes import Action, Write
from device_plugin.jobs.show.views import views
from tests.jobs.world import World

# It runs the engine thousands of times, whose lines other tests count.
pytestmark = pytest.mark.no_cover
DAY, TICK = 24 * 3600.0, 30.0
# Seconds between two looks at the forecasts.
LOOK = 300.0
# Jobs that come in a second, of 6,000 card-seconds each in the mean: they need three quarters of the cards.
CARDS, COMING = 8, 1 / 1000


class Watch:
    """The watch of the page, beside the one of the engine."""

    def __init__(self, timeline: Timeline) -> None:
        self.known = timeline

    def hear(self, pod: Pod) -> None:
        """The page's timeline needs no pods."""

    def lose(self, pod: Pod) -> None:
        """The page's timeline needs no pods."""


@dataclass
class Work:
    """The program of a Job: a width computes `width` units of work in a second, after its start."""

    total: float
    done: float = 0.0
    started: float | None = None
    ended: float | None = None


class Forecast(NamedTuple):
    """A start or an end that the engine expected, at some time before."""

    name: str
    at: float
    what: str
    when: float


@dataclass
class Day:
    """A cluster of eight cards, its engine, and a page that was open all day."""

    seed: int
    works: dict[str, Work] = field(default_factory=dict)
    forecasts: list[Forecast] = field(default_factory=list)
    rows: dict[str, Row] = field(default_factory=dict)
    # By Job, when the engine wrote which width; a Job's end is no write of the engine.
    written: dict[str, list[tuple[float, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.world = World(CARDS, Rules(young_s=0.0, resumable=True))
        self.timeline = Timeline(lambda: self.world.now)
        self.world.api.engines.append(Watch(self.timeline))  # type: ignore[arg-type]
        self.began = self.world.now

    def run(self) -> None:
        """Let the day pass, and check the page after each tick."""
        sent = self.world.engine.sent
        while self.world.now < self.began + DAY:
            if self.random.random() < COMING * TICK:
                self.create()
            known = len(sent)
            self.world.turn(TICK)
            for write in sent[known:]:
                self.note(write)
            # The Job controller acts on what was written; then the page has its turn.
            self.world.cluster()
            self.compute()
            for uid, row in self.timeline.changes().items():
                assert row is not None, "the page keeps a Job for a day after its end"
                self.rows[uid] = row
            self.check()
            if (self.world.now - self.began) % LOOK < TICK:
                self.forecasts += self.expected()

    def create(self) -> None:
        most = self.random.choice((1, 2, 4, 4, 8))
        least = self.random.choice((0, 1)) if most > 1 else 0
        name = f"j{len(self.works)}"
        self.works[name] = Work(most * self.random.choice((300, 900, 2700)) * self.random.uniform(0.5, 2.0))
        self.world.queue(name, most, least)

    def note(self, write: Write) -> None:
        if write.action in (Action.WIDTH, Action.START, Action.STOP):
            job = self.world.job(write.key[1])
            width = 0 if job.suspend else job.width
            self.written.setdefault(job.uid, []).append((self.world.now, width))

    def compute(self) -> None:
        """The programs work for a tick, say how far they are, and end."""
        for name, work in self.works.items():
            job = self.world.job(name)
            if job.ended or not job.active or job.suspend:
                continue
            if work.started is None:
                work.started = self.world.now
            work.done += job.active * TICK
            if work.done >= work.total:
                work.ended = self.world.now
                self.world.finish(name)
                self.written.setdefault(job.uid, []).append((self.world.now, 0))
            else:
                self.world.tell(name, ProgressReport(Progress(int(work.done), int(work.total)), 1))

    def check(self) -> None:
        """Each Job has on the page the width that it has in the cluster."""
        for job in self.world.api.jobs.values():
            row = self.rows[job.uid]
            assert (row["ended"] is not None) == job.ended, (self.seed, job.name)
            assert width_at(row, self.world.now) == job.active, (self.seed, job.name, self.world.now)

    def expected(self) -> Iterator[Forecast]:
        for view in views(self.world.engine.known, self.world.engine.planners):
            found, at = view.expected, self.world.now
            if found is not None and found.start is not None:
                yield Forecast(view.name, at, "start", found.start)
            elif found is not None and found.end is not None:
                yield Forecast(view.name, at, "end", found.end)

    def errors(self, what: str) -> Sequence[tuple[float, float]]:
        """The errors of the forecasts of what came true in this day, each with the time that it looked ahead."""
        found = []
        for each in self.forecasts:
            work = self.works[each.name]
            came = work.started if what == "start" else work.ended
            if each.what == what and came is not None and came > each.at:
                found.append((each.when - came, came - each.at))
        return found


def width_at(row: Row, at: float) -> int:
    if row["ended"] is not None and at >= row["ended"]:
        return 0
    times = [stay[0] for stay in row["stays"]]
    return int(row["stays"][max(0, bisect_right(times, at) - 1)][1])


def test_the_page_shows_each_width_that_the_engine_wrote_within_one_tick() -> None:
    day = Day(random.randrange(2**32))
    print(f"seed {day.seed}: a day of {CARDS} cards, a tick of {TICK:g} s")
    day.run()
    jobs: dict[str, Job] = {job.uid: job for job in day.world.api.jobs.values()}
    merged = {uid for uid in day.written if len(day.rows[uid]["stays"]) == MOST_CHANGES}
    changes = 0
    for uid, written in day.written.items():
        for (at, width), (later, _) in pairwise([*written, (float("inf"), 0)]):
            if uid not in merged and later > at + TICK:
                changes += 1
                assert width_at(day.rows[uid], at + TICK) == width, (day.seed, jobs[uid].name, at)
    print(f"{len(jobs)} Jobs; {changes} changes of width, each on the page within a tick; {len(merged)} Jobs with more"
          f" changes than the {MOST_CHANGES} that the page keeps")  # fmt: skip
    assert changes > len(jobs)
    for what in ("start", "end"):
        found = day.errors(what)
        assert found, (day.seed, what)
        wrong, ahead = (
            statistics.median(abs(error) for error, _ in found),
            statistics.median(far for _, far in found),
        )
        most = max(abs(error) for error, _ in found)
        print(f"{len(found)} forecasts of a Job's {what}, {ahead / 60:.1f} min ahead in the median: wrong by"
              f" {wrong / 60:.1f} min in the median, by {most / 60:.0f} min at most")  # fmt: skip
        if what == "end":
            assert wrong < ahead, (day.seed, "a forecast of the end is better than none")
