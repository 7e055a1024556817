"""`place`: request + ledger → grant, or a refusal. The extender, the benchmarks and the simulator all call this one."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from device_plugin.core.app_types import DEFAULT_TYPE, TYPES, Scoring
from device_plugin.core.grants import MAX_CONTAINERS, Grant, Slice
from device_plugin.core.hosts import NOTHING, Hosts, Room
from device_plugin.core.ledger import Ledger
from device_plugin.core.loads import Loads
from device_plugin.core.placement import causes
from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Kind, Numbers, Rows, Values
from device_plugin.core.placement.fit import fit
from device_plugin.core.placement.index import Index, View
from device_plugin.core.placement.kept import Kept
from device_plugin.core.placement.lesson import Lesson
from device_plugin.core.placement.need import Amounts, Need
from device_plugin.core.placement.node_fit import Looks, fit_pod
from device_plugin.core.placement.node_score import NodeScore
from device_plugin.core.placement.policy import Policy
from device_plugin.core.placement.refusal import Refusal
from device_plugin.core.placement.simple import BestFit, Pack, Random, Spread
from device_plugin.core.placement.tables import Tables
from device_plugin.core.placement.target import Weighted
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import PodRequest
from device_plugin.core.roles import Standing

DEFAULT = "fragmentation"
NODE_SCORE = "node-score"
POLICIES = ("best-fit", "fgd", "fragmentation", NODE_SCORE, "pack", "random", "spread")
# Those that people may ask for; random is a baseline.
OFFERED = tuple(name for name in POLICIES if name != "random")
# What is done until there is a target workload, and until it is known what it would take of a new kind of card.
UNTAUGHT = "pack"
PLAIN: Mapping[str, Policy] = {
    "best-fit": BestFit(), "pack": Pack(), "random": Random(), "spread": Spread(),
}  # fmt: skip
BY_DEFAULT = Scoring()


class Placer:
    """Decides against one ledger, with an index that follows it, by the `offered` policies.

    Callers hold the ledger's lock.
    """

    def __init__(
        self, ledger: Ledger, hosts: Hosts | None = None, offered: Sequence[str] = OFFERED,
        loads: Loads | None = None, scoring: Scoring = BY_DEFAULT,
    ) -> None:  # fmt: skip
        self._offered = offered
        self.index = Index(ledger, hosts, loads)
        self._knows_hosts = hosts is not None
        self._kept = Kept(self.index)
        by_type = {_by_type(name): NodeScore(scoring.weights[name], scoring) for name in TYPES}
        self._plain: Mapping[str, Policy] = {**PLAIN, **by_type}
        self._lesson = self._learnt(Tables((), (), ()))
        # Not ready yet.
        self._next: Lesson | None = None

    def supply(self) -> tuple[tuple[Kind, ...], tuple[int, ...]]:
        """The kinds of cards, and how many of each there are: what tables are made for."""
        self.index.refresh()
        supply = np.bincount(self.index.kind, minlength=len(self.index.kinds))
        return tuple(self.index.kinds), tuple(supply.tolist())

    def teach(self, asks: Sequence[Weighted]) -> None:
        """Decide for this target workload from now on; it takes as long as tables take to make."""
        self._take_over(Tables(*self.supply(), asks))

    def adopt(self, tables: Tables) -> None:
        """Decide by these tables once `renew` has made everything ready; at once where nothing is decided by others."""
        if tables.kinds != self._lesson.tables.kinds:
            self._take_over(tables)
        else:
            self._next = self._learnt(tables)

    def renew(self, most: int) -> bool:
        """Bring at most `most` nodes' scores and fragmentation up to date; true once there is nothing left to do."""
        self.index.refresh()
        if self._next is not None:
            if self._next.fits and not self._next.prepare(most):
                return False
            self._lesson, self._next = self._next, None
        if not self._lesson.fits:
            return True
        return self._kept.renew(self._lesson.policies, most) and self._lesson.prepare(most)

    def fragmentation(self) -> float | None:
        """Of all cards the share that is idle and of no use to the target workload; None without one.

        As of the last `renew`.
        """
        return self._lesson.waste.ratio() if self._lesson.fits else None

    def place(
        self, request: PodRequest, nodes: Sequence[str] | None = None, *, vetted: bool = False,
        looks: Looks | None = None,
    ) -> Grant | Refusal:  # fmt: skip
        """Choose among `nodes` (None: all). The ledger is not changed: the caller holds the grant, or does not.

        Where `vetted`, somebody who knows better (kube-scheduler) has seen to it that hosts have the CPU and memory.
        Several decisions may share their `looks`.
        """
        grant = self.find(request, nodes, vetted=vetted, looks=looks)
        if grant is not None:
            return grant
        if said := self._unknown(request):
            return self._outright(Reason.POLICY, said, nodes)
        if len(request.containers) > MAX_CONTAINERS:
            said = (
                f"{len(request.containers)} containers ask for slices: at most {MAX_CONTAINERS} of a pod can"
            )
            return self._outright(Reason.MALFORMED, said, nodes)
        looked = request if self._knows_hosts and not vetted else replace(request, host=NOTHING)
        return causes.refusal(self.index, looked, nodes)

    def find(
        self, request: PodRequest, nodes: Sequence[str] | None = None, *, vetted: bool = False,
        looks: Looks | None = None,
    ) -> Grant | None:  # fmt: skip
        """The same for those who need no reasons, which take longer to find than most grants."""
        self.index.refresh()
        if self._unknown(request) or len(request.containers) > MAX_CONTAINERS:
            return None
        if not self._knows_hosts:
            request = replace(request, host=NOTHING)
        ask, among = Ask.of(request), self._among(NOTHING if vetted else request.host, request.standing)
        name = _by_type(request.app_type) if request.policy == NODE_SCORE else request.policy or DEFAULT
        if ask is not None:
            return self._one(request, ask, among, nodes, name)
        return self._several(request, self._offering(nodes, among), name, looks or Looks())

    def gain(self, request: PodRequest, node: str, than: str) -> float:
        """How much more expected fill is left when the request goes to `node` than to `than`, in thousandths of a card.

        0 while there is no target workload, and for what does not fit both.
        """
        self.index.refresh()
        ask = Ask.of(request)
        if ask is None or not self._lesson.fits:
            return 0.0
        scores = self._kept.of(DEFAULT, self._lesson.policies[DEFAULT], ask)
        gain = scores.at(self.index.position[node]) - scores.at(self.index.position[than])
        return gain if math.isfinite(gain) else 0.0

    def _unknown(self, request: PodRequest) -> str:
        """What the pod names and nobody knows, in words; empty if there is nothing."""
        if (request.policy or DEFAULT) not in self._offered:
            return f"no placement policy {request.policy!r}: write {', '.join(self._offered)}"
        if request.policy == NODE_SCORE and (request.app_type or DEFAULT_TYPE) not in TYPES:
            return f"no application type {request.app_type!r}: write {', '.join(TYPES)}"
        return ""

    def _among(self, needed: Room, standing: Standing) -> Rows | None:
        """Which nodes may be looked at, whoever is offered, of shape (nodes,); None for all."""
        among = None if needed == NOTHING else self.index.roomy(needed)
        if standing.avoid:
            apart = ~self.index.chosen(standing.avoid)
            among = apart if among is None else among & apart
        return among

    def _offering(self, nodes: Sequence[str] | None, among: Rows | None) -> Rows | None:
        """Those of `among` that are offered."""
        if nodes is None:
            return among
        offered = self.index.chosen(nodes)
        return offered if among is None else among & offered

    def _one(
        self, request: PodRequest, ask: Ask, among: Rows | None, nodes: Sequence[str] | None, name: str
    ) -> Grant | None:
        index = self.index
        if name not in self._plain and not self._lesson.fits:
            name = UNTAUGHT
        scores = self._kept.of(name, self._lesson.policies[name], ask)
        best = scores.best(among)
        # The best of all is nearly always offered: to look for that one name is faster than to look all names up.
        if (
            best is not None
            and nodes is not None
            and (request.standing.leave or index.nodes[best] not in nodes)
        ):
            among = self._offering(nodes, among)
            best = scores.best(among)
        if best is None:
            return None
        if request.standing.leave:
            value = scores.value if among is None else np.where(among, scores.value, -np.inf)
            best = _left(value, request.standing.leave)
        given = []
        for row in scores.rows(best):
            part = fit(index.cards[row], ask.request)
            if not isinstance(part, Slice):
                raise AssertionError(
                    f"the index says that {ask.request} fits row {row}, the card says {part}"
                )
            given.append(part)
        slices = {name: tuple(given) for name, _ in request.containers}
        return self._granted(request.pod, index.nodes[best], slices)

    def _take_over(self, tables: Tables) -> None:
        self._lesson, self._next = self._learnt(tables), None
        self._kept.forget()

    def _learnt(self, tables: Tables) -> Lesson:
        return Lesson(tables, self.index, self._plain)

    def _several(self, request: PodRequest, among: Rows | None, name: str, looks: Looks) -> Grant | None:
        """Nodes that each request fits often enough by itself, in the policy's order, until one fits them all.

        The fullest first, or the emptiest for `spread`; by their scores for `node-score`.
        """
        index = self.index
        allowed = index.usable & index.of_model(request.models) & index.named(request.uuids)
        room = np.ones(len(index.nodes), dtype=bool) if among is None else among.copy()
        for asked, times in Counter(asked for _, asked in request.containers).items():
            need = Need(index, Amounts(index.kinds, asked))
            copies = np.where(allowed & index.of_family(asked.family), need.copies(), 0)
            room &= index.by_node(copies) >= times * max(1, asked.whole)
        candidates = np.flatnonzero(room)
        leave, found = request.standing.leave, None
        for position in candidates[np.argsort(self._order(name, candidates), kind="stable")]:
            if not looks.next_node():
                break
            node = index.nodes[position]
            first, after = index.rows(node)
            cards = [index.cards[row] for row in range(first, after) if allowed[row]]
            given = fit_pod(cards, request.containers, looks)
            if given is not None:
                found = self._granted(request.pod, node, given)
                if not leave:
                    break
                leave -= 1
        return found

    def _granted(self, pod: str, node: str, slices: Mapping[str, tuple[Slice, ...]]) -> Grant:
        """The grant of these slices, with the sizes of their cards as they are now."""
        named = {s.card for given in slices.values() for s in given}
        cards = (self.index.cards[row].card for row in range(*self.index.rows(node)))
        sizes = {card.uuid: card.size for card in cards if card.uuid in named}
        return Grant(pod, node, slices, cards=sizes)

    def _order(self, name: str, positions: Numbers) -> Values:
        """What a pod of several containers looks at first has the least; shape (positions,)."""
        policy = self._lesson.policies[name]
        if isinstance(policy, NodeScore):
            return -policy.score(View(self.index, positions))
        slack = self.index.by_node(self.index.slack())[positions].astype(np.float64)
        return -slack if name == "spread" else slack

    def _outright(self, reason: Reason, said: str, nodes: Sequence[str] | None) -> Refusal:
        names = self.index.nodes if nodes is None else nodes
        return Refusal({}, {reason: len(names)}, {}, dict.fromkeys(names, reason), said)


def _by_type(app_type: str) -> str:
    return f"{NODE_SCORE} {app_type or DEFAULT_TYPE}"


def _left(value: Values, leave: int) -> int:
    """The best node once `leave` better ones are left to others; the last that fits, if there are not so many."""
    order = np.argsort(-value, kind="stable")
    return int(order[min(leave, int((value > -np.inf).sum()) - 1)])
