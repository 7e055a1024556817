"""Durations as people write them: `30m`, `1h30m`, `7d`."""

import re

_UNITS = (86400, 3600, 60, 1)
_DURATION = re.compile(r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?")


def duration_seconds(text: str) -> int | None:
    """Returns the seconds of a duration, 0 for an empty text; None if the text is no duration."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    return sum(int(number) * unit for number, unit in zip(found.groups("0"), _UNITS, strict=True))
