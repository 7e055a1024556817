"""Starts of Jobs by queue, and how long the Jobs had waited."""

from dataclasses import replace

import pytest

from device_plugin.core.contract.metrics import OTHERS
from device_plugin.core.contract.resize import api_time
from device_plugin.jobs.show import queue_waits
from device_plugin.jobs.show.queue_waits import QueueWaits
from device_plugin.state.managed import Managed
from tests.builders.batch_jobs import resize
from tests.jobs.world import World

CREATED = 1_800_000_000.0


def managed(queue: str = "night", **fields: object) -> Managed:
    """A waiting Job of the queue."""
    world = World()
    world.queue("a", 1, labels={"vgpu.io/queue": queue}, created=api_time(CREATED))
    return replace(world.engine.known.managed()["default", "a"], **fields)  # type: ignore[arg-type]


def samples(waits: QueueWaits) -> dict[str, tuple[float, float]]:
    """By queue: starts, and seconds waited."""
    starts, waited = ({labels[0]: value for labels, value in each.samples} for each in waits())
    assert starts.keys() == waited.keys()
    return {queue: (starts[queue], waited[queue]) for queue in starts}


def test_starts_are_counted_with_the_time_since_the_jobs_were_created() -> None:
    now = CREATED
    waits = QueueWaits(lambda: now)
    assert samples(waits) == {}
    for now in (CREATED + 60, CREATED + 600):  # noqa: B007 (the clock reads it)
        waits.started(managed())
    waits.started(managed("day"))
    assert samples(waits) == {"night": (2, 660), "day": (1, 600)}


def test_a_job_that_had_been_stopped_has_waited_since_then() -> None:
    waits = QueueWaits(lambda: CREATED + 7200)
    waits.started(managed(record=resize(before=1, after=0, asked=CREATED + 7000, applied=True)))
    assert samples(waits) == {"night": (1, 200)}


def test_a_job_that_was_only_held_has_waited_since_its_creation() -> None:
    waits = QueueWaits(lambda: CREATED + 7200)
    waits.started(managed(record=resize(before=0, after=0, asked=CREATED + 7000, applied=True)))
    assert samples(waits) == {"night": (1, 7200)}


def test_a_clock_behind_the_api_servers_counts_no_negative_wait() -> None:
    waits = QueueWaits(lambda: CREATED - 5)
    waits.started(managed())
    assert samples(waits) == {"night": (1, 0)}


def test_however_many_queues_tenants_name_few_are_kept_and_no_start_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue_waits, "MOST_QUEUES", 2)
    waits = QueueWaits(lambda: CREATED + 10)
    for queue in ("a", "b", "a", "c", "d"):
        waits.started(managed(queue))
    assert samples(waits) == {"c": (1, 10), "d": (1, 10), OTHERS: (3, 30)}
