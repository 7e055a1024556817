"""Idle limits as people write them, and for how long a pod with several slices has been idle."""

import pytest

from device_plugin.core.idle import (
    MOST_LIMIT_SECONDS,
    NOTICE_SECONDS,
    idle_limit,
    idle_together,
    notice_seconds,
)

DAYS = MOST_LIMIT_SECONDS // 86400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200), ("90m", 5400), ("1d12h", 129_600), ("60s", 60), (f"{DAYS}d", MOST_LIMIT_SECONDS),
        ("", None), ("59s", None), ("0h", None), (f"{DAYS}d1s", None), ("2", None), ("-2h", None), ("2h ", None),
        ("two hours", None), ("9" * 4300 + "h", None), ("0" * (256 << 10) + "2h", None),
        ("000000002h", 7200), ("999999999d999999999h999999999m999999999s", None),
    ],
)  # fmt: skip
def test_a_limit_is_a_time_within_bounds(text: str, seconds: int | None) -> None:
    assert idle_limit(text) == seconds


@pytest.mark.parametrize(("limit", "notice"), [(7200, NOTICE_SECONDS), (1800, NOTICE_SECONDS), (60, 30)])
def test_the_announcement_comes_15_minutes_before_or_at_half_of_a_short_limit(
    limit: int, notice: float
) -> None:
    assert notice_seconds(limit) == notice


@pytest.mark.parametrize(
    ("slices", "together"),
    [([5.0, 3.0, 9.0], 3.0), ([5.0], 5.0), ([0.0, 7.0], 0.0), ([5.0, None], None), ([None], None), ([], None)],
)  # fmt: skip
def test_all_slices_of_a_pod_must_be_idle_and_measured(
    slices: list[float | None], together: float | None
) -> None:
    assert idle_together(slices) == together
