"""The profile of property tests: how busy the machine is decides nothing."""

import ast
import time
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vgpu_runtime.paths import SOURCES

TESTS = SOURCES.parent / "tests"


def slow(value: int) -> int:
    """As on a machine that others use too. Hypothesis' own limits are 1 s for inputs, and 0.2 s for an example."""
    time.sleep(0.3)
    return value


@settings(max_examples=5)
@given(st.integers().map(slow))
def test_slow_input_is_no_failure(value: int) -> None:
    assert isinstance(value, int)
    # Even where there is no deadline, 30 s of it would be one.
    assert HealthCheck.too_slow in settings().suppress_health_check


@settings(max_examples=2)
@given(st.integers())
def test_a_slow_example_is_no_failure(value: int) -> None:
    assert slow(value) == value


def test_no_test_has_limits_of_its_own() -> None:
    """They would replace those of the profile."""
    own = [
        f"{file.relative_to(TESTS)}:{call.lineno}"
        for file in TESTS.rglob("test_*.py")
        for call in _settings(file)
        if {"deadline", "suppress_health_check"} & {keyword.arg for keyword in call.keywords}
    ]
    assert own == []


def _settings(file: Path) -> list[ast.Call]:
    """The calls of Hypothesis' `settings` in a file."""
    text = file.read_text()
    calls = (
        [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        if "hypothesis" in text
        else []
    )
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "settings"]
