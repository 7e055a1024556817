"""Openings: find the few pods that would have to move so that one waiting pod fits. Nothing is moved here."""

from functools import partial

from device_plugin.cluster.preempt.search import SearchCopy
from device_plugin.cluster.watch.view import ClusterView
from device_plugin.core.errors import RequestError
from device_plugin.core.grants import Grant
from device_plugin.core.pods import Pod
from device_plugin.core.rearrange import MovePlan, Ranked, size
from device_plugin.core.requests import PodRequest

# Most nodes for which moves are tried.
OPTIONS = 64
# Kinds of owners that create a pod again on its own node, or not at all.
STAYING = ("", "DaemonSet", "Node")


def movable(pod: Pod) -> bool:
    """True if the pod has an owner that would create it again, on any node."""
    return bool(pod.node) and not pod.ended and not pod.deleting and pod.owner not in STAYING


def opening(view: ClusterView, search: SearchCopy, pod: Pod) -> str:
    """The moves that would make room for a waiting pod, as text; empty if it fits, or a few moves are not enough."""
    try:
        request = view.pods.request_of(pod)
    except RequestError:
        return ""
    if request is None or request.gang is not None:
        return ""
    with view.lock:
        shrinking = view.promises.shrinking()
    holders = {}
    for other in view.pods.all():
        if other.owner_uid in shrinking:
            continue
        if movable(other) and other.priority <= pod.priority and (asked := _request(view, other)) is not None:
            holders[other.uid] = Ranked(asked, other.priority)
    plan = _plan(search, pod, request, holders)
    if plan is None or not plan.moves:
        return ""
    moves = ", ".join(
        f"{_name(view, move.source.pod)} from {_where(move.source)} to {_where(move.target)}"
        for move in plan.moves
    )
    return (
        f"{pod.namespace}/{pod.name} would fit on {plan.places[0].node} after moving {moves}; see vgpu defrag"
    )


def _plan(search: SearchCopy, pod: Pod, request: PodRequest, holders: dict[str, Ranked]) -> MovePlan | None:
    ranks = {uid: size(holder.request) for uid, holder in holders.items()}
    with search.planner(pod) as planner:
        moved = partial(planner.moved, request, holders)
        return planner.search(request, planner.ledger.nodes(), ranks, moved, paced=search.paced, most=OPTIONS)


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
