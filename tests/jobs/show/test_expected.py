"""The expected start and end of a Job, as the last round gives them."""

from dataclasses import replace

import pytest

from device_plugin.core.jobs.history import History, MeasuredRate
from device_plugin.core.jobs.job import JobState
from device_plugin.core.jobs.plan import Plan, Reserved
from device_plugin.core.jobs.progress import Progress
from device_plugin.jobs.show.expected import Expected, expected
from tests.builders.jobs import running, waiting

NOW, A = 2000.0, ("default", "a")
KEPT = Plan(reserved={A: Reserved(("n1",), 2300.0)})
WAITS = replace(waiting("a", least=2, most=4), remaining=800.0, exponent=1.0)
RUNS = replace(running("a", 4), remaining=800.0, exponent=1.0)


@pytest.mark.parametrize(
    ("state", "plan", "start", "given", "known"),
    [
        (WAITS, Plan(), None, None, None),
        (WAITS, Plan(), 2100.0, None, Expected(2, 2100.0, 2500.0)),
        (replace(WAITS, remaining=None), Plan(), 2100.0, None, Expected(2, 2100.0)),
        (WAITS, KEPT, None, None, Expected(2, 2300.0, 2700.0, promised=True)),
        (WAITS, Plan(reserved={A: Reserved(("n1",))}), None, None, Expected(2, promised=True)),
        (RUNS, Plan(), None, None, Expected(4, None, 2200.0)),
        (RUNS, Plan(), None, 2050.0, Expected(4, 2050.0, 2250.0, promised=True)),
        (replace(RUNS, remaining=None), Plan(), None, None, None),
        (replace(RUNS, remaining=1e300), Plan(), None, None, None),
    ],
)
def test_what_is_known(
    state: JobState, plan: Plan, start: float | None, given: float | None, known: Expected | None
) -> None:
    assert expected(state, plan, NOW, start=start, given=given) == known


def test_as_json_times_are_whole_seconds() -> None:
    assert Expected(2, 2100.6, promised=True).as_object() == {
        "width": 2, "start": 2100, "end": None, "promised": True,
    }  # fmt: skip


def test_reports_that_are_newer_than_the_round_count() -> None:
    measured = (MeasuredRate(4, 600.0, 600.0),)
    history = History(Progress(600, 1000), 4, NOW + 50, NOW, measured)
    assert expected(RUNS, Plan(), NOW, history=history) == Expected(4, None, NOW + 450)
