"""Times in sentences: absolute as services write them, and relative for a person who reads them now.

A sentence of a service is kept in events and logs, and read later, so its times are absolute. A command that prints it
for a person replaces each phrase: `may grow from 2027-01-15T10:00:00Z on` becomes `may grow in 56 min`.
"""

import re
from collections.abc import Callable
from math import nan

from device_plugin.core.durations import span
from device_plugin.core.timestamps import seconds

_PHRASE = re.compile(
    r"(?:\b(at|from|after|by|before|since) )?\b([0-9]{4}(?:-[0-9]{2}){2}T[0-9]{2}(?::[0-9]{2}){2}Z)(?: on\b)?"
)
# By preposition, the phrase for a time that is still to come, and the phrase for a time that has passed. The writer's
# clock may be ahead of the reader's.
_AHEAD = {"by": "within {}", "before": "for {}", "since": "for a moment"}
_PAST = {"since": "for {}", "from": "now", "after": "now", "by": "now", "before": "for a moment"}


def relative(text: str, now: float) -> str:
    """The sentence with its absolute times replaced by times relative to `now`, such as `in 56 min`."""
    return _PHRASE.sub(_replacing(now), text)


def _replacing(now: float) -> Callable[[re.Match[str]], str]:
    def replaced(found: re.Match[str]) -> str:
        left = seconds(found[2], nan) - now
        if left >= 0:
            return _AHEAD.get(found[1], "in {}").format(span(left))
        # True for a time before now, and false for a text such as the 31st of February.
        return _PAST.get(found[1], "{} ago").format(span(-left)) if left < 0 else found[0]

    return replaced
