"""The rules that weights keep, and the words in which a set that breaks one is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.app_types import DEFAULT_WEIGHTS, TYPES, Weights, problem


def test_the_defaults_keep_the_rules() -> None:
    assert set(DEFAULT_WEIGHTS) == set(TYPES)
    assert [problem(name, weights) for name, weights in DEFAULT_WEIGHTS.items()] == [""] * 3


@pytest.mark.parametrize(
    ("app_type", "weights", "rule"),
    [
        ("gpu", (0.6, 0.2, 0.1, 0.2), "a sum of 1"),
        ("gpu", (1.2, 0.1, 0.0, -0.3), "each from 0 to 1"),
        ("gpu", (float("nan"), 0.2, 0.1, 0.1), "each from 0 to 1"),
        ("gpu", (0.5, 0.25, 0.125, 0.125), "gpu > cpu + memory + disk"),
        ("gpu", (0.6, 0.1, 0.1, 0.2), "cpu > memory"),
        ("cpu", (0.1, 0.5, 0.3, 0.1), "gpu = 0"),
        ("cpu", (0.0, 0.4, 0.4, 0.2), "cpu > memory > disk"),
        ("cpu", (0.0, 0.5, 0.25, 0.25), "cpu > memory > disk"),
        ("memory", (0.1, 0.3, 0.5, 0.1), "gpu = 0"),
        ("memory", (0.0, 0.5, 0.4, 0.1), "memory > cpu > disk"),
    ],
)
def test_a_set_that_breaks_a_rule_says_which(
    app_type: str, weights: tuple[float, float, float, float], rule: str
) -> None:
    assert problem(app_type, Weights(*weights)).endswith(f"breaks the rule `{rule}`")


def test_the_text_shows_the_set() -> None:
    assert problem("cpu", Weights(0, 0.4, 0.4, 0.2)).startswith("{gpu: 0, cpu: 0.4, memory: 0.4, disk: 0.2} ")


@given(st.tuples(*[st.integers(0, 100)] * 4), st.sampled_from(TYPES))
def test_what_passes_keeps_every_rule(parts: tuple[int, int, int, int], app_type: str) -> None:
    gpu, cpu, memory, disk = parts
    kept = {
        "gpu": gpu > cpu + memory + disk and cpu > memory,
        "cpu": gpu == 0 and cpu > memory > disk,
        "memory": gpu == 0 and memory > cpu > disk,
    }[app_type] and sum(parts) == 100
    assert (problem(app_type, Weights(*(part / 100 for part in parts))) == "") is kept
