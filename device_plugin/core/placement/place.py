"""`place`: request + ledger → grant, or a refusal. The extender, the benchmarks and the simulator all call this one."""

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from device_plugin.core.grants import MAX_CONTAINERS, Grant, Slice
from device_plugin.core.hosts import Hosts, Room
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import causes
from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Rows
from device_plugin.core.placement.expected_fill import ExpectedFill
from device_plugin.core.placement.fit import fit
from device_plugin.core.placement.fragments import Fgd
from device_plugin.core.placement.index import Index
from device_plugin.core.placement.need import Need
from device_plugin.core.placement.node_fit import Looks, fit_pod
from device_plugin.core.placement.policy import Policy
from device_plugin.core.placement.refusal import Refusal
from device_plugin.core.placement.scores import Scores
from device_plugin.core.placement.simple import BestFit, Pack, Random, Spread
from device_plugin.core.placement.tables import Tables
from device_plugin.core.placement.target import Weighted
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import PodRequest

DEFAULT = "pack"
POLICIES = ("best-fit", "fgd", "fragmentation", "pack", "random", "spread")
# Those that need to know neither the host nor a target workload.
PLAIN = ("pack", "spread")
# Asks whose scores are kept; 10,000 nodes take 160 KiB for each.
KEPT = 256


class Placer:
    """Decides against one ledger, with an index that follows it, by the `offered` policies.

    Callers hold the ledger's lock.
    """

    def __init__(self, ledger: Ledger, hosts: Hosts | None = None, offered: Sequence[str] = PLAIN) -> None:
        self._offered = offered
        self.index = Index(ledger, hosts)
        self._knows_hosts = hosts is not None
        self._fill, self._fgd = ExpectedFill(), Fgd()
        self._policies: Mapping[str, Policy] = {
            "best-fit": BestFit(),
            "fgd": self._fgd,
            "fragmentation": self._fill,
            "pack": Pack(),
            "random": Random(),
            "spread": Spread(),
        }
        self._scores: OrderedDict[tuple[str, Ask], Scores] = OrderedDict()
        self._tables = Tables((), (), ())

    def tables(self, asks: Sequence[Weighted]) -> Tables:
        """Tables of these cards for a target workload."""
        supply = np.bincount(self.index.kind, minlength=len(self.index.kinds))
        return Tables(tuple(self.index.kinds), supply.tolist(), asks)

    def adopt(self, tables: Tables) -> None:
        """Decide by these tables from now on."""
        self._tables = tables
        self._fill.adopt(tables.fill, tables.ties)
        self._fgd.adopt(tables.fragments)

    def place(self, request: PodRequest, nodes: Sequence[str] | None = None) -> Grant | Refusal:
        """Choose among `nodes` (None: all). The ledger is not changed: the caller holds the grant, or does not."""
        self.index.refresh()
        name = request.policy or DEFAULT
        if name not in self._offered:
            said = f"no placement policy {request.policy!r}: write {', '.join(self._offered)}"
            return self._outright(Reason.POLICY, said, nodes)
        if len(request.containers) > MAX_CONTAINERS:
            said = (
                f"{len(request.containers)} containers ask for slices: at most {MAX_CONTAINERS} of a pod can"
            )
            return self._outright(Reason.MALFORMED, said, nodes)
        ask = Ask.of(request if self._knows_hosts else replace(request, host=Room()))
        grant = (
            self._several(request, nodes, spread=name == "spread")
            if ask is None
            else self._one(request, ask, nodes, name)
        )
        return grant or causes.refusal(self.index, request, nodes)

    def _one(self, request: PodRequest, ask: Ask, nodes: Sequence[str] | None, policy: str) -> Grant | None:
        if policy not in PLAIN and self._tables.kinds != tuple(self.index.kinds):
            self.adopt(self.tables(self._tables.asks))
        scores = self._scored(policy, ask)
        value = scores.value if nodes is None else np.where(self.index.chosen(nodes), scores.value, -np.inf)
        best = int(value.argmax()) if len(value) else 0
        if not len(value) or value[best] == -np.inf:
            return None
        given = []
        for row in scores.rows(best):
            part = fit(self.index.cards[row], ask.request)
            if not isinstance(part, Slice):
                raise AssertionError(
                    f"the index says that {ask.request} fits row {row}, the card says {part}"
                )
            given.append(part)
        slices = {name: tuple(given) for name, _ in request.containers}
        return Grant(request.pod, self.index.nodes[best], slices)

    def _scored(self, policy: str, ask: Ask) -> Scores:
        scores = self._scores.pop((policy, ask), None)
        if scores is None:
            scores = Scores(self.index, ask, self._policies[policy])
            while len(self._scores) >= KEPT:
                self._scores.popitem(last=False)
        self._scores[policy, ask] = scores
        scores.refresh()
        return scores

    def _several(self, request: PodRequest, nodes: Sequence[str] | None, *, spread: bool) -> Grant | None:
        """Nodes that each request fits often enough by itself, the fullest first (or last), until one fits them all."""
        index = self.index
        allowed = self._allowed(request, nodes)
        room = np.ones(len(index.nodes), dtype=bool)
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

    def _allowed(self, request: PodRequest, nodes: Sequence[str] | None) -> Rows:
        index = self.index
        allowed = index.usable if nodes is None else index.usable & index.on(nodes)
        return allowed & index.of_model(request.models) & index.named(request.uuids)

    def _outright(self, reason: Reason, said: str, nodes: Sequence[str] | None) -> Refusal:
        names = self.index.nodes if nodes is None else nodes
        return Refusal({}, {reason: len(names)}, {}, dict.fromkeys(names, reason), said)
