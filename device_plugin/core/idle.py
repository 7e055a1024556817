"""Idle slices: when a slice counts as idle, and after which idle time its pod is asked to give the slice back.

The node's agent measures for how long a slice has neither computed nor allocated (node/checks/slice_history.py).
"""

from collections.abc import Iterable

from device_plugin.core.durations import duration_seconds

# The idle time from which the commands, the alert and the boards call a slice idle.
IDLE_SECONDS = 30 * 60.0
# The bounds of a pod's idle limit. The admission policy vgpu-idle-limit has a higher least one, which operators may
# change; shorter limits than this one would cost an event and a write of the inventory each few seconds.
LEAST_LIMIT_SECONDS, MOST_LIMIT_SECONDS = 60, 366 * 86400
# Characters of the longest text that is a time.
LONGEST_LIMIT = 40
# Seconds from the announcement to the eviction.
NOTICE_SECONDS = 15 * 60.0


def idle_limit(text: str) -> int | None:
    """The seconds in a pod's annotation `vgpu.io/idle-limit`; None without a limit, or if it is malformed."""
    seconds = duration_seconds(text) or 0 if len(text) <= LONGEST_LIMIT else 0
    return seconds if LEAST_LIMIT_SECONDS <= seconds <= MOST_LIMIT_SECONDS else None


def notice_seconds(limit: float) -> float:
    """The seconds from the announcement to the eviction of an idle pod.

    They are NOTICE_SECONDS, or half of the pod's idle limit (in seconds) if that limit is below 30 min.
    """
    return min(NOTICE_SECONDS, limit / 2)


def idle_together(slices: Iterable[float | None]) -> float | None:
    """The seconds for which all slices of a pod have been idle; None if the idle time of one slice is not measured."""
    found = [*slices]
    known = [idle for idle in found if idle is not None]
    return min(known) if known and len(known) == len(found) else None
