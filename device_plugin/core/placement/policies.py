"""Placement policies: score the cards that fit. No policy decides whether a request fits.

DECLARED lists all of them. Policies that compare only the free part of cards and nodes are defined here; the others
have modules of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from device_plugin.core.app_types import DEFAULT_TYPE, TYPES, Scoring
from device_plugin.core.hosts import NOTHING
from device_plugin.core.placement.cache import Policy
from device_plugin.core.placement.card_columns import CardKind, Floats, Mask
from device_plugin.core.placement.expected_fill import ExpectedFill
from device_plugin.core.placement.fill import Fill
from device_plugin.core.placement.fit import CardFit
from device_plugin.core.placement.fragmentation import Fgd, FragmentationGauge, Fragments
from device_plugin.core.placement.node_score import NodeScore
from device_plugin.core.placement.table import NodeTable, NodeView
from device_plugin.core.placement.workload import Weighted
from device_plugin.core.requests import ANYTHING, PodRequest, Shape

# The largest node, by which BestFit scales cards and CPU; only the ratio matters.
LARGEST_CARDS, LARGEST_CPU = 8, 128_000
# The weight of the first of two sort keys in one float: a node of 64 cards has a slack of at most 1.28e8 millionths, so
# one step of the first key outweighs any second key, and both together are exact in a float.
STEP = 1 << 28
# The share of pods whose shapes FGD counts: rarer ones cost time and change nothing. KINDS bounds the
# number of shapes that differ in more than CPU, because each of them is compared with every card.
COVER, KINDS = 0.95, 128
# Shapes, without CPU and models, that count in the fragmentation gauge, which is measured all the time.
PLAIN = 48


class Pack(Policy):
    """Choose the card with the least left after the request, of equal ones on the fullest node."""

    def slices(self, view: NodeView, need: CardFit, _shape: Shape) -> Floats:
        """Highest where the least of the card is left; of equal ones, on the fullest node."""
        return -(need.leftover() * float(STEP) + view.node_slack()[:, None])


class Spread(Policy):
    """Choose the emptiest node, and there the emptiest card."""

    def slices(self, view: NodeView, need: CardFit, _shape: Shape) -> Floats:
        """Highest on the emptiest node; there, highest for the card with the most left."""
        return view.node_slack()[:, None] * 2.0**22 + need.leftover()

    def several(self, view: NodeView) -> Floats:
        """Highest for the emptiest node."""
        return view.node_slack()


class BestFit(Policy):
    """Choose the node with the least CPU and cards left, and there the card with the least left.

    This is the baseline of FGD's paper (ATC'23): each dimension is divided by that of the largest node.
    """

    def slices(self, view: NodeView, need: CardFit, _shape: Shape) -> Floats:
        """Highest on the node with the least left; there, highest for the card with the least left."""
        return _fullness(view)[:, None] - need.leftover() * 1e-12

    def whole(self, view: NodeView, _taken: Mask, _shape: Shape) -> Floats:
        """Highest for the node with the least left."""
        return _fullness(view)


class Random(Policy):
    """Choose a random node and card for each decision: a baseline for the other policies."""

    lasting = False

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def slices(self, view: NodeView, _need: CardFit, _shape: Shape) -> Floats:
        """A random score for each node, and a smaller one for each card."""
        return self._rng.random((len(view.kind), 1)) + 1e-9 * self._rng.random(view.kind.shape)

    def whole(self, view: NodeView, _taken: Mask, _shape: Shape) -> Floats:
        """A random score for each node."""
        return self._rng.random(len(view.kind))


def _fullness(view: NodeView) -> Floats:
    # The pod takes equal amounts on every node, so the amounts left now order the nodes as those left afterwards would.
    cards = np.where(view.there, view.idle(), 0).sum(axis=1)
    return -(cards / LARGEST_CARDS + view.cpu / LARGEST_CPU)


class WorkloadTables:
    """Tables that policies compute once for a target workload: `shapes`, the most frequent first, on cards of `kinds`.

    `supply` is the number of cards of each kind. They take seconds to compute, in the background.
    """

    def __init__(self, kinds: Sequence[CardKind], supply: Sequence[int], shapes: Sequence[Weighted]) -> None:
        self.kinds = tuple(kinds)
        self.shapes = tuple(shapes)
        self.fill = Fill(self.kinds, supply, self.shapes)
        most = _most(self.shapes)
        self.fragments = Fragments(self.kinds, most)
        self.plain = Fragments(self.kinds, _plainest(most))
        """For the gauge: the most frequent shapes without models. Several times faster, with nearly equal figures."""


def _plainest(shapes: Sequence[Weighted]) -> Sequence[Weighted]:
    plain = [replace(each, shape=replace(each.shape, models=ANYTHING)) for each in shapes]
    counts: dict[Shape, float] = {}
    for each in plain:
        shape = replace(each.shape, host=NOTHING)
        counts[shape] = counts.get(shape, 0.0) + each.count
    frequent = set(sorted(counts, key=lambda shape: -counts[shape])[:PLAIN])
    return [each for each in plain if replace(each.shape, host=NOTHING) in frequent]


def _most(shapes: Sequence[Weighted]) -> Sequence[Weighted]:
    total, seen, kinds = sum(each.count for each in shapes), 0.0, set[Shape]()
    for number, each in enumerate(shapes):
        kinds.add(replace(each.shape, host=NOTHING))
        if seen >= COVER * total or len(kinds) > KINDS:
            return shapes[:number]
        seen += each.count
    return shapes


@dataclass(frozen=True, slots=True)
class Given:
    """The inputs of a policy: tables of the target workload, the node table, and the settings of node-score."""

    tables: WorkloadTables
    table: NodeTable
    scoring: Scoring


@dataclass(frozen=True, slots=True)
class Declared:
    """One entry of the list of placement policies. Pods may name it in their annotation if it is `offered`.

    A policy that `learns` needs a target workload; without one UNTIL_LEARNT decides. A policy `by_type` is made once
    for each application type.
    """

    name: str
    make: Callable[[Given, str], Policy]
    offered: bool = True
    learns: bool = False
    by_type: bool = False

    def named(self, app_type: str) -> str:
        """The name under which scores for pods of `app_type` are cached."""
        return f"{self.name} {app_type or DEFAULT_TYPE}" if self.by_type else self.name


DEFAULT, NODE_SCORE, UNTIL_LEARNT = "fragmentation", "node-score", "pack"
DECLARED = {
    each.name: each
    for each in (
        Declared("best-fit", lambda _given, _type: BestFit()),
        Declared("fgd", lambda given, _type: Fgd(given.tables.fragments), learns=True),
        Declared(DEFAULT, lambda given, _type: ExpectedFill(given.tables.fill, given.table), learns=True),
        Declared(
            NODE_SCORE, lambda given, app_type: NodeScore(given.scoring.weights[app_type], given.scoring),
            by_type=True,
        ),
        Declared("pack", lambda _given, _type: Pack()),
        Declared("random", lambda _given, _type: Random(), offered=False),
        Declared("spread", lambda _given, _type: Spread()),
    )
}  # fmt: skip
POLICIES = tuple(DECLARED)
OFFERED = tuple(each.name for each in DECLARED.values() if each.offered)


class Model:
    """All policies, by the name of their scores, with one set of workload tables.

    To score all nodes takes longer than a decision may. So `prepare` scores a few nodes at a time, before the model is
    used for decisions.
    """

    def __init__(self, given: Given, before: "Model | None" = None) -> None:
        self.given = given
        self.gauge = FragmentationGauge(given.table, given.tables.plain)
        self.policies: dict[str, Policy] = {}
        for each in DECLARED.values():
            for app_type in TYPES if each.by_type else ("",):
                name = each.named(app_type)
                # A policy that does not learn is taken over from the earlier model, so that its scores stay valid.
                known = before.policies[name] if before is not None and not each.learns else None
                self.policies[name] = known or each.make(given, app_type)

    def policy(self, request: PodRequest) -> tuple[str, Policy]:
        """The policy that decides the request, and the name of its scores."""
        declared = DECLARED[request.policy or DEFAULT]
        if declared.learns and not self.learnt:
            declared = DECLARED[UNTIL_LEARNT]
        name = declared.named(request.app_type)
        return name, self.policies[name]

    @property
    def learnt(self) -> bool:
        """True if there is a target workload, and its tables are for the present kinds of cards."""
        return bool(self.given.tables.shapes) and self.given.tables.kinds == tuple(self.given.table.kinds)

    def prepare(self, most: int) -> bool:
        """Update bounds and fragmentation of at most `most` changed nodes; true once none is left. Needs `learnt`."""
        bounds = [policy.bounds for policy in self.policies.values() if policy.bounds is not None]
        return all(each.refresh(most) for each in bounds) and self.gauge.refresh(most)
