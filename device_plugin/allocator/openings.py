"""Openings: find the few pods whose move or end would make room for a waiting pod. Nothing is moved here."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import NamedTuple

from device_plugin.allocator.search import SearchCopy
from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import RequestError
from device_plugin.core.pods import Pod
from device_plugin.core.rearrange import MovePlan, Ranked, size
from device_plugin.core.requests import PodRequest
from device_plugin.state.view import ClusterView

# Most nodes for which moves are tried.
OPTIONS = 64
# Kinds of owners that create a deleted pod again only on the same node, or never.
STAYING = ("", "DaemonSet", "Node")


class PlacedPod(NamedTuple):
    """A bound pod that has not ended, and its request."""

    pod: Pod
    request: PodRequest


def placed_pods(view: ClusterView) -> Mapping[str, PlacedPod]:
    """The pods that ask for slices, are bound and have not ended, by UID."""
    return {
        pod.uid: PlacedPod(pod, asked)
        for pod in view.pods.all()
        if pod.node and not pod.ended and (asked := _request(view, pod)) is not None
    }


def movable(pod: Pod) -> bool:
    """True if the pod is bound, and its owner would create it again on any node if it is deleted.

    False for a pod that has ended or is being deleted.
    """
    return bool(pod.node) and not pod.ended and not pod.deleting and pod.owner not in STAYING


def opening(
    view: ClusterView, search: SearchCopy, pod: Pod, placed: Mapping[str, PlacedPod],
    nodes: Collection[str] | None = None,
) -> MovePlan | None:  # fmt: skip
    """The moves of `placed` pods that would make room for a waiting pod on one of `nodes` (None: all).

    A pod may move if its owner would create it again, its priority is not above the waiting pod's, and its Job is not
    shrinking. None if the waiting pod fits, asks for no slice or is one of a gang, or if a few moves are not enough.
    """
    request = _request(view, pod)
    if request is None or request.gang is not None:
        return None
    with view.lock:
        shrinking = view.promises.shrinking()
    holders = {
        uid: Ranked(asked, other.priority)
        for uid, (other, asked) in placed.items()
        if movable(other) and other.priority <= pod.priority and other.owner_uid not in shrinking
    }
    ranks = {uid: size(holder.request) for uid, holder in holders.items()}
    with search.planner(pod) as planner:
        moved = partial(planner.moved, request, holders)
        among = planner.ledger.nodes() if nodes is None else nodes
        plan = planner.search(request, among, ranks, moved, paced=search.paced, most=OPTIONS)
    return plan if plan is not None and plan.moves else None


def ending(
    view: ClusterView, search: SearchCopy, pod: Pod, placed: Mapping[str, PlacedPod],
    nodes: Collection[str] | None = None,
) -> MovePlan | None:  # fmt: skip
    """The fewest of the `placed` pods whose end would make room for a waiting pod on one of `nodes` (None: all).

    The pods end and do not move. Pods that are being deleted are chosen first, because they end anyway.
    None if the pod fits, asks for no slice or is one of a gang, or if the end of all these pods would not be enough.
    """
    request = _request(view, pod)
    if request is None or request.gang is not None:
        return None
    with search.planner(pod) as planner:
        held = {
            uid: 0 if other.deleting else 1 + size(asked)
            for uid, (other, asked) in placed.items()
            if planner.ledger.grant(uid) is not None
        }
        among = planner.ledger.nodes() if nodes is None else nodes
        plan = planner.search(
            request, among, held, partial(planner.cleared, request), paced=search.paced, most=OPTIONS
        )
    return plan if plan is not None and plan.moves else None


def moves_as_text(view: ClusterView, plan: MovePlan) -> str:
    """The moves of a plan as text, for example `default/a from GPU-1 on n1 to GPU-2 on n2`."""
    return ", ".join(
        f"{_name(view, move.source.pod)} from {_where(move.source)} to {_where(move.target)}"
        for move in plan.moves
    )


def _request(view: ClusterView, pod: Pod) -> PodRequest | None:
    try:
        return view.pods.request_of(pod)
    except RequestError:
        return None


def _where(grant: Grant | None) -> str:
    return f"{', '.join(sorted({s.card for s in grant.slices()}))} on {grant.node}" if grant else "-"


def _name(view: ClusterView, uid: str) -> str:
    pod = view.pods.get(uid)
    return f"{pod.namespace}/{pod.name}" if pod else uid
