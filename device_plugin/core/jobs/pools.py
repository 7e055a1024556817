"""Pools: divide the cards of a cluster into parts that are planned separately; a job runs in one pool.

- A pod runs on one node, so families (kinds of cards, such as `hygon.com/dcu`) that share no node are in different
  pools.
- If all nodes of a family have the label `vgpu.io/pool`, each value of the label is a pool. If one node lacks it, the
  family is one pool, because jobs that name no pool may run on any node.
- A kubelet may write that label on its own node, but not the label `node-restriction.kubernetes.io/vgpu-pool`. If any
  node has the second label, only the second label counts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from device_plugin.core.contract.annotations import POOL, RESTRICTED_POOL
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.node_constraints import NodeConstraints, NodeIndex, Operator
from device_plugin.core.requests import PodRequest

# Most pools of a cluster: each has a Lease, whose name the engine's role must list.
MOST_POOLS = 16
UnitKey = tuple[str, str, str]
"""Kind (group, split or job), namespace and name of Jobs that are all planned by one planner."""


@dataclass(frozen=True, slots=True, order=True)
class Pool:
    """A pool, a part of the cluster's cards that is planned separately: the cards of nodes that belong together.

    `family` is the family of these cards, such as `hygon.com/dcu`; if several families share nodes, the first of them
    by name. `label` is the value of the label that names pools on these nodes; empty if the label does not divide the
    family.
    """

    family: str
    label: str = ""

    def __str__(self) -> str:
        """The name of this part of the cards: `hygon.com/dcu`, or `hygon.com/dcu/a` if a label divides the nodes."""
        return f"{self.family}/{self.label}" if self.label else self.family


@dataclass(frozen=True, slots=True)
class Pools:
    """The pools of a cluster in order, with the names of their nodes and the kinds of their cards (family and model).

    `key` is the node label that divides families into pools. `problem` says, as text, why this label does not divide
    some nodes although they have it; else it is empty.
    """

    nodes: Mapping[Pool, frozenset[str]] = field(default_factory=dict)
    kinds: Mapping[Pool, frozenset[tuple[str, str]]] = field(default_factory=dict)
    problem: str = ""
    key: str = POOL

    def of_node(self, name: str) -> Pool | None:
        """The pool (part of the cards) that a node belongs to; None if the node has no cards."""
        return next((pool for pool, names in self.nodes.items() if name in names), None)


def pool_label(index: NodeIndex) -> str:
    """The node label that names pools (parts of the cards): the restricted label if used, else `vgpu.io/pool`."""
    return RESTRICTED_POOL if any(index.values_of(RESTRICTED_POOL).values()) else POOL


def pools_of(inventories: Mapping[str, Inventory], labels: Mapping[str, str], key: str = POOL) -> Pools:
    """The pools of the nodes with cards in `inventories`; `labels` holds each node's value of the label `key`.

    If the label makes more than MOST_POOLS pools, the families with the most pools are not divided. If there are still
    too many pools, all nodes are one pool.
    """
    first = _first_families(inventories.values())
    of = {
        name: first[inventory.cards[0].family] for name, inventory in inventories.items() if inventory.cards
    }
    lacking = {of[name]: name for name in sorted(of, reverse=True) if not labels.get(name)}
    divided = {family for family in of.values() if family not in lacking}
    problem = "; ".join(
        f"{family} is one pool, because node {name} has no label {key}: write it there, or on no node"
        for family, name in sorted(lacking.items())
        if any(labels.get(other) for other, found in of.items() if found == family)
    )
    while divided and len(_pools(of, labels, divided)) > MOST_POOLS:
        counts = Counter(pool.family for pool in _pools(of, labels, divided))
        family, _ = max(counts.items(), key=lambda each: (each[1], each[0]))
        divided.discard(family)
        problem = (
            f"{family} is one pool, because at most {MOST_POOLS} pools can be: write fewer values of {key}"
        )
    if len(_pools(of, labels, divided)) > MOST_POOLS:
        of = dict.fromkeys(of, min(of.values()))
    nodes: dict[Pool, set[str]] = {}
    kinds: dict[Pool, set[tuple[str, str]]] = {}
    for name, family in of.items():
        pool = Pool(family, labels[name] if family in divided else "")
        nodes.setdefault(pool, set()).add(name)
        kinds.setdefault(pool, set()).update((card.family, card.model) for card in inventories[name].cards)
    return Pools(
        {pool: frozenset(nodes[pool]) for pool in sorted(nodes)},
        {pool: frozenset(kinds[pool]) for pool in sorted(kinds)},
        problem,
        key,
    )


def _pools(of: Mapping[str, str], labels: Mapping[str, str], divided: set[str]) -> set[Pool]:
    return {Pool(family, labels[name] if family in divided else "") for name, family in of.items()}


def _first_families(inventories: Iterable[Inventory]) -> Mapping[str, str]:
    """For each family of cards, the first by name of the families that share nodes with it.

    Families that share nodes only through other families count too.
    """
    first: dict[str, str] = {}
    for inventory in inventories:
        families = {card.family for card in inventory.cards}
        joined = {first.get(family, family) for family in families}
        least = min(joined, default="")
        for family in families:
            first.setdefault(family, least)
        for family, of in first.items():
            if of in joined:
                first[family] = least
    return first


def unit_key(job: JobSpec) -> UnitKey:
    """The key of the Jobs that are planned together with this one: its group, else its split, else itself.

    A split is a job whose sub-tasks may be Jobs.
    """
    namespace, name = job.key
    if job.joint:
        return "group", namespace, job.group
    if job.split_of:
        return "split", namespace, job.split_of
    return "job", namespace, name


def pinned(constraints: NodeConstraints, key: str) -> bool:
    """True if a job's constraints allow only nodes with one certain value of the label `key`."""
    return any(
        each.key == key and each.operator is Operator.IN and len(each.values) == 1
        for each in constraints.required
    )


