"""The cluster's PriorityClasses, as Jobs are read with them."""

import pytest

from device_plugin.core.jobs.spec import NamedPriorityClass, PriorityClass
from device_plugin.kube.api import PRIORITY_CLASSES
from device_plugin.state.priorities import DEFAULT, Priorities

HIGH = NamedPriorityClass("high", PriorityClass(1000, preempts=False))
LOW = NamedPriorityClass("low", PriorityClass(-5), default=True)


def test_a_class_is_read_as_the_api_server_has_it() -> None:
    assert PRIORITY_CLASSES.parse is not None
    found = {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}
    assert PRIORITY_CLASSES.parse(found) == HIGH
    found = {"metadata": {"name": "low"}, "value": -5, "globalDefault": True}
    assert PRIORITY_CLASSES.parse(found) == LOW


@pytest.fixture
def changes() -> list[int]:
    return []


def test_the_default_class_is_that_of_jobs_that_name_none(changes: list[int]) -> None:
    known = Priorities(lambda: changes.append(1))
    known.sync([HIGH])
    assert known.by_name == {"high": HIGH.priority}
    known.see(LOW)
    assert known.by_name[DEFAULT] == LOW.priority
    known.see(NamedPriorityClass("lower", PriorityClass(-9), default=True))
    assert known.by_name[DEFAULT] == PriorityClass(-9)
    known.forget(NamedPriorityClass("lower", PriorityClass(-9)))
    assert known.by_name[DEFAULT] == LOW.priority


def test_only_changes_are_told(changes: list[int]) -> None:
    known = Priorities(lambda: changes.append(1))
    known.sync([HIGH, LOW])
    known.sync([HIGH, LOW])
    known.see(HIGH)
    known.forget(NamedPriorityClass("none", PriorityClass(0)))
    assert len(changes) == 1
    known.forget(HIGH)
    assert len(changes) == 2
