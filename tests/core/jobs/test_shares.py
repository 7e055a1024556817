"""Shares: jobs that may not be stopped hold at most their queue's share while others wait."""

from dataclasses import replace
from typing import Any

import pytest

from device_plugin.core.jobs.engine import BEYOND_SHARE, plan_round
from device_plugin.core.jobs.job import JobState
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.jobs.shares import Shares
from hack.bench.jobs.slots import SlotRoom
from tests.builders.jobs import running, waiting
from tests.core.jobs.rounds import NOW, RULES, planned, widths


def new(name: str, queue: str, width: int = 1, **spec: Any) -> JobState:
    return replace(waiting(name, least=width, most=width, queue=queue, **spec), since=NOW - 60)


def exceeded(job: JobState, *others: JobState, rules: Rules = RULES, slots: int = 8) -> bool:
    held = sum(each.width for each in others)
    return Shares(Draft(NOW, (job, *others), SlotRoom(slots, held), rules.use), rules).exceeded((job,))


HELD = running("held", 4, queue="a")
OTHER = new("other", "b", 2)


def test_a_queue_holds_no_more_than_its_share_for_good_while_another_waits() -> None:
    assert exceeded(new("a", "a"), HELD, OTHER)
    assert not exceeded(new("a", "a"), replace(HELD, width=3, spec=replace(HELD.spec, least=3)), OTHER)
    assert not exceeded(new("a", "a"), HELD), "nobody else waits"


def test_what_may_be_stopped_does_not_count() -> None:
    assert not exceeded(new("a", "a", resumable=True), HELD, OTHER)
    willing = replace(HELD, spec=replace(HELD.spec, resumable=True))
    assert not exceeded(new("a", "a"), willing, OTHER)
    assert not exceeded(new("a", "a"), HELD, OTHER, rules=Rules(resumable=True))


def test_consent_after_more_than_a_turn_is_none() -> None:
    for seconds, counts in ((RULES.quantum_s, False), (RULES.quantum_s + 1, True)):
        later = replace(HELD, spec=replace(HELD.spec, resumable=True, min_runtime=seconds))
        assert exceeded(new("a", "a"), later, OTHER) is counts


def test_of_an_elastic_job_its_least_width_counts() -> None:
    assert not exceeded(new("a", "a"), replace(HELD, spec=replace(HELD.spec, least=2)), OTHER)


def test_the_share_follows_the_weight_and_the_cards_that_may_be_in_use() -> None:
    heavy = {"a": 3.0}
    assert not exceeded(new("a", "a"), HELD, OTHER, rules=Rules(weights=heavy))
    assert exceeded(new("a", "a", 3), HELD, OTHER, rules=Rules(weights=heavy))
    assert exceeded(new("a", "a"), HELD, new("other", "b"), rules=Rules(weights=heavy, use=0.6))


@pytest.mark.parametrize(("priority", "waits"), [(-1, False), (0, True), (1, True)])
def test_others_of_a_lower_priority_do_not_count(priority: int, *, waits: bool) -> None:
    assert exceeded(new("a", "a"), HELD, new("other", "b", 2, priority=priority)) is waits


def test_others_beyond_their_own_share_do_not_count() -> None:
    assert not exceeded(new("a", "a"), HELD, new("other", "b", 5))
    assert not exceeded(new("a", "a"), HELD, OTHER, running("more", 3, queue="b"))


def test_one_job_that_needs_more_than_the_share_may_start_alone() -> None:
    assert not exceeded(new("a", "a", 6), OTHER)
    assert exceeded(new("a", "a", 6), running("held", 1, queue="a"), OTHER)


def test_a_due_job_that_waits_for_that_reason_says_so() -> None:
    """A pod that is no job holds a card, so that the job of the other queue does not fit yet."""
    late = replace(new("late", "a"), since=NOW - 2 * RULES.age_s)
    jobs = [replace(HELD, since=NOW - 60), new("other", "b", 4), late]
    plan = plan_round(NOW, jobs, SlotRoom(8, held=5), RULES)
    assert (plan.steps, plan.unreserved) == ((), {late.spec.key: BEYOND_SHARE})


def test_the_other_queue_starts_and_then_the_share_is_no_reason_to_wait() -> None:
    late = replace(new("late", "a"), since=NOW - 2 * RULES.age_s)
    jobs = [replace(HELD, since=NOW - 60), OTHER, late]
    assert widths(jobs, planned(8, *jobs)) == {"held": 4, "other": 2, "late": 1}
