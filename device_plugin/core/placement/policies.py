"""Placement policies: they score the cards that fit. No policy decides whether a request fits.

DECLARED lists all policies. This module defines the policies that compare only the free part of cards and nodes; each
other policy has a module.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

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

# The cards and CPU of a large node, by which BestFit scales both; only their ratio matters.
LARGEST_CARDS, LARGEST_CPU = 8, 128_000
# The weight of the first of two sort keys in one float: a node of 64 cards has a slack of at most 1.28e8 millionths, so
# one step of the first key outweighs any second key, and both together are exact in a float.
STEP = 1 << 28
# FGD counts the most frequent shapes that make up the share COVER of all pods: rarer ones cost time and change nothing.
# KINDS bounds the shapes that differ in more than CPU, because each of them is compared with every card.
COVER, KINDS = 0.95, 128
# Most shapes, without CPU and models, in the fragmentation gauge: few, because it is measured all the time.
PLAIN = 48


class Pack(Policy):
    """Choose the card with the least free part after the request; of equal cards the card on the fullest node."""

    def slices(self, view: NodeView, need: CardFit, _shape: Shape) -> Floats:
        """The score of each card: highest with the least free part after the request, then on the fullest node."""
        return -(need.leftover() * float(STEP) + view.node_slack()[:, None])


class Spread(Policy):
    """Choose the emptiest node, and there the emptiest card."""

    def slices(self, view: NodeView, need: CardFit, _shape: Shape) -> Floats:
        """The score of each card: highest on the emptiest node, and there for the emptiest card."""
        return view.node_slack()[:, None] * 2.0**22 + need.leftover()

    def several(self, view: NodeView) -> Floats:
        """The score of each node: highest for the emptiest node."""
        return view.node_slack()


class BestFit(Policy):
    """Choose the node with the least free CPU and cards, and there the card with the least free part.

    This is the baseline of FGD's paper (ATC'23): free CPU and free cards are divided by those of the largest node.
    """

    def slices(self, view: NodeView, need: CardFit, _shape: Shape) -> Floats:
        """The score of each card: highest on the fullest node, and there for the fullest card."""
        return _fullness(view)[:, None] - need.leftover() * 1e-12

    def whole(self, view: NodeView, _taken: Mask, _shape: Shape) -> Floats:
        """The score of each node: highest for the fullest node."""
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
    # The pod takes equal amounts on every node, so free amounts before and after it order the nodes in the same way.
    cards = np.where(view.there, view.idle(), 0).sum(axis=1)
    return -(cards / LARGEST_CARDS + view.cpu / LARGEST_CPU)


class WorkloadTables:
    """The tables that policies need for a target workload, the requests expected of later pods.

    `shapes` are the kinds of these requests, the most frequent first. `kinds` are the kinds of cards, and `supply` is
    the number of cards of each kind. Computing the tables takes seconds, in the background.
    """

    def __init__(self, kinds: Sequence[CardKind], supply: Sequence[int], shapes: Sequence[Weighted]) -> None:
        self.kinds = tuple(kinds)
        self.shapes = tuple(shapes)
        self.fill = Fill(self.kinds, supply, self.shapes)
        most = _most(self.shapes)
        self.fragments = Fragments(self.kinds, most)
        self.plain = Fragments(self.kinds, _plainest(most))
        """The fragments for the gauge: without card models they are several times faster, and nearly as exact."""


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
    """The inputs of a policy: tables for expected requests, the node table, and the settings of `node-score`."""

    tables: WorkloadTables
    table: NodeTable
    scoring: Scoring


@dataclass(frozen=True, slots=True)
class Declared:
    """The declaration of one placement policy. Pods may name the policy in their annotation if it is `offered`.

    A policy that `learns` needs a target workload; without one the policy UNTIL_LEARNT decides. `by_type`: there is one
    policy object for each application type. `apart`: the policy gives each pod of a group a node of its own, in the
    order of their ranks.
    """

    name: str
    make: Callable[[Given, str], Policy]
    offered: bool = True
    learns: bool = False
    by_type: bool = False
    apart: bool = False

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
            by_type=True, apart=True,
        ),
        Declared("pack", lambda _given, _type: Pack()),
        Declared("random", lambda _given, _type: Random(), offered=False),
        Declared("spread", lambda _given, _type: Spread()),
    )
}  # fmt: skip
POLICIES = tuple(DECLARED)
OFFERED = tuple(each.name for each in DECLARED.values() if each.offered)
APART = frozenset(each.name for each in DECLARED.values() if each.apart)


class Model:
    """All placement policies for one set of workload tables, by the name under which their scores are cached.

    Scoring all nodes takes longer than a decision may. So `prepare` scores a few nodes at a time, before decisions use
    the policies.
    """

    def __init__(self, given: Given, before: "Model | None" = None) -> None:
        self.given = given
        self.gauge = FragmentationGauge(given.table, given.tables.plain)
        self.policies: dict[str, Policy] = {}
        for each in DECLARED.values():
            for app_type in TYPES if each.by_type else ("",):
                name = each.named(app_type)
                # The earlier model's policy is kept if it does not learn, so that its scores stay valid.
                known = before.policies[name] if before is not None and not each.learns else None
                self.policies[name] = known or each.make(given, app_type)

    def policy(self, request: PodRequest) -> tuple[str, Policy]:
        """The name under which scores for the request are cached, and the policy that decides the request."""
        declared = DECLARED[request.policy or DEFAULT]
        if declared.learns and not self.learnt:
            declared = DECLARED[UNTIL_LEARNT]
        name = declared.named(request.app_type)
        return name, self.policies[name]

    @property
    def learnt(self) -> bool:
        """True if there are tables for expected requests (target workload), and for the present kinds of cards."""
        return bool(self.given.tables.shapes) and self.given.tables.kinds == tuple(self.given.table.kinds)

    def prepare(self, most: int) -> bool:
        """Update the upper bounds and the fragmentation of at most `most` changed nodes; true once all are up to date.

        It may be called only while `learnt` is true.
        """
        bounds = [policy.bounds for policy in self.policies.values() if policy.bounds is not None]
        return all(each.refresh(most) for each in bounds) and self.gauge.refresh(most)
