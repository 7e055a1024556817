"""Absolute times of sentences become relative to now, each with the words around it."""

import pytest

from device_plugin.core.contract.resize import api_time
from device_plugin.core.moments import relative

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("seconds", "absolute", "shown"),
    [
        (3360, "may grow from {} on", "may grow in 56 min"),
        (-1, "may grow from {} on", "may grow now"),
        (3360, "it is expected to start there at {}", "it is expected to start there in 56 min"),
        (-7200, "it ended at {}", "it ended 2 h ago"),
        (80, "has 2 pods by {}", "has 2 pods within 2 min"),
        (-1, "has 2 pods by {}", "has 2 pods now"),
        (-7260, "running since {}", "running for 2 h 1 min"),
        (2, "running since {}", "running for a moment"),
        (600, "it does not grow before {}, because", "it does not grow for 10 min, because"),
        (600, "it is started again after {}", "it is started again in 10 min"),
        (0, "{}", "in 0 s"),
        (-5, "on {} on", "on 5 s ago"),
    ],
)
def test_a_phrase_with_a_time_becomes_one_that_is_relative(seconds: float, absolute: str, shown: str) -> None:
    assert relative(absolute.format(api_time(NOW + seconds)), NOW) == shown


@pytest.mark.parametrize(
    "text", ["", "at 2027-02-31T10:00:00Z", "at 2027-99-99T99:99:99Z", "at noon", "2027-01-15T10:00:00+01:00"]
)
def test_a_text_that_is_no_time_is_kept(text: str) -> None:
    assert relative(text, NOW) == text


def test_each_time_of_a_sentence_is_replaced() -> None:
    first, second = api_time(NOW - 60), api_time(NOW + 60)
    assert relative(f"since {first}, by {second}", NOW) == "for 1 min, within 1 min"
