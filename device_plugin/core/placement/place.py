"""Decides requests against the ledger, by a grant or a refusal: `decide` for /filter, `place` for all other callers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from msgspec import structs

from device_plugin.core.app_types import DEFAULT_TYPE, TYPES, Scoring
from device_plugin.core.contract.annotations import MAX_BYTES
from device_plugin.core.contract.grants import MAX_CONTAINERS, Grant, Slice
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.hosts import NOTHING
from device_plugin.core.ledger import Ledger
from device_plugin.core.loads import Loads
from device_plugin.core.node_constraints import NodeSet
from device_plugin.core.placement.cache import NodeScores, Policy, ScoreCache
from device_plugin.core.placement.card_columns import CardKind, Floats, Mask, kinds_where
from device_plugin.core.placement.fit import (
    SCORES_IN_LOOKS,
    CardFit,
    KindSizes,
    SearchBudget,
    allowed_cards,
    fit,
    fit_pod,
    fits_by_node,
    looks_at_all,
)  # fmt: skip
from device_plugin.core.placement.offer import marked
from device_plugin.core.placement.policies import DECLARED, DEFAULT, OFFERED, Given, Model, WorkloadTables
from device_plugin.core.placement.refusal import Causes, Refusal, Refused
from device_plugin.core.placement.table import NodeTable, NodeView
from device_plugin.core.placement.workload import Weighted
from device_plugin.core.requests import ANYTHING, PodRequest, Request, Shape
from device_plugin.core.roles import ALONE

BY_DEFAULT = Scoring()
# Most remembered answers of `nowhere`.
MOST_ANSWERS = 1024


class Placer:
    """Decides requests against one ledger by the `offered` placement policies; a node table follows the ledger.

    Callers hold the ledger's lock.
    """

    def __init__(
        self, ledger: Ledger, offered: Sequence[str] = OFFERED, loads: Loads | None = None,
        scoring: Scoring = BY_DEFAULT,
    ) -> None:  # fmt: skip
        self._offered = offered
        self.table = NodeTable(ledger, loads)
        self.scores = ScoreCache(self.table)
        self._model = Model(Given(WorkloadTables((), (), ()), self.table, scoring))
        # The model that replaces `_model` once its scores are ready.
        self._next: Model | None = None
        # Answers of `nowhere` by the parts of a request that decide about cards, valid for the table version `_asked`.
        self._nowhere: dict[object, bool] = {}
        self._asked = self.table.seen

    def twin(self, ledger: Ledger, loads: Loads) -> "Placer":
        """A placer with the same policies and settings for another ledger, without tables for expected requests yet."""
        return Placer(ledger, self._offered, loads, self._model.given.scoring)

    @property
    def tables(self) -> WorkloadTables:
        """The workload tables (worth of cards for expected requests) by which decisions are made now."""
        return self._model.given.tables

    def supply(self) -> tuple[tuple[CardKind, ...], tuple[int, ...]]:
        """The present kinds of cards, and the number of cards of each kind: inputs for computing workload tables."""
        self.table.refresh()
        supply = np.bincount(self.table.kind[self.table.there], minlength=len(self.table.kinds))
        return tuple(self.table.kinds), tuple(supply.tolist())

    def learn(self, shapes: Sequence[Weighted]) -> None:
        """Compute tables for the expected requests (the target workload, `shapes`), and use them from now on.

        Computing takes seconds.
        """
        self.use(WorkloadTables(*self.supply(), shapes))

    def use(self, tables: WorkloadTables) -> None:
        """Use these workload tables from now on, and drop all cached scores."""
        self._model, self._next = self._modelled(tables), None
        self.scores.clear()

    def install(self, tables: WorkloadTables) -> None:
        """Use these workload tables once `renew` has computed all scores from them.

        If the kinds of cards have changed, use the tables at once.
        """
        if tables.kinds != self._model.given.tables.kinds:
            self.use(tables)
        else:
            self._next = self._modelled(tables)

    def renew(self, most: int) -> bool:
        """Update the scores and the fragmentation of at most `most` nodes; true once all nodes are up to date.

        Tables from `install` are used once all nodes are scored by them.
        """
        self.table.refresh()
        if self._next is not None:
            if self._next.learnt and not self._next.prepare(most):
                return False
            self._model, self._next = self._next, None
        if not self._model.learnt:
            return True
        return self.scores.renew(self._model.policies, most) and self._model.prepare(most)

    def fragmentation(self) -> float | None:
        """The share of all cards that is idle and that the expected requests cannot use, as of the latest `renew`.

        None without a target workload, which has these requests.
        """
        return self._model.gauge.ratio() if self._model.learnt else None

    def place(
        self, request: PodRequest, nodes: Sequence[str] | None = None, *, vetted: bool = False,
        budget: SearchBudget | None = None,
    ) -> Grant | Refusal:  # fmt: skip
        """The grant on the best of `nodes` (None: all), or the refusal. The ledger is not changed.

        `vetted`: kube-scheduler has checked that `nodes` have enough free CPU and memory. Several decisions may share
        one `budget` of comparisons.
        """
        answer = self.decide(request, nodes, vetted=vetted, budget=budget)
        return answer if isinstance(answer, Grant) else answer()

    def decide(
        self, request: PodRequest, nodes: Sequence[str] | None = None, *, vetted: bool = False,
        budget: SearchBudget | None = None,
    ) -> Grant | Refused:  # fmt: skip
        """The grant for the pod on the best node, or a refusal whose reasons are computed only when it is called.

        So the caller computes the reasons after it has released the lock. The parameters are those of `place`.
        """
        refused = self.hopeless(request, nodes, vetted=vetted)
        if refused is not None:
            return refused
        grant = self._best(request, nodes, vetted=vetted, budget=budget)
        if grant is None:
            return self._refused(request, nodes, vetted=vetted)
        if length := grant.too_long:
            said = f"its grant would have {length} characters, of which {MAX_BYTES} are read: split the pod"
            return Refused(lambda: Refusal.saying(Reason.MALFORMED, said))
        return structs.replace(grant, claims=dict(request.claims)) if request.claims else grant

    def hopeless(
        self, request: PodRequest, nodes: Sequence[str] | None = None, *, vetted: bool = False
    ) -> Refused | None:
        """The refusal if no node has enough cards; None if a node may have them. The pod's group is not considered.

        Also None if the scores for the request are cached: then deciding is as fast.
        """
        self.table.refresh()
        if self._scored(request) or not self.nowhere(request):
            return None
        return self._refused(replace(request, rank=ALONE), nodes, vetted=vetted, everywhere=True)

    def _refused(
        self, request: PodRequest, nodes: Sequence[str] | None, *, vetted: bool, everywhere: bool = False
    ) -> Refused:
        if problem := self._problem(request):
            reason, said = problem
            return Refused(lambda: Refusal.saying(reason, said), everywhere=True)
        looked = replace(request, host=NOTHING) if vetted else request
        return Refused(Causes(self.table, looked, nodes).refusal, everywhere=everywhere)

    def find(
        self, request: PodRequest, nodes: Sequence[str] | None = None, *, vetted: bool = False,
        budget: SearchBudget | None = None,
    ) -> Grant | None:  # fmt: skip
        """The grant for the pod on the best node; None if no node fits, or if the grant is too long for an annotation.

        Reasons are not computed, because they take longer than most grants.
        """
        grant = self._best(request, nodes, vetted=vetted, budget=budget)
        return None if grant is None or grant.too_long else grant

    def _best(
        self, request: PodRequest, nodes: Sequence[str] | None, *, vetted: bool, budget: SearchBudget | None
    ) -> Grant | None:
        """The grant on the best node, which may be too long for an annotation; None if no node fits."""
        self.table.refresh()
        if self._problem(request):
            return None
        name, policy = self._model.policy(request)
        shape = Shape.of(request)
        scores = None if shape is None else self.scores.get(name, shape)
        if scores is None and self.nowhere(request, nodes, budget):
            return None
        among = None if vetted or request.host == NOTHING else self.table.with_host(request.host)
        if request.rank.avoid:
            among = _both(among, ~marked(self.table.position, request.rank.avoid))
        if request.claims:
            among = _both(among, self.table.preparing())
        if shape is None:
            return self._several(request, self._offering(nodes, among), policy, budget or SearchBudget())
        if scores is None and budget is not None:
            budget.spend(SCORES_IN_LOOKS * looks_at_all(self.table))
        return self._one(request, self.scores.of(name, policy, shape), among, nodes)

    def prepare(self, request: PodRequest, nodes: Sequence[str]) -> None:
        """Find `nodes` in the node table in advance, if the decision will need that; callers do not hold the lock.

        Finding thousands of rows takes longer than most decisions, and the lock must be free meanwhile.
        """
        if not self._scored(request):
            self.table.chosen(nodes)

    def nowhere(
        self, request: PodRequest, nodes: Sequence[str] | None = None, budget: SearchBudget | None = None
    ) -> bool:
        """True if none of `nodes` (None: all) has the cards for the request; false if one may have them.

        It compares states of cards, which is much faster than computing scores, and decides most refusals. The table
        must be up to date. Requests that differ only in CPU and memory share one remembered answer, which costs nothing
        of the `budget`.
        """
        if self._asked != self.table.seen or len(self._nowhere) >= MOST_ANSWERS:
            self._nowhere.clear()
            self._asked = self.table.seen
        # An answer for a list of names is not remembered: comparing thousands of names takes longer than a new answer.
        known = nodes is None or isinstance(nodes, NodeSet)
        asked = frozenset(asked for _, asked in request.containers)
        key = (asked, request.models, request.uuids, nodes, bool(request.claims)) if known else None
        found = self._nowhere.get(key)
        if found is None:
            if budget is not None:
                budget.spend(looks_at_all(self.table))
            found = self._looked(request, nodes)
            if known:
                self._nowhere[key] = found
        return found

    def _looked(self, request: PodRequest, nodes: Sequence[str] | None) -> bool:
        table, models = self.table, request.models
        states = table.states.columns()
        accepted = kinds_where(table.kinds, lambda kind: models.accepts_model(kind.model))
        cells = None if request.uuids == ANYTHING else table.named(request.uuids)
        if nodes is not None:
            offered = table.chosen(nodes)[:, None]
            cells = _both(cells, offered)
        if request.claims and (preparing := table.preparing()) is not None:
            cells = _both(cells, preparing[:, None])
        return any(
            not self._enough(asked, states.usable & accepted[states.kind], cells)
            for asked in dict.fromkeys(asked for _, asked in request.containers)
        )

    def _enough(self, asked: Request, usable: Mask, cells: Mask | None) -> bool:
        """True if some node has enough cards for the request `asked` of one container; other containers do not count.

        `usable` marks states of cards. Only cards in `cells` (None: all) count, of shape (nodes, cards), or (nodes, 1)
        for all cards of a node.
        """
        table = self.table
        states = table.states.columns()
        fits = usable & CardFit(states, KindSizes(table.kinds, asked)).fits()
        if not fits.any():
            return False
        fitting = fits[table.states.code]
        if cells is not None:
            fitting = fitting & cells
        return bool(fitting.any() if asked.cards <= 1 else (fitting.sum(axis=1) >= asked.cards).any())

    def gain(self, request: PodRequest, node: str, than: str) -> float:
        """The expected fill (free parts that later pods can use) saved if the request is on `node` and not on `than`.

        In thousandths of a card. 0 without a target workload, or if the request does not fit both nodes.
        """
        self.table.refresh()
        shape = Shape.of(request)
        if shape is None or not self._model.learnt:
            return 0.0
        scores = self.scores.of(DEFAULT, self._model.policies[DEFAULT], shape)
        scores.refresh()
        gain = scores.at(self.table.position[node]) - scores.at(self.table.position[than])
        return gain if math.isfinite(gain) else 0.0

    def _scored(self, request: PodRequest) -> bool:
        """True if the scores for the request are cached, so that the decision is fast. It needs no lock."""
        shape = Shape.of(request)
        return (
            shape is not None
            and not self._problem(request)
            and self.scores.get(self._model.policy(request)[0], shape) is not None
        )

    def _problem(self, request: PodRequest) -> tuple[Reason, str] | None:
        """The reason and text of the refusal of a request whose form is not valid; None if its form is valid."""
        if (request.policy or DEFAULT) not in self._offered:
            return Reason.POLICY, f"no placement policy {request.policy!r}: write {', '.join(self._offered)}"
        if DECLARED[request.policy or DEFAULT].by_type and (request.app_type or DEFAULT_TYPE) not in TYPES:
            return Reason.POLICY, f"no application type {request.app_type!r}: write {', '.join(TYPES)}"
        if (number := len(request.containers)) > MAX_CONTAINERS:
            return (
                Reason.MALFORMED,
                f"{number} containers ask for slices: at most {MAX_CONTAINERS} of a pod can: split the pod",
            )
        return None

    def _offering(self, nodes: Sequence[str] | None, among: Mask | None) -> Mask | None:
        """An array that marks the nodes that `among` marks and `nodes` names; None stands for all nodes."""
        if nodes is None:
            return among
        return _both(among, self.table.chosen(nodes))

    def _one(
        self, request: PodRequest, scores: NodeScores, among: Mask | None, nodes: Sequence[str] | None
    ) -> Grant | None:
        """The grant of a pod in which at most one container asks for slices; None if no node fits."""
        table, leave = self.table, request.rank.leave
        scores.refresh()
        best = scores.best(among)
        # The best node of all is nearly always offered: finding this one name is faster than finding all rows.
        if best is not None and nodes is not None and (leave or table.nodes[best] not in nodes):
            among = self._offering(nodes, among)
            best = scores.best(among)
        if best is None:
            return None
        if leave:
            best = _left(scores.value if among is None else np.where(among, scores.value, -np.inf), leave)
        cards, given = table.cards(best), []
        for slot in scores.cells(best):
            part = fit(cards[slot], scores.shape.request)
            if part is None:
                raise AssertionError(f"the table says that {scores.shape.request} fits {cards[slot]}")
            given.append(part)
        return self._granted(request.pod, best, {name: tuple(given) for name, _ in request.containers})

    def _several(
        self, request: PodRequest, among: Mask | None, policy: Policy, budget: SearchBudget
    ) -> Grant | None:
        """The grant of a pod of several containers, on the first node in the policy's order that fits all of them.

        Only nodes that have room for each container alone are tried. None if no node fits, or the budget is used up.
        """
        table, allowed = self.table, allowed_cards(self.table, request)
        candidates = np.ones(len(table.nodes), dtype=bool) if among is None else among.copy()
        for wanted, counts in fits_by_node(table, request, allowed):
            candidates &= counts >= wanted
        positions = np.flatnonzero(candidates)
        leave, found, refused = request.rank.leave, None, set[bytes]()
        order = np.argsort(-policy.several(NodeView(table, positions)), kind="stable")
        for position in positions[order].tolist():
            slots = np.flatnonzero(allowed[position])
            # If a pod does not fit one node, it fits no other node whose cards have equal states.
            alike = np.sort(table.states.code[position, slots]).tobytes()
            if alike in refused:
                continue
            if not budget.next_node():
                break
            cards = table.cards(position)
            given = fit_pod([cards[slot] for slot in slots], request.containers, budget)
            if given is None:
                refused.add(alike)
                continue
            found = self._granted(request.pod, position, given)
            if not leave:
                break
            leave -= 1
        return found

    def _granted(self, pod: str, position: int, slices: Mapping[str, tuple[Slice, ...]]) -> Grant:
        """The grant of these slices, with the present sizes of their cards."""
        named = {s.card for given in slices.values() for s in given}
        sizes = {
            state.card.uuid: state.card.size
            for state in self.table.cards(position)
            if state.card.uuid in named
        }
        return Grant(pod, self.table.nodes[position], slices, cards=sizes)

    def _modelled(self, tables: WorkloadTables) -> Model:
        return Model(replace(self._model.given, tables=tables), self._model)


def _both(one: Mask | None, other: Mask | None) -> Mask | None:
    """The marks that are in both masks; None stands for a mask in which all are marked."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _left(value: Floats, leave: int) -> int:
    """The position of the best node after the `leave` best nodes, which are left to pods of earlier roles.

    If fewer nodes fit, the result is the position of the worst node that fits.
    """
    order = np.argsort(-value, kind="stable")
    return int(order[min(leave, int((value > -np.inf).sum()) - 1)])
