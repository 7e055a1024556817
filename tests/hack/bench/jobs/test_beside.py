"""Small jobs beside a large one that has all cards: they run at once, and it costs the large one little."""

import pytest

from device_plugin.core.jobs.rules import Rules
from hack.bench.jobs.beside import beside
from hack.bench.jobs.simulation import DRAIN_S


@pytest.mark.parametrize(
    ("apart", "tick", "delay", "restarts"),
    [(0.0, 5.0, 360.0, 3), (10.0, 5.0, 600.0, 12), (10.0, 60.0, 600.0, 10)],
)
def test_64_one_card_jobs_beside_a_128_card_job_cost_it_few_restarts(
    apart: float, tick: float, delay: float, restarts: int
) -> None:
    """The bare rules restart it 66 to 120 times."""
    found = beside(apart, Rules(), tick)
    # A small job that comes while the large one gives to another waits for the next of its changes.
    assert found.wait <= (DRAIN_S + tick) * (2 if apart else 1)
    assert found.restarts <= restarts
    assert found.back <= Rules().cooldown_s + 2 * tick
    assert found.delay <= delay
