"""Improvements: plan moves of pods to places that save expected fill."""

import heapq
from collections.abc import Iterator, Mapping

from device_plugin.core.rearrange.plan import Move, Plan, Ranked
from device_plugin.core.rearrange.planner import Planner

# The least expected fill that a move must save, in thousandths of a card.
LEAST_GAIN = 100.0


class Improvements:
    """Plans the move that saves most first; each pod goes where its own placement policy puts it."""

    def __init__(self, planner: Planner, holders: Mapping[str, Ranked]) -> None:
        self._planner = planner
        self._holders = holders

    def steps(self, most: int) -> Iterator[Plan]:
        """Yield steps until `most` pods have moved; the caller has opened a transaction."""
        if most <= 0:
            return
        heap = [(-gain, pod) for pod in self._holders if (gain := self._gain(pod)) >= LEAST_GAIN]
        heapq.heapify(heap)
        while heap and most:
            pod = heapq.heappop(heap)[1]
            gain = self._gain(pod)
            if gain >= LEAST_GAIN and heap and gain < -heap[0][0]:
                heapq.heappush(heap, (-gain, pod))
            elif gain >= LEAST_GAIN and (move := self._moved(pod)) is not None:
                most -= 1
                yield Plan((move,))

    def _gain(self, pod: str) -> float:
        with self._planner.ledger.transaction():
            move = self._moved(pod)
            if move is None or move.target is None or move.target.node == move.source.node:
                return 0.0
            self._planner.leave(pod)
            return self._planner.placer.gain(self._holders[pod].request, move.target.node, move.source.node)

    def _moved(self, pod: str) -> Move | None:
        request, source = self._holders[pod].request, self._planner.leave(pod)
        target = self._planner.placer.find(request)
        if target is None:
            return None
        self._planner.ledger.hold(target, request.host)
        return Move(source, target)
