"""The stage of a change, told from the Job, its pods and its record."""

from dataclasses import replace

import pytest

from device_plugin.core.contract.resize import Resize
from device_plugin.jobs.stages import Stage, stage, stages
from device_plugin.state.managed import Managed
from tests.builders.batch_jobs import ended, job, managed, replica, resize, spec, waiting

NOW, LATE = 1010.0, 2000.0
OTHER = ("default", "b")
SHRINK, SHRUNK = resize(8, 4, beneficiary=OTHER), resize(8, 4, beneficiary=OTHER, applied=True)
STOP, STOPPED = resize(8, 0, beneficiary=OTHER), resize(8, 0, beneficiary=OTHER, applied=True)
GROWTH, GREW = resize(4, 8), resize(4, 8, applied=True)
STARTED = resize(0, 4, applied=True)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (managed(job("a", 8)), Stage.NONE),
        # A shrink
        (managed(job("a", 8), record=SHRINK), Stage.ASKED),
        (managed(job("a", 4, active=8), record=SHRUNK), Stage.LEAVING),
        (managed(job("a", 4, terminating=1), record=SHRUNK), Stage.LEAVING),
        (managed(job("a", 4), pods=5, record=SHRUNK), Stage.LEAVING),
        (managed(job("a", 4), record=SHRUNK), Stage.FREED),
        (managed(job("a", 4), record=replace(SHRUNK, beneficiary=None)), Stage.OVER),
        # A stop
        (managed(job("a", 8), record=STOP), Stage.ASKED),
        (managed(waiting("a", 8), pods=1, record=STOPPED), Stage.LEAVING),
        (managed(waiting("a", 8), record=STOPPED), Stage.FREED),
        # A growth, and a start
        (managed(job("a", 4), record=GROWTH), Stage.ASKED),
        (managed(job("a", 8, active=4), record=GREW), Stage.JOINING),
        (managed(job("a", 8), record=GREW), Stage.OVER),
        (managed(job("a", 4, active=0), record=STARTED), Stage.JOINING),
        (managed(job("a", 4), record=STARTED), Stage.OVER),
        # Somebody else wrote
        (managed(job("a", 6), record=SHRINK), Stage.OVERRULED),
        (managed(job("a", 8), record=SHRUNK), Stage.OVERRULED),
        (managed(waiting("a", 8), record=SHRINK), Stage.OVERRULED),
        (managed(waiting("a", 4), record=SHRUNK), Stage.OVERRULED),
        (managed(job("a", 8), record=STOPPED), Stage.OVERRULED),
        (managed(job("a", 5), record=GROWTH), Stage.OVERRULED),
        (managed(waiting("a", 4), record=STARTED), Stage.OVERRULED),
        # What the Job ends in its middle leaves to the job that waits
        (managed(ended(job("a", 8)), pods=1, record=SHRINK), Stage.LEAVING),
        (managed(ended(job("a", 8)), record=SHRINK), Stage.FREED),
        (managed(ended(job("a", 8)), record=GREW), Stage.OVER),
    ],
)
def test_stages(seen: Managed, expected: Stage) -> None:
    assert stage(seen, NOW) is expected


@pytest.mark.parametrize("record", [SHRINK, SHRUNK, STOP, GROWTH, GREW, STARTED, replace(SHRINK, until=0.0)])
@pytest.mark.parametrize("width", [4, 6, 8])
def test_a_record_whose_time_is_over_binds_nobody(record: Resize, width: int) -> None:
    assert stage(managed(job("a", width), record=record), LATE) is Stage.OVER


def test_pods_that_leave_and_do_not_end_in_time_are_overdue_however_long_they_take() -> None:
    for seen in (
        managed(job("a", 4, active=8), record=SHRUNK),
        managed(waiting("a", 8), pods=1, record=STOPPED),
    ):
        assert stage(seen, LATE) is Stage.OVERDUE


def test_a_window_of_sub_tasks_is_the_width_of_a_split() -> None:
    split = job("a", 4, completions=16, active=2)
    parts = spec(split, parts=16)
    assert stage(replace(managed(split, record=STARTED), spec=parts), NOW) is Stage.JOINING
    done = replace(split, succeeded=2)
    assert stage(replace(managed(done, record=STARTED), spec=parts), NOW) is Stage.OVER
    assert stage(managed(split, record=STARTED), NOW) is Stage.OVERRULED


def test_pods_that_are_not_bound_have_not_joined() -> None:
    made = job("a", 2)
    seen = replace(
        managed(made, record=resize(0, 2, applied=True)), pods=(replica(made, 0), replica(made, 1, node=""))
    )
    assert stage(seen, NOW) is Stage.JOINING


def test_what_was_freed_for_a_job_that_runs_or_is_gone_is_over() -> None:
    a = managed(job("a", 4), record=SHRUNK)
    b = managed(waiting("b", 2))
    assert stages({a.key: a, b.key: b}, NOW)[a.key] is Stage.FREED
    assert stages({a.key: a}, NOW)[a.key] is Stage.OVER
    started = managed(job("b", 2))
    assert stages({a.key: a, b.key: started}, NOW)[a.key] is Stage.OVER
    again = replace(b, record=resize(2, 0, asked=SHRUNK.asked + 1, applied=True))
    assert stages({a.key: a, b.key: again}, NOW)[a.key] is Stage.OVER
