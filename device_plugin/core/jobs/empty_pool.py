"""The empty pool: the number of replicas that a pool could hold if nothing ran, and its closed cards.

A card is closed while it is cordoned or unhealthy, its agent does not serve, or its node is cordoned or ill. Closed
cards may open again. So a job that is too large for the open cards waits; it is refused only if it is too large for all
cards.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.jobs.job import EXACT, JobSpec
from device_plugin.core.ledger import Ledger, NodeState
from device_plugin.core.node_constraints import NodeConstraints, NodeIndex, NodeSet
from device_plugin.core.placement.card_columns import Ints, Mask
from device_plugin.core.placement.fit import (
    CardFit,
    KindSizes,
    allowed_cards,
    by_cards,
    limited,
    looks_at_all,
)
from device_plugin.core.placement.table import NodeTable
from device_plugin.core.requests import PodRequest

# The room for replicas without cards: CPU and memory are not counted, because pods of others use them too.
UNBOUNDED = 2**31
# Most closed cards that a text names.
MOST_NAMED = 3


_Where = tuple[NodeSet | None, bool]
"""A key for answers: the nodes where pods may go (None: all), and whether closed cards count."""


class EmptyPool:
    """Finds how much the nodes of a pool (part of the cards) could hold if nothing ran.

    `index` finds the nodes that constraints allow; None allows all nodes. A new object is made when the nodes change.
    Answers about a request are kept only while a job has that request.
    """

    def __init__(self, nodes: Mapping[str, NodeState], index: NodeIndex | None = None) -> None:
        ledger = Ledger()
        self._nodes = _inventories(nodes)
        for name, (inventory, whole) in self._nodes.items():
            ledger.set_node(name, inventory, whole)
        self._table = NodeTable(ledger)
        self._table.refresh()
        self._index = index
        self._capacity = WeakKeyDictionary[PodRequest, dict[_Where, int]]()
        self._demands = WeakKeyDictionary[PodRequest, dict[_Where, _Demand]]()
        # The last answer of `_by_cards`, and the parts of the request that it is for.
        self._counts: tuple[object, Ints] = None, np.zeros(0, dtype=np.int64)

    def has(self, nodes: Mapping[str, NodeState], index: NodeIndex | None) -> bool:
        """True if this object was made for these nodes and this index; what pods hold on the nodes does not matter."""
        return index is self._index and _inventories(nodes) == self._nodes

    def capacity(self, job: JobSpec, *, closed: bool = False) -> int:
        """The number of the job's replicas for which the open cards have room; with `closed` all cards count."""
        if not job.cards:
            return UNBOUNDED
        found = self.known_capacity(job, closed=closed)
        if found is None:
            where = self._allowed(job.nodes, closed=closed), closed
            found = limited(self._table, self._by_cards(job.request, closed=closed), job.request, where[0])
            self._capacity.setdefault(job.request, {})[where] = found
        return found

    def known_capacity(self, job: JobSpec, *, closed: bool = False) -> int | None:
        """The number of the job's replicas for which there is room, if it was computed before; else None.

        UNBOUNDED for a job that takes no cards. Only open cards count; with `closed` all cards count.
        """
        if not job.cards:
            return UNBOUNDED
        known = self._capacity.get(job.request)
        return None if known is None else known.get((self._allowed(job.nodes, closed=closed), closed))

    def looks(self, request: PodRequest, *, closed: bool) -> int:
        """The cost of computing how often the request fits, in looks (comparisons of a request with one card).

        0 if the previous request asked for the same cards, because its result is kept.
        """
        return 0 if self._counts[0] == _of_cards(request, closed=closed) else looks_at_all(self._table)

    def _by_cards(self, request: PodRequest, *, closed: bool) -> Ints:
        asked = _of_cards(request, closed=closed)
        if self._counts[0] != asked:
            self._counts = asked, by_cards(self._table, request, closed=closed)
        return self._counts[1]

    def may_hold(self, jobs: Sequence[JobSpec], *, closed: bool = False) -> bool:
        """False if the open cards (with `closed`: all cards) are too few for the least replicas of all these jobs."""
        cards: dict[object, int] = {}
        memory = cores = 0.0
        for job in (one for each in jobs for one in each.alike):
            if not job.cards:
                continue
            nodes = self._allowed(job.nodes, closed=closed)
            demand = self._demand(job, nodes, closed=closed)
            families = frozenset(asked.family for _, asked in job.request.containers)
            cards[families, job.request.models, job.request.uuids, nodes] = demand.cards
            memory += job.least * demand.memory
            cores += job.least * demand.cores
        return max(memory, cores) <= sum(cards.values()) + EXACT

    def _demand(self, job: JobSpec, nodes: NodeSet | None, *, closed: bool) -> "_Demand":
        known = self._demands.setdefault(job.request, {})
        if (nodes, closed) not in known:
            cards = self._cards_for(job, closed=closed)
            known[nodes, closed] = _Demand.of(job.request, self._table, cards)
        return known[nodes, closed]

    def closed_cards(self, jobs: Sequence[JobSpec]) -> str:
        """A text with at most MOST_NAMED closed cards that these jobs could use: `card GPU-1 of node a is cordoned`."""
        table, found = self._table, np.zeros_like(self._table.there)
        jobs = [one for each in jobs for one in each.alike]
        for job in jobs:
            shut = self._cards_for(job, closed=True) & ~self._cards_for(job, closed=False)
            for asked in {asked for _, asked in job.request.containers}:
                found |= shut & ~KindSizes(table.kinds, asked).unfit[table.kind]
        texts = list(islice(self._closed(jobs, found), MOST_NAMED))
        more = int(np.count_nonzero(found)) - len(texts)
        return ", ".join([*texts, f"and {more} more"] if more else texts)

    def _closed(self, jobs: Sequence[JobSpec], cells: Mask) -> Iterator[str]:
        table = self._table
        for row, slot in zip(*(axis.tolist() for axis in np.nonzero(cells)), strict=True):
            node, card = table.nodes[row], table.cards(row)[slot].card
            yield f"card {card.uuid} of node {node} {self._cause(jobs, node, row, slot)}"

    def _cause(self, jobs: Sequence[JobSpec], node: str, row: int, slot: int) -> str:
        table = self._table
        if not table.serving[row, slot]:
            return "has no agent that serves"
        if table.cordoned[row, slot]:
            return "is cordoned"
        if not table.usable[row, slot]:
            return "is unhealthy"
        causes = (self._index.passing(node, job.nodes) for job in jobs) if self._index else iter(())
        return f"is on a node that is {next(filter(None, causes), 'closed')}"

    def _allowed(self, constraints: NodeConstraints, *, closed: bool) -> NodeSet | None:
        """The nodes that these constraints allow (None: all); with `closed` also nodes that are cordoned or ill now."""
        if self._index is None:
            return None
        return self._index.allowed_later(constraints) if closed else self._index.allowed(constraints)

    def _cards_for(self, job: JobSpec, *, closed: bool) -> Mask:
        """True for the cards that the job's replicas may use; shape (nodes, cards).

        Only open cards count; with `closed` all cards count.
        """
        cards = allowed_cards(self._table, job.request, closed=closed)
        nodes = self._allowed(job.nodes, closed=closed)
        return cards if nodes is None else cards & self._table.chosen(nodes)[:, None]


