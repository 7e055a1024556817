"""Small jobs beside a large one that has all cards: they run at once, and it costs the large one little."""

import pytest

from device_plugin.core.jobs.rules import Rules
from hack.bench.jobs.beside import beside
from hack.bench.jobs.simulation import DRAIN_S


@pytest.mark.parametrize(
    ("apart", "delay", "tick"), [(0.0, 360.0, 5.0), (10.0, 600.0, 5.0), (10.0, 600.0, 60.0)]
)
def test_64_one_card_jobs_beside_a_128_card_job_cost_it_few_restarts(
    apart: float, delay: float, tick: float
) -> None:
    """The bare rules restart it 66 to 120 times."""
    found = beside(apart, tick)
    assert found.wait <= DRAIN_S + 2 * tick
    assert found.restarts <= 6
    assert found.back <= Rules().cooldown_s + 2 * tick
    assert found.delay <= delay
