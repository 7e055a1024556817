"""Defragmentation: plans moves of a few pods so that waiting pods fit, and less free space is fragmented.

An opening makes room for a waiting pod on a node. An improvement moves one pod to a node where it costs less expected
fill (how much of the free part of cards later pods can use).
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from device_plugin.core.rearrange.planner import Move, MovePlan, Option, Planner, Ranked, size
from device_plugin.core.requests import PodRequest

# The least expected fill that an improvement must save, in thousandths of a card.
LEAST_GAIN = 100.0

Holders = Mapping[str, Ranked]
"""Pods by UID."""


def defragment(
    planner: Planner, waiting: Sequence[Ranked], holders: Holders, most: int
) -> tuple[MovePlan, ...]:
    """The steps of a defragmentation, in order; together they move at most `most` of the pods in `holders`.

    1. Openings make room for the waiting pods.
    2. Improvements move single pods to better nodes.
    3. Openings that the improvements made possible.

    No pod moves twice. A step without moves places a waiting pod that fits after the earlier steps.
    """
    unplaced = {each.request.pod: each for each in waiting}
    movable = dict(holders)
    steps: list[MovePlan] = []
    with planner.ledger.transaction():
        for plans in (_openings, _improvements, _openings):
            # Computing a step applies it to the ledger.
            found = list(plans(planner, unplaced, movable, most))
            steps += found
            for step in found:
                most -= len(step.moves)
                for move in step.moves:
                    del movable[move.source.pod]
                for grant in step.places:
                    del unplaced[grant.pod]
    return tuple(steps)


def _openings(planner: Planner, waiting: Holders, holders: Holders, most: int) -> Iterator[MovePlan]:
    """Yield steps that make room for waiting pods, until `most` pods have moved."""
    return _Openings(planner, waiting.values(), holders).steps(most)


@dataclass(frozen=True, slots=True)
class _Opening:
    """A way to make room for pods of one shape (kind of request) on a node, until the node changes."""

    shape: Ranked
    option: Option
    version: int


class _Openings:
    """Plans openings (room for waiting pods); the opening that places the most cards for each moved pod comes first.

    If a step changed a node, an opening there is computed again when its turn comes.
    """

    def __init__(self, planner: Planner, waiting: Iterable[Ranked], holders: Holders) -> None:
        self._planner = planner
        self._waiting: dict[Ranked, deque[PodRequest]] = defaultdict(deque)
        for each in waiting:
            self._waiting[_shape(each)].append(each.request)
        self._holders = holders
        self._ranks = {
            priority: self._movable(priority) for priority in {shape.priority for shape in self._waiting}
        }
        self._versions: dict[str, int] = defaultdict(int)
        # Ordered by most cards per move, then by the smallest pods to move, then by age.
        self._heap: list[tuple[float, int, int, _Opening]] = []
        self._numbers = count()

    def steps(self, most: int) -> Iterator[MovePlan]:
        """Yield steps until `most` pods have moved; the caller has opened a transaction."""
        for shape in self._waiting:
            for node in self._planner.ledger.nodes():
                self._push(shape, node)
        while self._heap:
            opening = heapq.heappop(self._heap)[-1]
            node = opening.option.node
            if not self._waiting[opening.shape] or len(opening.option.leaving) > most:
                continue
            if opening.version != self._versions[node]:
                self._push(opening.shape, node)
            elif (step := self._taken(opening)) is not None:
                most -= len(step.moves)
                yield step

    def _taken(self, opening: _Opening) -> MovePlan | None:
        request = self._waiting[opening.shape][0]
        with self._planner.ledger.transaction() as change:
            step = self._planner.apply(request, self._holders, opening.option)
            if step is None:
                return None
            change.commit()
        self._waiting[opening.shape].popleft()
        for move in step.moves:
            for ranks in self._ranks.values():
                ranks.pop(move.source.pod, None)
        for node in {opening.option.node, *(move.target.node for move in step.moves if move.target)}:
            self._versions[node] += 1
        for shape, left in self._waiting.items():
            if left:
                self._push(shape, opening.option.node)
        return step

    def _push(self, shape: Ranked, node: str) -> None:
        ranks = self._ranks[shape.priority]
        option = self._planner.option(node, shape.request, ranks)
        if option is None:
            return
        cards = self._planner.cards(shape.request, node)
        value = cards / len(option.leaving) if option.leaving else float("inf")
        opening = _Opening(shape, option, self._versions[node])
        weight = sum(ranks[pod] for pod in option.leaving)
        heapq.heappush(self._heap, (-value, weight, next(self._numbers), opening))

    def _movable(self, priority: int) -> dict[str, int]:
        """The ranks of the pods that would fit somewhere else, and whose priority is at most `priority`.

        Pods with lower ranks move first: the smaller pods.
        """
        fits: dict[Ranked, bool] = {}
        ranks = {}
        for pod, holder in self._holders.items():
            if holder.priority > priority:
                continue
            shape = _shape(replace(holder, priority=0))
            if shape not in fits:
                fits[shape] = self._planner.placer.find(holder.request) is not None
            if fits[shape]:
                ranks[pod] = size(holder.request)
        return ranks


def _shape(ranked: Ranked) -> Ranked:
    return replace(ranked, request=replace(ranked.request, pod=""))


def _improvements(planner: Planner, _waiting: Holders, holders: Holders, most: int) -> Iterator[MovePlan]:
    """Yield moves of single pods that save expected fill (room for later pods), the best first, at most `most`.

    Each pod moves to the node that its own placement policy chooses. The caller has opened a transaction.
    """
    if most <= 0:
        return
    heap = [
        (-gain, pod) for pod, holder in holders.items()
        if (gain := _gain(planner, holder.request)) >= LEAST_GAIN
    ]  # fmt: skip
    heapq.heapify(heap)
    while heap and most:
        pod = heapq.heappop(heap)[1]
        gain = _gain(planner, holders[pod].request)
        if gain >= LEAST_GAIN and heap and gain < -heap[0][0]:
            heapq.heappush(heap, (-gain, pod))
        elif gain >= LEAST_GAIN and (move := _improved(planner, holders[pod].request)) is not None:
            most -= 1
            yield MovePlan((move,))


def _gain(planner: Planner, request: PodRequest) -> float:
    """The expected fill (room for later pods) that moving the pod of `request` would save, in thousandths of a card.

    It is 0 if the pod would stay on its node, or fits nowhere.
    """
    with planner.ledger.transaction():
        move = _improved(planner, request)
        if move is None or move.target is None or move.target.node == move.source.node:
            return 0.0
        planner.leave(request.pod)
        return planner.placer.gain(request, move.target.node, move.source.node)


def _improved(planner: Planner, request: PodRequest) -> Move | None:
    """Move the pod of `request` to the node that its policy chooses now; returns the move.

    Returns None if the pod fits nowhere. Its holding (slices) ends all the same, in the caller's transaction.
    """
    source = planner.leave(request.pod)
    target = planner.placer.find(request)
    if target is None:
        return None
    planner.ledger.hold(target, request.host)
    return Move(source, target)
