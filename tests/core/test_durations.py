"""Durations as people write them."""

import pytest

from device_plugin.core.durations import duration_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800), ("1h30m", 5400), ("7d", 604800), ("1d1h1m1s", 90061), ("0m", 0), ("", 0),
     ("1.5h", None), ("30", None), ("m", None), ("30m1h", None), (" 1h", None), ("9" * 10 + "d", None)],
)  # fmt: skip
def test_a_duration_has_units_from_the_largest_to_the_smallest(text: str, seconds: int | None) -> None:
    assert duration_seconds(text) == seconds
