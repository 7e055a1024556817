"""Finds jobs that wait for closed cards: all cards of their pool would be enough for them, the open cards are not.

A pool is a part of the cluster's cards. A card is closed while it gets no new slices but may later, for example because
it is cordoned (module `empty_pool`).
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from device_plugin.core.jobs.job import JobKey, JobSpec, JobState
from device_plugin.core.jobs.room import Room

# Most jobs or groups whose closed cards are searched in one round: each takes up to a millisecond.
MOST_LOOKED_UP = 64


def waiting_for_closed(jobs: Iterable[JobState], room: Room) -> Mapping[JobKey, str]:
    """A text for each waiting job that is too large for the open cards, alone or together with its group.

    A card is closed while it gets no new slices, for example because it is cordoned; all other cards are open. The text
    says how many replicas fit, and which closed cards the job waits for. At most MOST_LOOKED_UP jobs or groups get a
    text, and only if there are closed cards that they could use.
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
    """The reason, as text, why the open cards cannot hold jobs that start together; empty if the cards may be enough.

    Open cards are the cards that may get new slices now.
    """
    for job in unit:
        if (most := room.capacity(job)) < job.least:
            fits = f"{most} fit{'s' if most == 1 else ''}" if most else "none fits"
            return f"needs {job.least} replicas, and {fits} on the cards that are open"
    if len(unit) > 1 and not room.may_hold(unit):
        return f"the Jobs of group {unit[0].group} need more cards together than are open"
    return ""
