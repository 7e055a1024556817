"""The traces made by hand: the same each time, and each job fits its cards."""

import pytest

from device_plugin.core.jobs.rules import HOUR
from hack.bench.jobs.handmade import handmade
from hack.bench.jobs.simulation import spec_of


@pytest.mark.parametrize("name", handmade())
def test_jobs_of_a_case_fit_its_cards_and_have_names_of_their_own(name: str) -> None:
    case = handmade()[name]
    assert case == handmade()[name]
    specs = [spec_of(job, 1, case.cards) for job in case.jobs]
    assert len({spec.key for spec in specs}) == len(specs)
    assert all(1 <= spec.least <= spec.asked <= spec.most <= case.cards for spec in specs)


def test_a_livelock_has_one_job_of_all_cards_and_a_small_one_every_20_minutes() -> None:
    case = handmade()["livelock-3h"]
    big, first, second, *_ = case.jobs
    assert (big.asked, big.rigid) == (8, True)
    assert big.work / big.speed(8) == pytest.approx(3 * HOUR)
    assert second.arrival - first.arrival == HOUR / 3
    assert (first.asked, first.work) == (1, HOUR / 2)


def test_half_of_the_liars_declare_a_tenth_of_their_duration() -> None:
    case = handmade()["liars"]
    told = [round(job.declared / (job.work / job.speed(job.asked)), 6) for job in case.jobs]
    assert case.liars
    assert set(told) == {0.1, 1.0}
    assert 0.4 < told.count(0.1) / len(told) < 0.6