def _inventories(nodes: Mapping[str, NodeState]) -> Mapping[str, tuple[Inventory, HostAmounts]]:
    """The inventory, and the host's total CPU, memory and disk, of each node that has an inventory."""
    return {name: (node.inventory, node.whole) for name, node in nodes.items() if node.inventory is not None}


def _of_cards(request: PodRequest, *, closed: bool) -> object:
    """A key with the parts of a request that decide which cards it fits."""
    return [asked for _, asked in request.containers], request.models, request.uuids, closed


class _Demand(NamedTuple):
    """The number of cards that a pod may use, and the least memory and core groups that the pod takes.

    `memory` and `cores` are numbers of cards: 0.5 is half of the memory, or of the core groups, of one card.
    """

    cards: int
    memory: float
    cores: float

    @classmethod
    def of(cls, request: PodRequest, table: NodeTable, allowed: Mask) -> "_Demand":
        """The demand of a pod with this request, which may use the `allowed` cards of the node table `table`."""
        used, memory, cores = np.zeros_like(allowed), 0.0, 0.0
        for asked, times in Counter(asked for _, asked in request.containers).items():
            size = CardFit(table, KindSizes(table.kinds, asked))
            fitting = allowed & ~size.sizes.unfit[table.kind]
            if not fitting.any():
                return cls(0, 1.0, 1.0)
            used |= fitting
            wanted = times * asked.cards
            memory += wanted * float((size.mib[fitting] / table.mib[fitting]).min())
            cores += wanted * float((size.cores[fitting] / table.groups[fitting]).min())
        return cls(int(np.count_nonzero(used)), memory, cores)
