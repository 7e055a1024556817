"""`place`: request + ledger → grant, or a refusal. The extender, the benchmarks and the simulator all call this one."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from device_plugin.core.grants import Grant, Slice
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement.fit import fit
from device_plugin.core.placement.index import Index, Rows
from device_plugin.core.placement.need import Need
from device_plugin.core.placement.node_fit import fit_pod
from device_plugin.core.placement.policy import DEFAULT, POLICIES, Policy, least
from device_plugin.core.placement.refusal import Refusal, refused
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import PodRequest, Selector


class Placer:
    """Decides against one ledger, with an index that follows it. Callers hold the ledger's lock."""

    def __init__(self, ledger: Ledger) -> None:
        self._index = Index(ledger)

    def place(self, request: PodRequest, nodes: Sequence[str] | None = None) -> Grant | Refusal:
        """Choose among `nodes` (None: all). The ledger is not changed: the caller holds the grant, or does not."""
        self._index.refresh()
        policy = POLICIES.get(request.policy or DEFAULT)
        if policy is None:
            return refused(Reason.POLICY, f"known are {', '.join(sorted(POLICIES))}", request)
        allowed = self._allowed(request, nodes)
        if len(request.containers) == 1 and not request.containers[0][1].whole:
            grant = self._one(request, allowed, policy)
        else:
            grant = self._several(request, allowed, policy)
        return grant or self._refusal(request, nodes)

    def _allowed(self, request: PodRequest, nodes: Sequence[str] | None) -> Rows:
        index = self._index
        allowed = index.usable if nodes is None else index.usable & index.on(nodes)
        for selector, values in self._selectors(request):
            allowed = allowed & _accepted(selector, values)
        return allowed

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
        index = self._index
        candidates = set(index.nodes)
        for _, asked in request.containers:
            fitting = np.flatnonzero(allowed & index.of_family(asked.family) & Need(index, asked).fits())
            counts = Counter(index.names[row] for row in fitting)
            candidates = {name for name in candidates if counts[name] >= max(1, asked.whole)}
        names = sorted(candidates)
        slack = np.array([index.slack[index.rows(name)[0]] for name in names], dtype=np.int64)
        for position in np.lexsort(tuple(reversed(policy(np.zeros_like(slack), slack)))):
            first, after = index.rows(names[position])
            cards = [index.cards[row] for row in range(first, after) if allowed[row]]
            given = fit_pod(cards, request.containers)
            if given is not None:
                return Grant(request.pod, names[position], given)
        return None

    def _refusal(self, request: PodRequest, nodes: Sequence[str] | None) -> Refusal:
        index = self._index
        left = np.ones(len(index.cards), dtype=bool) if nodes is None else index.on(nodes)
        shown = set(index.nodes)
        silent = 0 if nodes is None else sum(1 for name in nodes if name not in shown)
        asked, need = self._hardest(request)
        causes: list[tuple[Reason, Rows]] = [(Reason.FAMILY, ~index.of_family(asked))]
        for reason, (selector, values) in zip(
            (Reason.MODEL, Reason.UUID), self._selectors(request, always=True), strict=True
        ):
            causes.append((reason, ~_accepted(selector, values)))
        causes.append((Reason.TOO_LARGE, need.small))
        causes.append((Reason.NOT_SERVING, ~index.serving))
        causes.append((Reason.UNHEALTHY, ~index.usable))
        causes += need.lacking()
        causes.append((Reason.TOGETHER, np.ones(len(index.cards), dtype=bool)))
        cards: dict[Reason, int] = {}
        details: dict[Reason, str] = {}
        for reason, rows in causes:
            hit = left & rows
            if hit.any():
                cards[reason] = int(hit.sum())
                if detail := need.detail(reason, hit):
                    details[reason] = detail
                left = left & ~rows
        return Refusal(cards, {Reason.NO_INVENTORY: silent} if silent else {}, details)

    def _hardest(self, request: PodRequest) -> tuple[str, Need]:
        """Of the containers the one that fits the fewest cards: its reasons are the pod's."""
        needs = [(asked.family, Need(self._index, asked)) for _, asked in request.containers]
        return min(needs, key=lambda item: int((item[1].fits() & self._index.of_family(item[0])).sum()))

    def _selectors(self, request: PodRequest, *, always: bool = False) -> list[tuple[Selector, list[str]]]:
        """The pod's selectors with the cards' values; without `always` only those that exclude something."""
        cards = self._index.cards
        pairs = [
            (request.models, [c.card.model for c in cards] if always or request.models != Selector() else []),
            (request.uuids, [c.card.uuid for c in cards] if always or request.uuids != Selector() else []),
        ]
        return pairs if always else [pair for pair in pairs if pair[0] != Selector()]


def _accepted(selector: Selector, values: Sequence[str]) -> Rows:
    return np.fromiter((selector.accepts(value) for value in values), dtype=bool, count=len(values))
