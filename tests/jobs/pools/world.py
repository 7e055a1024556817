"""Several replicas of the job engine beside several pools of cards, on one clock."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from device_plugin.core.contract.annotations import POOL
from device_plugin.core.jobs.rules import Rules
from device_plugin.jobs.pools.leases import PoolLeases
from device_plugin.kube.api import Ref
from device_plugin.kube.errors import ApiError
from tests.jobs.world import Engine, World

LEASE = Ref("vgpu-jobs", "vgpu-system")


class PoolsWorld(World):
    """Each of `nodes` has as many cards, and the pool that is said of it as its label; two replicas, a and b."""

    def __init__(
        self, nodes: Mapping[str, str], cards: int = 4, rules: Rules | None = None, replicas: str = "ab"
    ) -> None:
        self.names: frozenset[str] = frozenset()
        self.replicas: dict[str, PoolEngine] = {}
        super().__init__(cards, rules, nodes=list(nodes))
        for name, pool in nodes.items():
            self.label(name, pool)
        for name in replicas:
            self.begin(name)

    def label(self, node: str, pool: str, key: str = POOL) -> None:
        """An operator labels a node; with an empty `pool` the label is taken away."""
        labels = {other: text for other, text in (self.nodes[node].labels or {}).items() if other != key}
        self.nodes[node] = replace(self.nodes[node], labels=labels | ({key: pool} if pool else {}))
        for engine in self.replicas.values():
            engine.see_node(self.nodes[node])

    def begin(self, name: str) -> None:
        """A replica starts."""
        self.replicas[name] = PoolEngine(self, name)
        self._are_known()

    def kill(self, name: str) -> None:
        """A replica ends without giving anything up; its pod is gone at once."""
        del self.replicas[name]
        self._are_known()

    def _are_known(self) -> None:
        self.names = frozenset(self.replicas)
        self.api.engines = list(self.replicas.values())

    def turn(self, seconds: float = 1.0) -> None:
        self.cluster()
        for name in sorted(self.replicas):
            self.replicas[name].turn()
        self.now += seconds

    def planners(self) -> Mapping[str, str]:
        """By pool that is planned now: the replica that plans it; one for all has the name `*`."""
        found: dict[str, str] = {}
        for name, engine in self.replicas.items():
            planned = [*engine.leases.planned(), *(["*"] if engine.leases.plans_all() else [])]
            assert not set(planned) & found.keys(), "two planners of one pool"
            found |= dict.fromkeys(planned, name)
        assert "*" not in found or len(found) == 1, "one for all beside one for a pool"
        return found

    def used(self) -> int:
        """Cards that are held."""
        return sum(pod.grant() is not None for pod in self.api.pods.values())

    def unbound(self) -> int:
        """Pods for which there is no card: a Job was started on cards that were not free."""
        return sum(not pod.node for pod in self.api.pods.values())


class PoolEngine(Engine):
    """One replica, with its Leases."""

    def __init__(self, world: PoolsWorld, name: str) -> None:
        self.name = name
        self.pools_world = world
        super().__init__(world)

    def made_leases(self) -> PoolLeases:
        world = self.pools_world
        return PoolLeases(
            world.api, LEASE, self.name, lambda: world.now, lambda: str(world.now), lambda: world.names  # type: ignore[arg-type]
        )  # fmt: skip

    def turn(self) -> None:
        """The turns of both loops."""
        with suppress(ApiError):
            self.leases.renew()
        self.planners.step()
