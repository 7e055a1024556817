"""Openings: plan moves that make room for waiting pods, most cards placed per moved pod first."""

import heapq
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from device_plugin.core.rearrange.plan import Plan, Ranked
from device_plugin.core.rearrange.planner import Option, Planner, size
from device_plugin.core.requests import PodRequest


@dataclass(frozen=True, slots=True)
class _Opening:
    """A way to make room for pods of one shape on a node, as of one version of the node."""

    shape: Ranked
    option: Option
    version: int


class Openings:
    """Plans the best opening first. Openings on a node that a step changed are computed again when they come up."""

    def __init__(self, planner: Planner, waiting: Sequence[Ranked], holders: Mapping[str, Ranked]) -> None:
        self._planner = planner
        self._waiting: dict[Ranked, deque[PodRequest]] = defaultdict(deque)
        for each in waiting:
            self._waiting[_shape(each)].append(each.request)
        self._holders = holders
        self._ranks = {
            priority: self._movable(holders, priority)
            for priority in {shape.priority for shape in self._waiting}
        }
        self._versions: dict[str, int] = defaultdict(int)
        # Ordered by most cards per move, then by the smallest pods to move, then by age.
        self._heap: list[tuple[float, int, int, _Opening]] = []
        self._numbers = count()

    def steps(self, most: int) -> Iterator[Plan]:
        """Yield steps until `most` pods have moved; the caller has opened a transaction."""
        for shape in self._waiting:
            for node in self._planner.nodes():
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

    def _taken(self, opening: _Opening) -> Plan | None:
        request = self._waiting[opening.shape][0]
        with self._planner.ledger.transaction() as change:
            step = self._planner.apply(request, opening.option, self._holders)
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

    def _movable(self, holders: Mapping[str, Ranked], priority: int) -> dict[str, int]:
        """The ranks of the pods up to `priority` that fit somewhere else; smaller pods have lower ranks."""
        fits: dict[Ranked, bool] = {}
        ranks = {}
        for pod, holder in holders.items():
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
