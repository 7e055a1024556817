"""The delay that a wide job causes to jobs that come later, and for how long it waits because of it."""

from dataclasses import replace
from typing import Any

import pytest

from device_plugin.core.jobs.delay import AT_ONCE_S, LONGEST_S, UNKNOWN_S, Delays
from device_plugin.core.jobs.job import JobState
from device_plugin.core.jobs.plan import Admit, Draft
from device_plugin.core.jobs.reservation import TOO_WIDE
from device_plugin.core.jobs.rules import HOUR
from hack.bench.jobs.slots import SlotRoom
from tests.builders.jobs import running, stopped, waiting
from tests.core.jobs.rounds import NOW, RULES, planned


def delays(slots: int, *jobs: JobState) -> Delays:
    held = sum(job.width for job in jobs)
    return Delays(Draft(NOW, jobs, SlotRoom(slots, held)), RULES)


def ran(name: str, hours: float, width: int = 1, **spec: Any) -> JobState:
    """A job that has run for some hours at its width."""
    since = NOW - hours * HOUR
    job = running(name, width, since=since, attained=hours * HOUR * width, **spec)
    return replace(job, started=since)


def big(hours: float, width: int = 8, name: str = "big", **spec: Any) -> JobState:
    """A rigid job that has waited for some hours."""
    return replace(waiting(name, least=width, most=width, **spec), since=NOW - hours * HOUR)


STREAM = [ran(f"s{n}", 0.25) for n in range(4)]


def test_a_job_of_all_cards_behind_a_stream_of_small_ones_waits_until_it_may_wait_no_longer() -> None:
    small = replace(waiting("small"), since=NOW)
    plan = planned(8, *STREAM, big(48.0), small)
    assert plan.steps == (Admit(small.spec.key, 1),)
    assert plan.unreserved == {("default", "big"): TOO_WIDE}
    late = planned(8, *STREAM, big(LONGEST_S / HOUR), small)
    assert late.steps == ()
    assert ("default", "big") in late.reserved


def test_the_delay_is_that_of_the_jobs_that_come_until_the_pool_has_caught_up() -> None:
    """Half of 8 cards are used by a job of 2 hours, so 0.5 come in an hour.

    In 4 hours that are 2, and to catch up takes 4 hours more: 2 jobs are delayed by 8 hours.
    """
    assert UNKNOWN_S == 4 * HOUR
    pool = [ran("a", 1.0, 4)]
    assert not delays(8, *pool, big(15.9)).outweighed((big(15.9),))
    assert delays(8, *pool, big(16.0)).outweighed((big(16.0),))
    # It starts in 4 hours: 4 jobs, for 16 hours.
    assert not delays(8, *pool, big(63.9)).outweighed((big(63.9),), 4 * HOUR)
    assert delays(8, *pool, big(64.0)).outweighed((big(64.0),), 4 * HOUR)
    # It is known to run for half an hour: a quarter of a job, for an hour.
    short = replace(big(2.0), remaining=0.5 * HOUR * 8**0.9)
    assert delays(8, *pool, short).outweighed((short,))


def test_a_job_beside_which_others_still_run_causes_none() -> None:
    narrow = big(1.0, 4)
    assert delays(8, *STREAM, narrow).outweighed((narrow,))
    wide = big(1.0, 5)
    assert not delays(8, *STREAM, wide).outweighed((wide,))


def test_nothing_has_run_and_so_nobody_is_known_to_come() -> None:
    assert delays(8, big(1.0)).outweighed((big(1.0),))


def test_a_pool_whose_cards_are_all_closed_causes_none() -> None:
    assert Delays(Draft(NOW, [*STREAM, big(1.0)], SlotRoom(0, 0)), RULES).outweighed((big(1.0),))


def test_a_job_that_was_stopped_is_not_kept_waiting_for_it() -> None:
    back = stopped("back", since=NOW - RULES.stop_s, least=8, most=8)
    assert delays(8, *STREAM, back).outweighed((back,))


def test_wide_jobs_that_are_due_are_counted_together() -> None:
    """Each alone has waited for long enough; one after another they delay four times as much, and waited for twice."""
    pool = ran("a", 1.0, 4)
    first, second = big(20.0, name="first"), big(20.0, name="second")
    assert delays(8, pool, first).outweighed((first,))
    assert not delays(8, pool, first, second).outweighed((first,))
    fresh = replace(second, since=NOW - RULES.age_s + 1)
    assert delays(8, pool, first, fresh).outweighed((first,)), "it is not due"


@pytest.mark.parametrize(
    ("waited", "alone"), [(AT_ONCE_S, False), (AT_ONCE_S - 1, True)], ids=["others wait", "nobody else waits"]
)
def test_a_job_is_alone_while_nobody_else_waits_for_longer_than_a_moment(
    waited: float, *, alone: bool
) -> None:
    other = replace(waiting("other"), since=NOW - waited)
    assert delays(8, *STREAM, big(2.0), other).alone((big(2.0),)) is alone
    back = stopped("back", since=NOW - HOUR, least=8, most=8)
    assert not delays(8, *STREAM, back).alone((back,))
