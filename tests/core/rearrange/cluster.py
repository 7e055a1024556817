"""A ledger, and a planner over it."""

from functools import partial

from device_plugin.core.contract.grants import Grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Holding, Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.placement.workload import TargetWorkload
from device_plugin.core.rearrange import MovePlan, Planner, Ranked
from device_plugin.core.requests import PodRequest, Shape
from tests.builders.cards import inventory


class Cluster:
    def __init__(self) -> None:
        self.ledger = Ledger()
        self.placer = Placer(self.ledger)
        self.planner = Planner(self.ledger, self.placer)
        self.holders: dict[str, Ranked] = {}

    def node(self, name: str, count: int = 2, **shape: int) -> None:
        self.ledger.set_node(name, inventory(name, count, **shape), HostAmounts(64_000, 1 << 20))

    def place(self, request: PodRequest, *nodes: str, priority: int = 0) -> Grant:
        grant = self.placer.place(request, nodes or None)
        assert isinstance(grant, Grant), grant.text
        self.ledger.hold(grant, request.host)
        self.holders[grant.pod] = Ranked(request, priority)
        return grant

    def stranger(self, node: str, host: HostAmounts) -> None:
        """A pod that asks for no slice has these amounts of a host."""
        self.ledger.put(Holding(holder="stranger", node=node, host=host))

    def learn(self, *requests: PodRequest) -> None:
        """Teach the placer a target workload."""
        target = TargetWorkload()
        for request in requests:
            if (shape := Shape.of(request)) is not None:
                target.add(shape)
        self.placer.learn(target.frequent())

    def remainders(self) -> object:
        return {name: self.ledger.node(name) for name in self.ledger.nodes()}

    def cheapest(self, request: PodRequest, ranks: dict[str, int]) -> MovePlan | None:
        """The plan in which the fewest pods of the lowest ranks end, so that the request fits somewhere."""
        cleared = partial(self.planner.cleared, request)
        return self.planner.search(request, self.ledger.nodes(), ranks, cleared)

    def victims(self, request: PodRequest, ranks: dict[str, int]) -> set[str] | None:
        plan = self.cheapest(request, ranks)
        return None if plan is None else {move.source.pod for move in plan.moves}
