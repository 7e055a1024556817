"""Room as a number of equal cards, wherever they are: fast, and without fragmentation."""

from collections.abc import Sequence
from types import TracebackType

from device_plugin.core.jobs.job import JobSpec


class SlotRoom:
    """A room of `slots` cards, of which `held` are taken; jobs ask for whole cards."""

    def __init__(self, slots: int, held: int = 0) -> None:
        self.slots = slots
        self.held = held

    def take(self, job: JobSpec, count: int) -> bool:
        if count > self.free(job):
            return False
        self.held += count * int(job.cards)
        return True

    def give(self, job: JobSpec, count: int) -> None:
        self.held -= count * int(job.cards)

    def free(self, job: JobSpec) -> int:
        return (self.slots - self.held) // int(job.cards)

    def capacity(self, job: JobSpec, /, **_: bool) -> int:
        return self.slots // int(job.cards)

    def may_hold(self, jobs: Sequence[JobSpec], /, **_: bool) -> bool:
        return sum(job.least * job.cards for job in jobs) <= self.slots

    def closed_cards(self, _: Sequence[JobSpec], /) -> str:
        return ""

    def givers(self, _: Sequence[JobSpec], /) -> None:
        return None

    def keep(self, _: Sequence[JobSpec], /) -> bool:
        return False

    def limits(self, _: JobSpec, /) -> str:
        return ""

    def cards(self) -> float:
        return float(self.slots)

    def idle(self) -> float:
        return float(self.slots - self.held)

    def trial(self) -> "SlotTrial":
        return SlotTrial(self)


class SlotTrial:
    """Changes of a SlotRoom that are undone unless they are committed."""

    def __init__(self, room: SlotRoom) -> None:
        self._room = room
        self._before = room.held
        self._committed = False

    def commit(self) -> None:
        """Keep the changes."""
        self._committed = True

    def __enter__(self) -> "SlotTrial":
        self._before = self._room.held
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._committed or error is not None:
            self._room.held = self._before
