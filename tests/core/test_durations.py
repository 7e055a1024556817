"""Durations as people write them."""

import pytest

from device_plugin.core.durations import duration_seconds, span

HOUR = 3600


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800), ("1h30m", 5400), ("7d", 604800), ("1d1h1m1s", 90061), ("0m", 0), ("", 0),
     ("1.5h", None), ("30", None), ("m", None), ("30m1h", None), (" 1h", None), ("9" * 10 + "d", None)],
)  # fmt: skip
def test_a_duration_has_units_from_the_largest_to_the_smallest(text: str, seconds: int | None) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1, "1 s"), (59.1, "60 s"), (61, "2 min"), (3000, "50 min"), (3600, "1 h"), (42_000, "11 h 40 min"),
        (47.5 * HOUR, "47 h 30 min"), (48 * HOUR, "2 d"), (50.1 * HOUR, "2 d 3 h"),
    ],
)  # fmt: skip
def test_times_as_people_say_them(seconds: float, text: str) -> None:
    assert span(seconds) == text
