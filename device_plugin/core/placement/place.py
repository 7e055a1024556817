"""`place`: request + ledger → grant, or a refusal. The extender, the benchmarks and the simulator all call this one."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from device_plugin.core.app_types import DEFAULT_TYPE, TYPES, Scoring
from device_plugin.core.grants import MAX_CONTAINERS, Grant, Slice
from device_plugin.core.hosts import NOTHING, HostAmounts
from device_plugin.core.ledger import Ledger
from device_plugin.core.loads import Loads
from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.causes import Causes
from device_plugin.core.placement.columns import Columns, Kind, Numbers, Rows, Values
from device_plugin.core.placement.fit import fit
from device_plugin.core.placement.index import Index, View
from device_plugin.core.placement.kept import Kept
from device_plugin.core.placement.lesson import Lesson
from device_plugin.core.placement.need import Amounts, Need
from device_plugin.core.placement.node_fit import Looks, fit_pod
from device_plugin.core.placement.node_score import NodeScore
from device_plugin.core.placement.policy import Policy
from device_plugin.core.placement.refusal import Refusal, Refused
from device_plugin.core.placement.simple import BestFit, Pack, Random, Spread
from device_plugin.core.placement.tables import Tables
from device_plugin.core.placement.target import Weighted
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import ANYTHING, PodRequest, Request
from device_plugin.core.roles import ALONE, Rank

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
        self, ledger: Ledger, offered: Sequence[str] = OFFERED, loads: Loads | None = None,
        scoring: Scoring = BY_DEFAULT,
    ) -> None:  # fmt: skip
        self._offered = offered
        self.index = Index(ledger, loads)
        self._kept = Kept(self.index)
        by_type = {_by_type(name): NodeScore(scoring.weights[name], scoring) for name in TYPES}
        self._plain: Mapping[str, Policy] = {**PLAIN, **by_type}
        self._lesson = self._learnt(Tables((), (), ()))
        # Not ready yet.
        self._next: Lesson | None = None

    @property
    def scores(self) -> Kept:
        """The scores that are kept."""
        return self._kept

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
        answer = self.decide(request, nodes, vetted=vetted, looks=looks)
        return answer if isinstance(answer, Grant) else answer()

    def decide(
        self, request: PodRequest, nodes: Sequence[str] | None = None, *, vetted: bool = False,
        looks: Looks | None = None,
    ) -> Grant | Refused:  # fmt: skip
        """Like `place`, but the reasons for a refusal are found when the caller asks for them, without the lock."""
        refused = self.hopeless(request, nodes, vetted=vetted)
        if refused is not None:
            return refused
        grant = self.find(request, nodes, vetted=vetted, looks=looks)
        return self._refused(request, nodes, vetted=vetted) if grant is None else grant

    def hopeless(
        self, request: PodRequest, nodes: Sequence[str] | None = None, *, vetted: bool = False
    ) -> Refused | None:
        """The refusal of what the cards of no node can take, whatever the pod's group; None if some perhaps can."""
        self.index.refresh()
        if self._scored(request) or not self.nowhere(request):
            return None
        return self._refused(replace(request, standing=ALONE), nodes, vetted=vetted, everywhere=True)

    def _refused(
        self, request: PodRequest, nodes: Sequence[str] | None, *, vetted: bool, everywhere: bool = False
    ) -> Refused:
        if said := self._unknown(request):
            return self._outright(Reason.POLICY, said)
        if len(request.containers) > MAX_CONTAINERS:
            said = (
                f"{len(request.containers)} containers ask for slices: at most {MAX_CONTAINERS} of a pod can"
            )
            return self._outright(Reason.MALFORMED, said)
        looked = replace(request, host=NOTHING) if vetted else request
        return Refused(Causes(self.index, looked, nodes).refusal, everywhere=everywhere)

    def prepare(self, request: PodRequest, nodes: Sequence[str]) -> None:
        """Look the names of `nodes` up, if `find` will have to: it takes longer than most decisions.

        Call it without the lock.
        """
        if not self._scored(request):
            self.index.chosen(nodes)

    def nowhere(self, request: PodRequest, nodes: Sequence[str] | None = None) -> bool:
        """True if by their cards none of `nodes` (None: all) can take the request; false if some perhaps can.

        It is found by the states of cards, much faster than scores, and most of what is refused is refused by it. The
        index must be up to date.
        """
        index = self.index
        states = index.states.columns()
        accepted = np.array([request.models.accepts(kind.model) for kind in index.kinds], dtype=bool)
        named = None if request.uuids == ANYTHING else index.named(request.uuids)
        offered = None if nodes is None else index.chosen(nodes)
        return any(
            self._none(asked, states, accepted, named, offered)
            for asked in dict.fromkeys(asked for _, asked in request.containers)
        )

    def _none(
        self, asked: Request, states: Columns, accepted: Rows, named: Rows | None, offered: Rows | None
    ) -> bool:
        """True if no offered node has enough cards for one container, nothing else being taken."""
        index = self.index
        of_family = np.array([kind.family == asked.family for kind in index.kinds], dtype=bool) & accepted
        fits = states.usable & of_family[states.kind] & Need(states, Amounts(index.kinds, asked)).fits()
        if not fits.any():
            return True
        rows = fits[index.states.code]
        if named is not None:
            rows &= named
        if offered is not None:
            rows &= index.per_card(offered)
        return (
            not rows.any()
            if asked.whole <= 1
            else bool(index.by_node(rows.astype(np.int64)).max() < asked.whole)
        )

    def find(
        self, request: PodRequest, nodes: Sequence[str] | None = None, *, vetted: bool = False,
        looks: Looks | None = None,
    ) -> Grant | None:  # fmt: skip
        """Like `place`, but returns None instead of a refusal."""
        self.index.refresh()
        if self._unknown(request) or len(request.containers) > MAX_CONTAINERS:
            return None
        ask, name = Ask.of(request), self._name(request)
        if not self._scored(request) and self.nowhere(request, nodes):
            return None
        among = self._among(NOTHING if vetted else request.host, request.standing)
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

    def _scored(self, request: PodRequest) -> bool:
        """True if every node's score for the request is kept: then it is decided at once."""
        ask = Ask.of(request)
        return ask is not None and self._kept.knows(self._name(request), ask)

    def _name(self, request: PodRequest) -> str:
        """The name of the policy by which it is decided."""
        if request.policy == NODE_SCORE:
            return _by_type(request.app_type)
        name = request.policy or DEFAULT
        return name if name in self._plain or self._lesson.fits else UNTAUGHT

    def _unknown(self, request: PodRequest) -> str:
        """What the pod names and nobody knows, in words; empty if there is nothing."""
        if (request.policy or DEFAULT) not in self._offered:
            return f"no placement policy {request.policy!r}: write {', '.join(self._offered)}"
        if request.policy == NODE_SCORE and (request.app_type or DEFAULT_TYPE) not in TYPES:
            return f"no application type {request.app_type!r}: write {', '.join(TYPES)}"
        return ""

    def _among(self, needed: HostAmounts, standing: Rank) -> Rows | None:
        """Which nodes may be looked at, whoever is offered, of shape (nodes,); None for all."""
        among = None if needed == NOTHING else self.index.roomy(needed)
        if standing.avoid:
            apart = ~self.index.looked_up(standing.avoid)
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
        leave, found, refused = request.standing.leave, None, set[bytes]()
        for position in candidates[np.argsort(self._order(name, candidates), kind="stable")]:
            node = index.nodes[position]
            first, after = index.rows(node)
            rows = [row for row in range(first, after) if allowed[row]]
            # What does not fit the cards of one node does not fit those of another that are in the same states.
            alike = np.sort(index.states.code[rows]).tobytes()
            if alike in refused:
                continue
            if not looks.next_node():
                break
            given = fit_pod([index.cards[row] for row in rows], request.containers, looks)
            if given is None:
                refused.add(alike)
                continue
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

    def _outright(self, reason: Reason, said: str) -> Refused:
        return Refused(lambda: Refusal({}, {reason: 1}, said=said), everywhere=True)


def _by_type(app_type: str) -> str:
    return f"{NODE_SCORE} {app_type or DEFAULT_TYPE}"


def _left(value: Values, leave: int) -> int:
    """The best node once `leave` better ones are left to others; the last that fits, if there are not so many."""
    order = np.argsort(-value, kind="stable")
    return int(order[min(leave, int((value > -np.inf).sum()) - 1)])
