"""Expected work, its levels, and turns."""

from dataclasses import replace

import pytest

from device_plugin.core.jobs.rank import (
    declared_work,
    expected_work,
    level,
    next_level_at,
    turn_end,
)
from device_plugin.core.jobs.rules import HOUR, Rules
from tests.builders.jobs import job_spec, running, stopped

RULES = Rules(unit_s=HOUR, quantum_s=HOUR, turn_share=0.5, turn_s=10 * HOUR)


def test_the_expected_work_is_what_is_known_to_remain() -> None:
    job = replace(stopped("a", attained=50 * HOUR), remaining=60.0)
    assert expected_work(job) == 60.0


def test_where_nothing_is_known_it_is_as_much_as_the_job_has_had() -> None:
    assert expected_work(stopped("a", attained=50 * HOUR)) == 50 * HOUR
    assert expected_work(stopped("pairs", attained=50 * HOUR, cards=2.0)) == 25 * HOUR


def test_a_declared_duration_is_that_of_the_width_asked_for() -> None:
    job = job_spec("a", expected_seconds=HOUR)
    assert declared_work(job, 1, 0.0) == HOUR
    assert declared_work(job, 8, 0.0) == pytest.approx(HOUR * 8**0.9)
    assert declared_work(job, 8, 4 * HOUR) == pytest.approx(HOUR / 2 * 8**0.9)
    assert declared_work(job_spec("b", expected_seconds=HOUR, cards=2.0), 1, HOUR) == HOUR / 2


def test_of_a_job_that_has_had_more_than_it_declared_nothing_is_known() -> None:
    job = job_spec("a", expected_seconds=60.0)
    assert declared_work(job, 2, 119.0) is not None
    assert declared_work(job, 2, 120.0) is None


def test_where_no_duration_or_width_is_known_none_is_declared() -> None:
    assert declared_work(job_spec("a"), 2, 0.0) is None
    assert declared_work(job_spec("a", expected_seconds=60.0), 0, 0.0) is None
    assert declared_work(job_spec("a", expected_seconds=60.0, parts=8, most=8), 2, 0.0) is None
    assert declared_work(job_spec("a", expected_seconds=60.0, cards=0.0), 2, 0.0) is None


@pytest.mark.parametrize(
    ("hours", "found"), [(0, 0), (0.999, 0), (1, 1), (1.999, 1), (2, 2), (4, 3), (7.9, 3), (1024, 11)]
)
def test_a_level_is_twice_as_long_as_the_one_before(hours: float, found: int) -> None:
    assert level(hours * HOUR, RULES) == found


@pytest.mark.parametrize("hours", [0.0, 0.25, 1.0, 3.0, 700.0])
def test_the_next_level_is_reached_when_it_is_said(hours: float) -> None:
    job = running("a", 4, attained=hours * HOUR)
    at = next_level_at(job, 100.0, RULES)
    later = hours * HOUR + 4 * (at - 100.0)
    assert level(later, RULES) == level(hours * HOUR, RULES) + 1
    assert level(later - 1, RULES) == level(hours * HOUR, RULES)


@pytest.mark.parametrize(("attained", "hours"), [(0, 1), (8, 1), (40, 5), (4000, 10)])
def test_a_turn_is_half_as_long_as_the_job_has_run_within_bounds(attained: float, hours: float) -> None:
    job = running("a", 4, attained=attained * HOUR, since=500.0)
    assert turn_end(job, RULES) == 500.0 + hours * HOUR
