"""Defragmentation: plan moves of a few pods so that waiting pods fit, and less free space is fragmented."""

from collections.abc import Iterator, Mapping, Sequence

from device_plugin.core.rearrange.improvements import Improvements
from device_plugin.core.rearrange.openings import Openings
from device_plugin.core.rearrange.plan import Plan, Ranked
from device_plugin.core.rearrange.planner import Planner


def defragment(
    planner: Planner, waiting: Sequence[Ranked], holders: Mapping[str, Ranked], most: int
) -> tuple[Plan, ...]:
    """The steps of a defragmentation, in order; together they move at most `most` of the pods in `holders`.

    First openings for the waiting pods, then improvements, then the openings that the improvements made. No pod moves
    twice. A step without moves places a pod that fits after the steps before it.
    """
    with planner.ledger.transaction():
        work = _Work(planner, waiting, holders, most)
        work.take(work.openings())
        work.take(work.improvements())
        work.take(work.openings())
    return tuple(work.steps)


class _Work:
    """Collects the steps, and keeps the pods and moves that are left."""

    def __init__(
        self, planner: Planner, waiting: Sequence[Ranked], holders: Mapping[str, Ranked], most: int
    ) -> None:
        self.steps: list[Plan] = []
        self._planner = planner
        self._waiting = {each.request.pod: each for each in waiting}
        self._holders = dict(holders)
        self._most = most

    def openings(self) -> Iterator[Plan]:
        """Steps that make room for waiting pods."""
        return Openings(self._planner, list(self._waiting.values()), self._holders).steps(self._most)

    def improvements(self) -> Iterator[Plan]:
        """Steps that move pods to better places, without placing a waiting pod."""
        return Improvements(self._planner, self._holders).steps(self._most)

    def take(self, steps: Iterator[Plan]) -> None:
        """Add `steps`; computing each of them already applies it to the ledger."""
        for step in list(steps):
            self.steps.append(step)
            self._most -= len(step.moves)
            for move in step.moves:
                del self._holders[move.source.pod]
            for grant in step.places:
                del self._waiting[grant.pod]