class Fitting:
    """Finds the pools with cards that jobs may use, for the nodes of one moment; it remembers its answers."""

    def __init__(self, pools: Pools, index: NodeIndex) -> None:
        self.pools = pools
        self._index = index
        self._bits = {
            pool: sum(1 << index.position[name] for name in names if name in index.position)
            for pool, names in pools.nodes.items()
        }
        self._by_kind: dict[object, tuple[Pool, ...]] = {}

    def of(self, jobs: Iterable[JobSpec]) -> tuple[Pool, ...]:
        """The pools (parts of the cards) that have cards for every one of the jobs; all pools if no job asks for cards.

        Cards on cordoned or ill nodes count for a job only if no pool has other cards for it.
        """
        found = tuple(self.pools.nodes)
        for job in (one for each in jobs for one in each.alike):
            if job.cards:
                fitting = self._one(job)
                found = tuple(pool for pool in found if pool in fitting)
        return found

    def _one(self, job: JobSpec) -> Sequence[Pool]:
        kinds = self._with_kinds(job.request)
        # Cordoned and ill nodes come back: a job that may use only such nodes waits in their pools.
        for allowed in (self._index.allowed(job.nodes), self._index.allowed_later(job.nodes)):
            found = kinds if allowed is None else [pool for pool in kinds if self._bits[pool] & allowed.bits]
            if found:
                return found
        return ()

    def _with_kinds(self, request: PodRequest) -> tuple[Pool, ...]:
        families = frozenset(asked.family for _, asked in request.containers)
        key = families, request.models
        if key not in self._by_kind:
            if len(self._by_kind) >= 4096:
                self._by_kind.clear()
            self._by_kind[key] = tuple(
                pool
                for pool, kinds in self.pools.kinds.items()
                if all(
                    any(of == family and request.models.accepts_model(model) for of, model in kinds)
                    for family in families
                )
            )
        return self._by_kind[key]
