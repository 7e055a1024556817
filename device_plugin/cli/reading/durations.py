"""Reads the durations and moments in options of commands, such as `--idle 30m` and `--until 2026-11-23`."""

import argparse
import time
from datetime import datetime

from device_plugin.core.durations import duration_seconds

# Longer times mean nothing here, and their seconds would not fit into dates.
MOST_SECONDS = 366 * 86400


def duration(text: str) -> float:
    """Returns the seconds of an option such as `30m`. Raises argparse.ArgumentTypeError."""
    seconds = duration_seconds(text) or 0
    if not 0 < seconds <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text[:63]!r} is no time: write at most 366 days, such as 30m, 1h30m or 7d"
        )
    return float(seconds)


def past_moment(text: str) -> float:
    """Returns a date or time, such as `2026-11-23` or `2026-11-23T08:00Z`, in seconds since 1970.

    A date is its first moment. Without a time zone the moment is local. Raises argparse.ArgumentTypeError for a moment
    to come.
    """
    try:
        seconds = datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        seconds = -1.0
    if not 0 <= seconds <= time.time():
        raise argparse.ArgumentTypeError(
            f"{text[:63]!r} is no moment before now: write a date or a time, such as 2026-11-23 or 2026-11-23T08:00Z"
        )
    return seconds
