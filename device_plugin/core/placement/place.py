"""`place`: request + ledger → grant, or a refusal. The extender, the benchmarks and the simulator all call this one."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from device_plugin.core.grants import MAX_CONTAINERS, Grant, Slice
from device_plugin.core.hosts import NOTHING, Hosts, Room
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import causes
from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Kind, Rows
from device_plugin.core.placement.expected_fill import ExpectedFill
from device_plugin.core.placement.fit import fit
from device_plugin.core.placement.fragments import Fgd
from device_plugin.core.placement.index import Index
from device_plugin.core.placement.kept import Kept
from device_plugin.core.placement.need import Need
from device_plugin.core.placement.node_fit import Looks, fit_pod
from device_plugin.core.placement.policy import Policy
from device_plugin.core.placement.refusal import Refusal
from device_plugin.core.placement.simple import BestFit, Pack, Random, Spread
from device_plugin.core.placement.tables import Tables
from device_plugin.core.placement.target import Weighted
from device_plugin.core.placement.waste import Waste
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import PodRequest

DEFAULT = "fragmentation"
POLICIES = ("best-fit", "fgd", "fragmentation", "pack", "random", "spread")
# Those that people may ask for; random is a baseline.
OFFERED = tuple(name for name in POLICIES if name != "random")
# What is done until there is a target workload, and until it is known what it would take of a new kind of card.
UNTAUGHT = "pack"
PLAIN: Mapping[str, Policy] = {
    "best-fit": BestFit(), "pack": Pack(), "random": Random(), "spread": Spread(),
}  # fmt: skip


class Placer:
    """Decides against one ledger, with an index that follows it, by the `offered` policies.

    Callers hold the ledger's lock.
    """

    def __init__(self, ledger: Ledger, hosts: Hosts | None = None, offered: Sequence[str] = OFFERED) -> None:
        self._offered = offered
        self.index = Index(ledger, hosts)
        self._knows_hosts = hosts is not None
        self._kept = Kept(self.index)
        self._take_over(Tables((), (), ()))

    def supply(self) -> tuple[tuple[Kind, ...], tuple[int, ...]]:
        """The kinds of cards, and how many of each there are: what tables are made for."""
        self.index.refresh()
        supply = np.bincount(self.index.kind, minlength=len(self.index.kinds))
        return tuple(self.index.kinds), tuple(supply.tolist())

    def teach(self, asks: Sequence[Weighted]) -> None:
        """Decide for this target workload from now on; it takes as long as tables take to make."""
        self._take_over(Tables(*self.supply(), asks))

    def adopt(self, tables: Tables) -> None:
        """Decide by these tables: at once for new asks, for others once `renew` has made their scores."""
        if tables.kinds != self._tables.kinds:
            self._take_over(tables)
        else:
            self._learn(tables)

    def renew(self, most: int) -> bool:
        """Bring at most `most` nodes' scores and fragmentation up to date; true once there is nothing left to do."""
        self.index.refresh()
        return not self._taught() or (self._kept.renew(self._policies, most) and self._waste.refresh(most))

    def fragmentation(self) -> float | None:
        """Of all cards the share that is idle and of no use to the target workload; None without one.

        As of the last `renew`.
        """
        return self._waste.ratio() if self._taught() else None

    def place(
        self, request: PodRequest, nodes: Sequence[str] | None = None, *, vetted: bool = False
    ) -> Grant | Refusal:
        """Choose among `nodes` (None: all). The ledger is not changed: the caller holds the grant, or does not.

        Where `vetted`, somebody who knows better (kube-scheduler) has seen to it that hosts have the CPU and memory.
        """
        grant = self.find(request, nodes, vetted=vetted)
        if grant is not None:
            return grant
        if (request.policy or DEFAULT) not in self._offered:
            said = f"no placement policy {request.policy!r}: write {', '.join(self._offered)}"
            return self._outright(Reason.POLICY, said, nodes)
        if len(request.containers) > MAX_CONTAINERS:
            said = (
                f"{len(request.containers)} containers ask for slices: at most {MAX_CONTAINERS} of a pod can"
            )
            return self._outright(Reason.MALFORMED, said, nodes)
        looked = request if self._knows_hosts and not vetted else replace(request, host=NOTHING)
        return causes.refusal(self.index, looked, nodes)

    def find(
        self, request: PodRequest, nodes: Sequence[str] | None = None, *, vetted: bool = False
    ) -> Grant | None:
        """The same for those who need no reasons, which take longer to find than most grants."""
        self.index.refresh()
        name = request.policy or DEFAULT
        if name not in self._offered or len(request.containers) > MAX_CONTAINERS:
            return None
        if not self._knows_hosts:
            request = replace(request, host=NOTHING)
        ask, among = Ask.of(request), self._among(nodes, NOTHING if vetted else request.host)
        if ask is None:
            return self._several(request, among, spread=name == "spread")
        return self._one(request, ask, among, name)

    def gain(self, request: PodRequest, node: str, than: str) -> float:
        """How much more expected fill is left when the request goes to `node` than to `than`, in thousandths of a card.

        0 while there is no target workload, and for what does not fit both.
        """
        self.index.refresh()
        ask = Ask.of(request)
        if ask is None or not self._taught():
            return 0.0
        value = self._kept.of(DEFAULT, self._policies[DEFAULT], ask).value
        gain = float(value[self.index.position[node]]) - float(value[self.index.position[than]])
        return gain if math.isfinite(gain) else 0.0

    def _among(self, nodes: Sequence[str] | None, needed: Room) -> Rows | None:
        """Which nodes are looked at, of shape (nodes,); None for all."""
        among = None if nodes is None else self.index.chosen(nodes)
        if needed == NOTHING:
            return among
        roomy = self.index.roomy(needed)
        return roomy if among is None else among & roomy

    def _one(self, request: PodRequest, ask: Ask, among: Rows | None, name: str) -> Grant | None:
        index = self.index
        if name not in PLAIN and not self._taught():
            name = UNTAUGHT
        scores = self._kept.of(name, self._policies[name], ask)
        value = scores.value if among is None else np.where(among, scores.value, -np.inf)
        best = int(value.argmax()) if len(value) else 0
        if not len(value) or value[best] == -np.inf:
            return None
        given = []
        for row in scores.rows(best):
            part = fit(index.cards[row], ask.request)
            if not isinstance(part, Slice):
                raise AssertionError(
                    f"the index says that {ask.request} fits row {row}, the card says {part}"
                )
            given.append(part)
        slices = {name: tuple(given) for name, _ in request.containers}
        return Grant(request.pod, index.nodes[best], slices)

    def _taught(self) -> bool:
        return bool(self._tables.asks) and self._tables.kinds == tuple(self.index.kinds)

    def _take_over(self, tables: Tables) -> None:
        self._learn(tables)
        self._kept.forget()

    def _learn(self, tables: Tables) -> None:
        self._tables = tables
        self._waste = Waste(self.index, tables.ties)
        self._policies: Mapping[str, Policy] = {
            **PLAIN, "fgd": Fgd(tables.fragments), "fragmentation": ExpectedFill(tables.fill, tables.ties),
        }  # fmt: skip

    def _several(self, request: PodRequest, among: Rows | None, *, spread: bool) -> Grant | None:
        """Nodes that each request fits often enough by itself, the fullest first (or last), until one fits them all."""
        index = self.index
        allowed = index.usable & index.of_model(request.models) & index.named(request.uuids)
        room = np.ones(len(index.nodes), dtype=bool) if among is None else among.copy()
        for asked, times in Counter(asked for _, asked in request.containers).items():
            copies = np.where(allowed & index.of_family(asked.family), Need(index, asked).copies(), 0)
            room &= index.by_node(copies) >= times * max(1, asked.whole)
        candidates = np.flatnonzero(room)
        slack = index.by_node(index.slack())[candidates]
        looks = Looks()
        for position in np.argsort(-slack if spread else slack, kind="stable"):
            if not looks.next_node():
                return None
            name = index.nodes[candidates[position]]
            first, after = index.rows(name)
            cards = [index.cards[row] for row in range(first, after) if allowed[row]]
            given = fit_pod(cards, request.containers, looks)
            if given is not None:
                return Grant(request.pod, name, given)
        return None

    def _outright(self, reason: Reason, said: str, nodes: Sequence[str] | None) -> Refusal:
        names = self.index.nodes if nodes is None else nodes
        return Refusal({}, {reason: len(names)}, {}, dict.fromkeys(names, reason), said)
