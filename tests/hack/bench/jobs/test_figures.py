"""Figures of an outcome that can be counted by hand."""

import pytest

from hack.bench.jobs.figures import COMPARED, Figures, geometric_mean, ratios, worst
from hack.bench.jobs.policies import BASE
from tests.hack.bench.jobs.test_simulation import job, replay

JOBS = [job("a", 0.0, 2, 600.0), job("b", 0.0, 2, 300.0)]


def test_figures_of_two_jobs_one_after_the_other() -> None:
    found = Figures.of(replay(BASE, JOBS, 2))
    assert (found.jct_mean_s, found.jct_p50_s, found.jct_p99_s, found.jct_silent_s) == (
        810.0,
        960.0,
        960.0,
        810.0,
    )
    assert (found.wait_mean_s, found.wait_worst_s, found.stop_longest_s) == (360.0, 660.0, 0.0)
    assert (found.restarts_mean, found.restarts_p99, found.useless_shrinks) == (0.0, 0, 0)
    assert found.allocation == round(900 / 960, 4)


def test_ratios_and_their_geometric_mean() -> None:
    slow, fast = (Figures.of(replay(BASE, JOBS, cards)) for cards in (2, 4))
    one = ratios(fast, slow)
    assert one["jct_mean_s"] == pytest.approx(510 / 810, abs=1e-4)
    assert geometric_mean([one, ratios(slow, slow)]) == pytest.approx(
        {name: one[name] ** 0.5 for name in COMPARED}
    )
    assert worst([slow, fast])["wait_worst_s"] == slow.wait_worst_s
