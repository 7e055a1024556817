"""Writes are sent only by the replica that leads, while they hold, and one after the other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from device_plugin.core.contract.annotations import CHECKPOINT
from device_plugin.core.contract.checkpoint import Checkpoint
from device_plugin.jobs.execute.sender import FIRST_CONFLICT, FRESH_SECONDS, Sender
from device_plugin.jobs.execute.writes import Action, Write
from device_plugin.kube.api import Kind, Named, Object
from device_plugin.kube.errors import GoneError, UnknownError
from device_plugin.state.jobs import KnownJobs
from tests.builders.batch_jobs import managed, replica, resize, spec, waiting
from tests.jobs.world import JobApi

NOW = 100.0


class Parts:
    """A sender, with a Lease and a clock to change."""

    def __init__(self) -> None:
        self.api, self.known = JobApi(), KnownJobs(spec)
        self.leads, self.now = True, NOW
        self.sent: list[Write] = []
        self.sender = Sender(self.api, self.known, lambda: self.leads, lambda: self.now, self.sent.append)  # type: ignore[arg-type]

    def start(self, name: str) -> Write:
        """The write that starts a Job."""
        job = self.api.put(waiting(name))
        self.known.see(job)
        return Write(Action.START, managed(job), resize(0, 1, applied=True))


@pytest.fixture
def parts() -> Parts:
    return Parts()


def test_what_was_written_is_known_at_once(parts: Parts) -> None:
    assert parts.sender.send([parts.start("a"), parts.start("b")], NOW)
    assert [each.job.suspend for each in parts.known.managed().values()] == [False, False]
    assert [write.key[1] for write in parts.sent] == ["a", "b"]


def _not_leading(parts: Parts) -> None:
    parts.leads = False


def _late(parts: Parts) -> None:
    parts.now = NOW + FRESH_SECONDS + 0.1


def _late_and_not_leading(parts: Parts) -> None:
    _late(parts)
    _not_leading(parts)


@pytest.mark.parametrize("change", [_not_leading, _late_and_not_leading])
def test_what_is_not_ours_to_do_is_not_sent(parts: Parts, change: Callable[[Parts], None]) -> None:
    write = parts.start("a")
    change(parts)
    assert not parts.sender.send([write], NOW)
    assert parts.api.patches == []


def test_what_is_late_is_sent_as_far_as_it_holds(parts: Parts) -> None:
    writes = [parts.start(name) for name in "abc"]
    asked = list[str]()

    def holds(write: Write) -> bool:
        asked.append(write.key[1])
        return write is not writes[0]

    assert parts.sender.send(writes[:1], NOW, holds)
    assert asked == [], "in time it is sent as it was decided"
    _late(parts)
    stale = writes[1]
    parts.known.see(parts.api.put(replace(stale.managed.job, parallelism=2, completions=2)))
    no, yes = parts.start("d"), parts.start("e")
    assert not parts.sender.send(
        [no, stale, writes[2], yes], NOW, lambda write: write is not no and holds(write)
    )
    assert asked == ["c", "e"], "of a Job that has changed nothing holds"
    assert [name for name, _ in parts.api.patches] == ["a", "c", "e"], (
        "one that does not hold back the others"
    )


def test_after_one_that_was_not_done_the_others_wait(parts: Parts) -> None:
    stale, other = parts.start("a"), parts.start("b")
    parts.api.put(replace(stale.managed.job, parallelism=2, completions=2))
    assert not parts.sender.send([stale, other], NOW)
    assert parts.api.patches == []
    assert parts.sender.certain()
    assert parts.api.reads == 1
    assert not parts.sender.may(stale), "its author may be about to write again"
    parts.now += FIRST_CONFLICT
    assert parts.sender.may(stale)


def test_a_write_that_met_one_on_which_no_plan_depends_is_repeated_after_a_read(parts: Parts) -> None:
    write = parts.start("a")
    parts.api.put(replace(write.managed.job, ready=1))
    assert parts.sender.send([write], NOW)
    assert parts.api.reads == 1
    assert not parts.api.jobs["default", "a"].suspend


@pytest.mark.parametrize("landed", [True, False])
def test_a_write_whose_answer_is_lost_counts_once_the_job_shows_it(parts: Parts, landed: bool) -> None:
    write = parts.start("a")

    def lost(kind: Kind[Any], of: Named, change: Object) -> Any:
        if landed:
            parts.api.land(kind, of, change)
        raise UnknownError("no answer in time")

    parts.api.on_patch = lost
    assert not parts.sender.send([write], NOW)
    assert parts.sent == []
    assert parts.sender.certain()
    assert parts.sent == [write] * landed
    assert parts.sender.certain()
    assert parts.sent == [write] * landed


def test_a_job_that_is_gone_is_forgotten(parts: Parts) -> None:
    write = parts.start("a")
    del parts.api.jobs["default", "a"]
    assert not parts.sender.send([write], NOW)
    assert parts.known.managed() == {}


def test_a_job_whose_name_another_one_has_by_now_is_forgotten(parts: Parts) -> None:
    write = parts.start("a")
    parts.api.put(waiting("a", uid="another"))
    assert not parts.sender.send([write], NOW)
    assert parts.sender.certain()
    assert parts.known.managed() == {}


def test_a_pod_that_is_gone_takes_no_job_with_it(parts: Parts) -> None:
    job = parts.api.put(waiting("a"))
    parts.known.see(job)
    ask = Write(Action.ASK, managed(job, pods=1), resize(4, 2))

    def gone(*_: object) -> None:
        raise GoneError("gone")

    parts.api.on_patch = gone
    assert replica(job, 0).uid == ask.of.uid
    assert not parts.sender.send([ask], NOW)
    assert list(parts.known.managed()) == [("default", "a")]


@pytest.mark.parametrize("known", [True, False])
def test_a_request_for_a_checkpoint_is_known_at_once_if_its_pod_still_is(parts: Parts, known: bool) -> None:
    job = parts.api.put(waiting("a"))
    parts.known.see(job)
    ask = Write(Action.ASK, managed(job, pods=1), resize(4, 2, gen=7))
    pod = replica(job, 0)
    if known:
        parts.known.pods.see(pod)
    asked = Checkpoint(7, 200, 0).encode()
    parts.api.on_patch = lambda *_: structs.replace(pod, annotations={CHECKPOINT: asked})
    assert parts.sender.send([ask], NOW)
    (found,) = parts.known.managed().values()
    assert [each.uid for each in found.pods] == ([pod.uid] if known else [])
    assert (found.checkpoint is not None and found.checkpoint.gen == 7) is known
