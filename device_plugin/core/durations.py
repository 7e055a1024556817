"""Durations: the texts that people write (`30m`, `1h30m`, `7d`), and texts for sentences (`1 h 30 min`)."""

import re
from math import ceil

_UNITS = (86400, 3600, 60, 1)
_DURATION = re.compile(r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?")


def duration_seconds(text: str) -> int | None:
    """The seconds of a duration as people write it (`1h30m`), 0 for an empty text; None if the text is no duration."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    return sum(int(number) * unit for number, unit in zip(found.groups("0"), _UNITS, strict=True))


def span(seconds: float) -> str:
    """A duration in words, rounded up, in at most two units: `45 s`, `50 min`, `11 h 40 min`, `2 d 4 h`."""
    if seconds < 60:
        return f"{ceil(seconds)} s"
    minutes = ceil(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        hours, rest = divmod(minutes, 60)
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, hours = divmod(ceil(minutes / 60), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
