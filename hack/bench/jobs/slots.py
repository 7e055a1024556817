"""A room that only counts equal cards, without nodes: it is fast, and has no fragmentation."""

from collections.abc import Collection, Sequence
from types import TracebackType

from device_plugin.core.jobs.job import JobKey, JobSpec
from device_plugin.core.jobs.room import Place, Site


class SlotRoom:
    """A room of `slots` equal cards, of which `held` are taken; jobs ask for whole cards.

    The protocol `Room` describes the methods.
    """

    def __init__(self, slots: int, held: int = 0) -> None:
        self.slots = slots
        self.held = held
        # By job: the number of reserved cards; and how many of them are free, and so closed for other jobs.
        self._reserved: dict[JobKey, int] = {}
        self._closed: dict[JobKey, int] = {}

    def take(self, job: JobSpec, count: int) -> bool:
        if count > self.free(job):
            return False
        self.held += count * int(job.cards)
        return True

    def give(self, job: JobSpec, count: int) -> None:
        self.held -= count * int(job.cards)

    def free(self, job: JobSpec) -> int:
        return int(self.idle()) // int(job.cards)

    def capacity(self, job: JobSpec, /, **_: bool) -> int:
        return self.slots // int(job.cards)

    def may_hold(self, jobs: Sequence[JobSpec], /, **_: bool) -> bool:
        return sum(job.least_cards for job in jobs) <= self.slots

    def closed_cards(self, _: Sequence[JobSpec], /) -> str:
        return ""

    def givers(self, _: Sequence[JobSpec], /) -> None:
        return None

    def places(self, job: JobSpec, count: int) -> Sequence[Place]:
        return [int(job.cards)] * count

    def nodes(self, _: Sequence[Place], /) -> tuple[str, ...]:
        return ()

    def reserve(self, name: JobKey, places: Sequence[Place], /) -> None:
        self._reserved[name] = sum(place for place in places if isinstance(place, int))
        self._close(name)

    def _close(self, name: JobKey) -> None:
        self._closed.pop(name, None)
        self._closed[name] = min(self._reserved[name], int(self.idle()))

    def lift(self, name: JobKey, /) -> None:
        self._reserved.pop(name, None)
        self._closed.pop(name, None)

    def renew(self) -> None:
        for name in self._reserved:
            self._close(name)

    def sites(self, _: Sequence[JobSpec], /) -> None:
        return None

    def vacate(self, site: Site, jobs: Collection[JobKey], /) -> None:
        raise NotImplementedError("cards have no nodes")

    def limits(self, _: JobSpec, /) -> str:
        return ""

    def cards(self) -> float:
        return float(self.slots)

    def idle(self) -> float:
        return float(self.slots - self.held - sum(self._closed.values()))

    def state(self) -> "SlotState":
        """A copy of the room's state (taken cards), which a trial may change."""
        return self.held, dict(self._reserved), dict(self._closed)

    def put_back(self, state: "SlotState") -> None:
        """Restore an earlier state of the room (its taken cards)."""
        self.held, self._reserved, self._closed = state

    def trial(self) -> "SlotTrial":
        return SlotTrial(self)


SlotState = tuple[int, dict[JobKey, int], dict[JobKey, int]]


class SlotTrial:
    """Changes of a SlotRoom that are undone unless they are committed."""

    def __init__(self, room: SlotRoom) -> None:
        self._room = room
        self._before = room.state()
        self._committed = False

    def commit(self) -> None:
        """Keep the changes."""
        self._committed = True

    def __enter__(self) -> "SlotTrial":
        self._before = self._room.state()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._committed or error is not None:
            self._room.put_back(self._before)
