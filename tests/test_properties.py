"""The profile of property tests: how busy the machine is decides nothing."""

import ast
import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from vgpu_runtime.paths import SOURCES

TESTS = SOURCES.parent / "tests"


# As slow as a machine that eight busy processes share: Hypothesis' own limits are 1 s for the first inputs, and 0.2 s
# for an example.
@settings(max_examples=5)
@given(slow=st.builds(time.sleep, st.just(0.3)))
def test_slow_input_is_no_failure(slow: None) -> None:
    time.sleep(0.25)
    assert slow is None


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
