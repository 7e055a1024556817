"""`place`: request + ledger → grant, or a refusal. The extender, the benchmarks and the simulator all call this one."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from device_plugin.core.grants import MAX_CONTAINERS, Grant, Slice
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import causes
from device_plugin.core.placement.fit import fit
from device_plugin.core.placement.index import Index, Rows
from device_plugin.core.placement.need import Need
from device_plugin.core.placement.node_fit import Looks, fit_pod
from device_plugin.core.placement.policy import DEFAULT, POLICIES, Policy, least
from device_plugin.core.placement.refusal import Refusal
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import PodRequest


class Placer:
    """Decides against one ledger, with an index that follows it. Callers hold the ledger's lock."""

    def __init__(self, ledger: Ledger) -> None:
        self._index = Index(ledger)

    def place(self, request: PodRequest, nodes: Sequence[str] | None = None) -> Grant | Refusal:
        """Choose among `nodes` (None: all). The ledger is not changed: the caller holds the grant, or does not."""
        self._index.refresh()
        policy = POLICIES.get(request.policy or DEFAULT)
        if policy is None:
            known = ", ".join(sorted(POLICIES))
            return self._outright(
                Reason.POLICY, f"no placement policy {request.policy!r}: write {known}", nodes
            )
        if not 0 < len(request.containers) <= MAX_CONTAINERS:
            said = (
                f"{len(request.containers)} containers ask for slices: at most {MAX_CONTAINERS} of a pod can"
            )
            return self._outright(Reason.MALFORMED, said, nodes)
        allowed = self._allowed(request, nodes)
        if len(request.containers) == 1 and not request.containers[0][1].whole:
            grant = self._one(request, allowed, policy)
        else:
            grant = self._several(request, allowed, policy)
        return grant or causes.refusal(self._index, request, nodes)

    def _allowed(self, request: PodRequest, nodes: Sequence[str] | None) -> Rows:
        index = self._index
        allowed = index.usable if nodes is None else index.usable & index.on(nodes)
        return (
            allowed
            & index.accepted(request.models, index.models)
            & index.accepted(request.uuids, index.uuids)
        )

    def _one(self, request: PodRequest, allowed: Rows, policy: Policy) -> Grant | None:
        index = self._index
        ((name, asked),) = request.containers
        need = Need(index, asked)
        rows = np.flatnonzero(allowed & index.of_family(asked.family) & need.fits())
        if not len(rows):
            return None
        row = int(rows[least(policy(need.leftover()[rows], index.slack[rows]))])
        given = fit(index.cards[row], asked)
        if not isinstance(given, Slice):
            raise AssertionError(f"the index says that {asked} fits row {row}, the card says {given}")
        return Grant(request.pod, index.names[row], {name: (given,)})

    def _several(self, request: PodRequest, allowed: Rows, policy: Policy) -> Grant | None:
        """Nodes that each request fits often enough by itself, in the policy's order, until one fits them together."""
        index = self._index
        room = np.ones(len(index.nodes), dtype=bool)
        for asked, times in Counter(asked for _, asked in request.containers).items():
            copies = np.where(allowed & index.of_family(asked.family), Need(index, asked).copies(), 0)
            room &= index.by_node(copies) >= times * max(1, asked.whole)
        nodes = np.flatnonzero(room)
        slack = index.slack[[index.rows(index.nodes[node])[0] for node in nodes]]
        looks = Looks()
        for position in np.lexsort(tuple(reversed(policy(np.zeros_like(slack), slack)))):
            if not looks.next_node():
                return None
            name = index.nodes[nodes[position]]
            first, after = index.rows(name)
            cards = [index.cards[row] for row in range(first, after) if allowed[row]]
            given = fit_pod(cards, request.containers, looks)
            if given is not None:
                return Grant(request.pod, name, given)
        return None

    def _outright(self, reason: Reason, said: str, nodes: Sequence[str] | None) -> Refusal:
        names = self._index.nodes if nodes is None else nodes
        return Refusal({}, {reason: len(names)}, {}, dict.fromkeys(names, reason), said)
