"""Searches for room in a ledger of the job engine's own, with a bounded cost, and with memory between searches."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from device_plugin.core import gang
from device_plugin.core.contract.grants import Grant
from device_plugin.core.gang import Member, place_all
from device_plugin.core.jobs.empty_pool import UNBOUNDED, EmptyPool
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.refusals import Refusals
from device_plugin.core.jobs.round_budget import ROUND_LOOKS, RoundBudget
from device_plugin.core.ledger import Ledger
from device_plugin.core.node_constraints import NodeIndex, NodeSet
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.placement.fit import LOOKS, at_most, looks_at_all, whole_cards
from device_plugin.core.placement.policies import DEFAULT, UNTIL_LEARNT
from device_plugin.core.requests import ANYTHING, PodRequest

# If less than 1/FEW of the nodes changed, only the changed nodes are searched.
FEW = 8


class Search:
    """Searches for room in one ledger, by `placer`. It is used in many rounds; `begin` begins each round.

    A round compares a request with a card at most `looks` times; each comparison is a look. For a user without looks
    left, a search finds no room, and an empty pool counts as large enough.
    """

    def __init__(self, ledger: Ledger, placer: Placer, looks: float = ROUND_LOOKS) -> None:
        self._ledger = ledger
        self._placer = placer
        self._looks = looks
        self._refusals = Refusals(ledger)
        self._last: _Last | None = None
        # The ledger's version, and the answer of `free` for it.
        self._free: dict[tuple[PodRequest, NodeSet | None], tuple[int, int]] = {}
        self._emptied: EmptyPool | None = None
        self.begin()

    def begin(self, users: Collection[str] = ()) -> None:
        """Reset the budget of looks (comparisons with a card), which these users share, because a new round begins."""
        self._budget = RoundBudget(users, self._looks)
        # A budget of its own, so that finding jobs that are too large for the pool takes no looks from searches.
        self._sizing_budget = RoundBudget(users, self._looks / 2)
        self._free = {}

    @property
    def cut(self) -> bool:
        """True if a search of this round was left out or cut, because its user had no looks (comparisons) left."""
        return self._budget.cut or self._sizing_budget.cut

    def used_up(self, user: str) -> bool:
        """True if the user has no looks (comparisons with a card) left: a search may then miss room for his jobs."""
        return self._budget.used_up(user)

    def take_sets(
        self, job: JobSpec, held: int, names: Sequence[str], allowed: Callable[[JobSpec], NodeSet | None]
    ) -> Sequence[Grant] | None:
        """Place one further replica of the job for each of `names`; returns the grants of these replicas.

        None, without a change, if they do not all fit. The job has `held` replicas already. `allowed` returns the nodes
        where a set of equal replicas may go (None: all).
        """
        if not job.sets:
            return self.take(job, names, allowed(job))
        found, left = list[Grant](), list(names)
        with self._ledger.transaction() as change:
            for each, count in job.dealt(held, len(names)):
                made = self.take(each, left[:count], allowed(each))
                if made is None:
                    return None
                found += made
                del left[:count]
            change.commit()
        return found

    def take(self, job: JobSpec, names: Sequence[str], nodes: NodeSet | None) -> Sequence[Grant] | None:
        """Place a replica of the job for each of `names` on `nodes` (None: all); returns their grants.

        None, without a change, if they do not all fit.
        """
        if len(names) == 1:
            grant = self._take_one(job, names[0], nodes)
            return None if grant is None else (grant,)
        # The bound is checked first, because a refusal with its reasons costs more.
        if self.free(job, nodes) < len(names):
            return None
        if _fills_nodes(job.request):
            return self._take_each(job, names, nodes)
        budget = self._budget.of(job.user, gang.LOOKS)
        if budget is None:
            return None
        members = (Member(replace(job.request, pod=name), nodes) for name in names)
        answer = place_all(members, self._placer, self._ledger, budget)
        self._budget.charge(job.user, budget)
        return None if isinstance(answer, Refusal) else answer

    def _take_each(self, job: JobSpec, names: Sequence[str], nodes: NodeSet | None) -> Sequence[Grant] | None:
        found = list[Grant]()
        with self._ledger.transaction() as change:
            for name in names:
                grant = self._take_one(job, name, nodes)
                if grant is None:
                    return None
                found.append(grant)
            change.commit()
        return found

    def _take_one(self, job: JobSpec, name: str, nodes: NodeSet | None) -> Grant | None:
        request = replace(job.request, pod=name)
        grant = self._beside(request, nodes) or self._found(job, request, nodes)
        if grant is not None:
            counted, version = self._free.get((job.request, nodes)), self._ledger.version
            self._ledger.hold(grant, request.host)
            self._last = _Last(request, nodes, grant.node, self._ledger.version)
            # A replica of whole cards leaves room for exactly one replica less, so all nodes need not be counted again.
            if counted is not None and counted[0] == version and _fills_nodes(request):
                self._free[job.request, nodes] = self._ledger.version, counted[1] - 1
        return grant

    def _beside(self, request: PodRequest, nodes: NodeSet | None) -> Grant | None:
        """The grant on the node of the latest placed replica, if a search would choose this node again; else None.

        The latest replica must have asked for the same cards and for no more of the host, and the ledger must not have
        changed since. Whole cards are taken from the fullest node that has enough, and this is still the same node.
        Searching one node costs a tenth of searching all nodes.
        """
        last = self._last
        if last is None or last.version != self._ledger.version or not _fills_nodes(request):
            return None
        if last.nodes is not nodes or not last.fits_where(request):
            return None
        node = self._ledger.node(last.node)
        return whole_cards(node, request) if node is not None else None

    def _found(self, job: JobSpec, request: PodRequest, nodes: NodeSet | None) -> Grant | None:
        changed = self._refusals.changed(job.request, nodes)
        if changed == ():
            return None
        budget = self._budget.of(job.user, LOOKS)
        if budget is None:
            return None
        if len(request.containers) > 1:
            budget.spend(len(request.containers) * looks_at_all(self._placer.table))
        grant = self._placer.find(request, self._among(changed, nodes), budget=budget)
        whole = self._budget.charge(job.user, budget)
        if grant is None and whole:
            self._refusals.add(job.request, nodes)
        return grant

    def _among(self, changed: Sequence[str] | None, nodes: NodeSet | None) -> Sequence[str] | None:
        """The nodes to search for room: the `changed` nodes among `nodes` if few nodes changed, else `nodes`.

        None stands for all nodes; `changed` is None if it is not known which nodes changed.
        """
        if changed is None or FEW * len(changed) > len(self._placer.table.nodes):
            return nodes
        return changed if nodes is None else [name for name in changed if name in nodes]

    def free(self, job: JobSpec, nodes: NodeSet | None) -> int:
        """An upper bound of the job's further replicas that fit on `nodes` (None: all); 0 for a user without looks."""
        known = self._free.get((job.request, nodes))
        if known is None or known[0] != self._ledger.version:
            budget = self._budget.of(job.user, LOOKS)
            if budget is None:
                return 0
            self._placer.table.refresh()
            budget.spend(len(job.request.containers) * looks_at_all(self._placer.table))
            known = self._ledger.version, at_most(self._placer.table, job.request, nodes)
            self._budget.charge(job.user, budget)
            self._free[job.request, nodes] = known
        return known[1]

    def empty_pool(self, index: NodeIndex | None) -> EmptyPool:
        """The pool of the ledger's nodes as if nothing ran there; the same object until the nodes change."""
        records = self._ledger.snapshot().records()
        if self._emptied is None or not self._emptied.has(records, index):
            self._emptied = EmptyPool(records, index)
        return self._emptied

    def capacity(self, job: JobSpec, pool: EmptyPool, *, closed: bool) -> int:
        """An upper bound of the job's replicas that fit `pool` when empty; with `closed` its closed cards count too.

        UNBOUNDED if the answer is not known yet and the user has no looks (comparisons with a card) left.
        """
        found = pool.known_capacity(job, closed=closed)
        if found is not None:
            return found
        budget = self._sizing_budget.of(job.user, LOOKS)
        if budget is None:
            return UNBOUNDED
        budget.spend(pool.looks(job.request, closed=closed))
        self._sizing_budget.charge(job.user, budget)
        return pool.capacity(job, closed=closed)


class _Last(NamedTuple):
    """The latest placed replica: its request, its allowed nodes, its node, and the ledger's version after it."""

    request: PodRequest
    nodes: NodeSet | None
    node: str
    version: int

    def fits_where(self, request: PodRequest) -> bool:
        """True if `request` asks for the same cards as the latest placed replica, and for as much of the host or more.

        Then the latest placed replica would fit wherever a replica with `request` fits.
        """
        own, host, other = self.request, self.request.host, request.host
        return (
            own.containers == request.containers
            and (own.models, own.policy) == (request.models, request.policy)
            and host.cpu_milli <= other.cpu_milli
            and host.memory_mib <= other.memory_mib
            and host.disk_mib <= other.disk_mib
        )


def _fills_nodes(request: PodRequest) -> bool:
    """True for a pod of one container that asks for whole cards, if its placement policy fills node after node.

    False if the pod names uuids of cards.
    """
    return (
        len(request.containers) == 1
        and request.containers[0][1].whole > 0
        and request.uuids == ANYTHING
        and request.policy in ("", DEFAULT, UNTIL_LEARNT)
    )
