"""Gangs: pods that are placed all or nothing, in one transaction of the ledger.

The largest pods are placed first, and of equal ones those with the fewest nodes, each by its placement policy; none of
them is moved again. Pods with equal requests and nodes are placed whenever that is possible at all. Where they differ,
another order might fit where this one does not: then the gang waits for a little more room than it needs.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from device_plugin.core.grants import Grant
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.placement.fit import SearchBudget, at_most
from device_plugin.core.placement.policies import NODE_SCORE
from device_plugin.core.rearrange.planner import size
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import PodRequest

# The budget of looks at cards for the pods of a gang that have several containers: 1 to 2 s. Finding the nodes that fit
# one container costs one look for every CARDS_IN_A_LOOK cards.
LOOKS, CARDS_IN_A_LOOK = 200_000, 200

Nodes = Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Member:
    """A pod of a gang that is to be placed, and the nodes where it may go (None: all)."""

    request: PodRequest
    nodes: Nodes = None


def place_all(members: Iterable[Member], placer: Placer, ledger: Ledger) -> Sequence[Grant] | Refusal:
    """Place all `members` or none: their grants, which the ledger then holds with the host amounts, or a refusal.

    No member may hold anything before. `placer` decides by `ledger`.
    """
    ordered = sorted(sorted(members, key=lambda member: member.request.pod), key=_order)
    bound = _bound(ordered, placer)
    if 0 < bound < len(ordered):
        return _short(bound, len(ordered))
    budget = SearchBudget(LOOKS)
    with ledger.transaction() as change:
        grants: list[Grant] = []
        for member in ordered:
            request = _apart(member.request, grants)
            if len(request.containers) > 1:
                budget.spend(len(request.containers) * placer.table.card_count // CARDS_IN_A_LOOK)
            answer = placer.place(request, member.nodes, budget=budget)
            if isinstance(answer, Refusal):
                return _short(len(grants), len(ordered), cut=not budget.next_node()) if grants else answer
            ledger.hold(answer, request.host)
            grants.append(answer)
        change.commit()
    return grants


def _order(member: Member) -> tuple[float, ...]:
    request = member.request
    role = request.rank.number or 0 if request.policy == NODE_SCORE else 0
    return role, -size(request), math.inf if member.nodes is None else len(member.nodes)


def _bound(members: Sequence[Member], placer: Placer) -> int:
    """An upper bound of the number of members that fit together: fast, and enough for most refusals."""
    placer.table.refresh()
    alike = Counter(replace(member, request=replace(member.request, pod="")) for member in members)
    return sum(
        min(times, at_most(placer.table, member.request, member.nodes)) for member, times in alike.items()
    )


def _apart(request: PodRequest, grants: Sequence[Grant]) -> PodRequest:
    """With `node-score` each pod of a group goes to a node of its own, the best nodes to the first roles."""
    if request.policy != NODE_SCORE:
        return request
    avoid = request.rank.avoid.union(grant.node for grant in grants)
    return replace(request, rank=replace(request.rank, avoid=avoid, leave=0))


def _short(fitting: int, count: int, *, cut: bool = False) -> Refusal:
    why = ": the search for a place for all containers was too long" if cut else ""
    said, steady = f"room for {fitting} of {count} pods{why}", f"no room for all {count} pods at once{why}"
    return Refusal({}, {Reason.GANG_ROOM: 1}, said=said, steady=steady)
