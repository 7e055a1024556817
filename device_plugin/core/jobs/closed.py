"""Jobs that wait for closed cards: they fit all cards of their pool (part of the cards), but not the open cards.

A card is closed while it gets no new slices but may later, for example because it is cordoned (module `empty_pool`).
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from device_plugin.core.jobs.job import JobKey, JobSpec, JobState
from device_plugin.core.jobs.room import Room

# Most jobs or groups whose closed cards are searched in one round: each takes up to a millisecond.
MOST_LOOKED_UP = 64


def waiting_for_closed(jobs: Iterable[JobState], room: Room) -> Mapping[JobKey, str]:
    """A text for each waiting job that is too large for the open cards, alone or together with its group.

    The text says how many replicas fit, and which closed cards the job waits for. At most MOST_LOOKED_UP jobs or groups
    get a text, and only if there are closed cards that they could use.
    """
    units: dict[object, list[JobSpec]] = {}
    for job in jobs:
        spec = job.spec
        if job.queued and spec.cards:
            units.setdefault(spec.group_key or spec.key, []).append(spec)
    found = ((unit, text) for unit in units.values() if (text := _too_few(unit, room)))
    return {
        job.key: f"{text}: {cards}"
        for unit, text in islice(found, MOST_LOOKED_UP)
        if (cards := room.closed_cards(unit))
        for job in unit
    }


def _too_few(unit: list[JobSpec], room: Room) -> str:
    """The reason why the open cards cannot hold jobs that start together, as text; empty if they may hold the jobs."""
    for job in unit:
        if (most := room.capacity(job)) < job.least:
            fits = f"{most} fit{'s' if most == 1 else ''}" if most else "none fits"
            return f"needs {job.least} replicas, and {fits} on the cards that are open"
    if len(unit) > 1 and not room.may_hold(unit):
        return f"the Jobs of group {unit[0].group} need more cards together than are open"
    return ""
