"""Reads the durations in options of commands, such as `--idle 30m`."""

import argparse

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
