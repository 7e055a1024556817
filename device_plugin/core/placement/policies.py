"""Placement policies: which of the cards that fit is taken. Feasibility is never theirs to decide.

DECLARED is the one list of them. Policies that look at remainders alone stand here; the others have files of their own.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from device_plugin.core.app_types import DEFAULT_TYPE, TYPES, Scoring
from device_plugin.core.hosts import NOTHING
from device_plugin.core.placement.cache import Policy
from device_plugin.core.placement.expected_fill import ExpectedFill
from device_plugin.core.placement.fill import Fill
from device_plugin.core.placement.fit import CardFit
from device_plugin.core.placement.fragmentation import Fgd, FragmentationGauge, Fragments
from device_plugin.core.placement.node_score import NodeScore
from device_plugin.core.placement.table import Floats, Kind, Mask, NodeTable, NodeView
from device_plugin.core.placement.workload import Weighted
from device_plugin.core.requests import ANYTHING, PodRequest, Shape

# The sizes by which BestFit compares cards with CPU; only their ratio matters.
LARGEST_CARDS, LARGEST_CPU = 8, 128_000
# A node of 64 cards has a slack of 1.28e8 millionths: one such step of the first key outweighs any second key, and
# both together are exact in a float.
STEP = 1 << 28
# FGD's own cut: rare shapes cost time and change nothing. KINDS bounds the shapes, CPU apart, for each is looked at for
# every card.
COVER, KINDS = 0.95, 128
# Shapes, CPU and models apart, that count where fragmentation is measured all the time.
PLAIN = 48


class Pack(Policy):
    """Best fit on the card, then the fullest node."""

    def slices(self, view: NodeView, need: CardFit, _shape: Shape) -> Floats:
        """The less would remain of the card, the better."""
        return -(need.leftover() * float(STEP) + view.node_slack()[:, None])

    def whole(self, view: NodeView, _taken: Mask, _shape: Shape) -> Floats:
        """The fullest node."""
        return -view.node_slack()


class Spread(Policy):
    """The emptiest node, then the emptiest card."""

    def slices(self, view: NodeView, need: CardFit, _shape: Shape) -> Floats:
        """The more is free on the node, the better."""
        return view.node_slack()[:, None] * 2.0**22 + need.leftover()

    def whole(self, view: NodeView, _taken: Mask, _shape: Shape) -> Floats:
        """The emptiest node."""
        return view.node_slack()

    def several(self, view: NodeView) -> Floats:
        """The emptiest node."""
        return view.node_slack()


class BestFit(Policy):
    """The node with the least left, CPU and cards counting alike; there the card with the least left.

    As the baseline of FGD's paper (ATC'23) does it: each dimension against the largest node.
    """

    def slices(self, view: NodeView, need: CardFit, _shape: Shape) -> Floats:
        """The less would remain of the node, the better; then of the card."""
        return _fullness(view)[:, None] - need.leftover() * 1e-12

    def whole(self, view: NodeView, _taken: Mask, _shape: Shape) -> Floats:
        """The less would remain of the node, the better."""
        return _fullness(view)


class Random(Policy):
    """A random node and a random card, drawn anew for each decision: the baseline for all other policies."""

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
    # What the pod takes is the same everywhere, so what is left now orders the nodes as what remains does.
    cards = np.where(view.there, view.idle(), 0).sum(axis=1)
    fullness: Floats = -(cards / LARGEST_CARDS + view.cpu / LARGEST_CPU)
    return fullness


class WorkloadTables:
    """What policies know of a target workload, `shapes`, the most frequent first, on cards of these `kinds`.

    `supply` has the number of cards of each kind. It takes seconds to make, off the decision path.
    """

    def __init__(self, kinds: Sequence[Kind], supply: Sequence[int], shapes: Sequence[Weighted]) -> None:
        self.kinds = tuple(kinds)
        self.shapes = tuple(shapes)
        self.fill = Fill(self.kinds, supply, self.shapes)
        most = _most(self.shapes)
        self.fragments = Fragments(self.kinds, most)
        self.plain = Fragments(self.kinds, _plainest(most))
        """For the gauge: the most frequent shapes, models left out: several times faster, and hardly another figure."""


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
    """What a policy can be made of: tables of the target workload, the node table, and the settings of node-score."""

    tables: WorkloadTables
    table: NodeTable
    scoring: Scoring


@dataclass(frozen=True, slots=True)
class Declared:
    """One placement policy. Pods may name it in their annotation if it is `offered`.

    One that `learns` is used once there is a target workload, and UNTIL_LEARNT until then. One `by_type` is made for
    each application type.
    """

    name: str
    make: Callable[[Given, str], Policy]
    offered: bool = True
    learns: bool = False
    by_type: bool = False

    def named(self, app_type: str) -> str:
        """The name under which the policy's scores for a pod of an application type are kept."""
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
    """The policies by the name of their scores, those that learn by one set of tables.

    To look at all nodes takes longer than a decision may. So they are looked at a few at a time, before anything is
    decided by the model.
    """

    def __init__(self, given: Given, before: "Model | None" = None) -> None:
        self.given = given
        self.gauge = FragmentationGauge(given.table, given.tables.plain)
        self.policies: dict[str, Policy] = {}
        for each in DECLARED.values():
            for app_type in TYPES if each.by_type else ("",):
                name = each.named(app_type)
                # A policy that does not learn stays the same object, so that its scores stay valid.
                known = before.policies[name] if before is not None and not each.learns else None
                self.policies[name] = known or each.make(given, app_type)

    def fork(self, table: NodeTable) -> "Model":
        """The model for a fork of the node table."""
        made = copy(self)
        made.given = replace(self.given, table=table)
        made.gauge = FragmentationGauge(table, self.given.tables.plain)
        made.policies = {name: policy.fork(table) for name, policy in self.policies.items()}
        return made

    def policy(self, request: PodRequest) -> tuple[str, Policy]:
        """The policy that decides the request, with the name of its scores."""
        declared = DECLARED[request.policy or DEFAULT]
        if declared.learns and not self.learnt:
            declared = DECLARED[UNTIL_LEARNT]
        name = declared.named(request.app_type)
        return name, self.policies[name]

    @property
    def learnt(self) -> bool:
        """True if there is a target workload, and it is about the cards that there are."""
        return bool(self.given.tables.shapes) and self.given.tables.kinds == tuple(self.given.table.kinds)

    def prepare(self, most: int) -> bool:
        """Look at no more than `most` nodes that changed since; true once none is left. Only where it is `learnt`."""
        bounds = [policy.bounds for policy in self.policies.values() if policy.bounds is not None]
        return all(each.renew(most) for each in bounds) and self.gauge.refresh(most)
