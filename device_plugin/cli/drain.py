"""`vgpu drain CARD`: cordon a card, evict the pods that hold slices of it, and wait until it is empty.

    vgpu drain GPU-1122334455000001
    vgpu drain gpu-1/0000:19:00.0 --timeout 600

Evictions respect PodDisruptionBudgets: the eviction of a protected pod is tried again until it succeeds or the time
is up. Processes that outlive their pod (it was deleted by force) are waited for too, and so is the agent of the node,
which reports them. `vgpu uncordon` puts the card back.
"""

import argparse
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import cordon
from device_plugin.cli.access import caller
from device_plugin.cli.access.caller import evict, named, still_there
from device_plugin.cli.cordon import CordonError
from device_plugin.cli.reading.targets import NodeCard
from device_plugin.core.contract.cards import REPORT_SECONDS, SliceState
from device_plugin.core.contract.events import Event
from device_plugin.core.errors import AnnotationError
from device_plugin.core.pods import Pod
from device_plugin.core.printable import printable
from device_plugin.kube.api import NODES, PODS, Ref, Where
from device_plugin.kube.errors import ApiError

LOOK_SECONDS = 1.0
# Seconds in which an agent reports processes that outlive their pod.
SETTLE_SECONDS = REPORT_SECONDS
TIMEOUT_SECONDS = 300.0
_ON_NODE = "spec.nodeName={},status.phase!=Succeeded,status.phase!=Failed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu drain`."""
    cordon.add_card(parser)
    cordon.add_reason(parser)
    parser.add_argument(
        "--force", action="store_true", help="evict pods without an owner too, which nothing creates again"
    )
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT_SECONDS, metavar="SECONDS",
        help=f"longest time to wait (default: {TIMEOUT_SECONDS:g})",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Cordon the card, evict its pods, and wait until no pod and no process holds a slice of it.

    Raises CardError, CordonError, ApiError, EndpointError.
    """
    if not args.timeout >= 0:
        raise CordonError("write --timeout of 0 or more seconds")
    with caller.connected(args) as client:
        target = cordon.found(client, args.card)
        _check_owners(_holders(client, target), force=args.force)  # before anything is changed
        print(cordon.write(client, target, cordon.note(client, args)))
        deadline = time.monotonic() + args.timeout
        # A pod that was placed before the cordon may be bound after it.
        for again in count():
            holders = _holders(client, target)
            if not holders:
                break
            if again and time.monotonic() >= deadline:
                raise CordonError(
                    f"{', '.join(map(named, holders))} came meanwhile; the card stays cordoned: see whether the cluster"
                    " service runs, and drain it again"
                )
            _check_owners(holders, force=args.force)
            _empty(client, holders, target, deadline)
        _await_processes(client, target, deadline, settle=SETTLE_SECONDS if again else 0.0)
    print(f"{target.uuid} is empty")
    return 0


def _check_owners(holders: Sequence[Pod], *, force: bool) -> None:
    alone = [named(pod) for pod in holders if not pod.owner]
    if alone and not force:
        raise CordonError(
            f"{', '.join(alone)} {'has' if len(alone) == 1 else 'have'} no owner that creates a replacement: add"
            f" --force to evict {'it, or delete it' if len(alone) == 1 else 'them, or delete them'} yourself"
        )


def _holders(client: KubeClient, target: NodeCard) -> Sequence[Pod]:
    """Returns the pods that hold slices of the card."""
    on_node = client.list(PODS, Where(fields=_ON_NODE.format(target.node.name))).items
    return [pod for pod in on_node if _holds(pod, target)]


def _holds(pod: Pod, target: NodeCard) -> bool:
    try:
        grant = pod.grant()
    except AnnotationError:
        return False
    return grant is not None and any(s.card == target.uuid for s in grant.slices())


def _empty(client: KubeClient, pods: Sequence[Pod], target: NodeCard, deadline: float) -> None:
    """Evict the pods, and wait until all of them have ended. Prints why a pod still stays, each reason only once.

    An eviction that a PodDisruptionBudget forbids is tried again. Raises CordonError if pods are left at the deadline,
    a time of `time.monotonic()`.
    """
    asked = {pod.uid for pod in pods if pod.deleting}
    told: set[str] = set()
    while left := [pod for pod in pods if still_there(client, pod)]:
        for pod in left:
            why = "" if pod.uid in asked else evict(client, pod)
            if not why and pod.uid not in asked:
                asked.add(pod.uid)
                _announce(client, pod, target)
            line = f"{named(pod)} stays for now: {why}" if why else f"waiting for {named(pod)} to end"
            if line not in told:
                told.add(line)
                print(printable(line), flush=True)
        if time.monotonic() >= deadline:
            raise CordonError(
                f"still there: {', '.join(map(named, left))}; the card stays cordoned, drain it again"
            )
        time.sleep(LOOK_SECONDS)


def _announce(client: KubeClient, pod: Pod, target: NodeCard) -> None:
    """Write an event that says why the pod was evicted, if the caller may create events."""
    text = f"evicted by `vgpu drain` of {caller.user(client)}: card {target.uuid} of node {target.node.name} is emptied"
    with suppress(ApiError):
        client.post_event(PODS, pod, Event.CARD_DRAINED, text, warning=False)


def _await_processes(client: KubeClient, target: NodeCard, deadline: float, *, settle: float) -> None:
    """Wait until no process of an ended pod holds a slice of the card. The wait takes at least `settle` seconds.

    The node's agent may take `settle` seconds to report such a process. Raises CordonError if one is left at the
    deadline, a time of `time.monotonic()`.
    """
    settled = time.monotonic() + settle
    told = ""
    while (left := _unsettled(client, target)) or time.monotonic() < settled:
        if left and left != told:
            told = left
            print(printable(f"waiting for {left}"), flush=True)
        if left and time.monotonic() >= deadline:
            raise CordonError(f"waited in vain for {left}; the card stays cordoned, drain it again")
        time.sleep(LOOK_SECONDS)


def _unsettled(client: KubeClient, target: NodeCard) -> str:
    """Returns a text that names the ended pods whose processes still hold slices of the card; empty if there are none.

    The node's agent reports such processes. If it reports none because it does not serve, the text says so.
    """
    name = target.node.name
    try:
        inventory = client.get(NODES, Ref(name)).shared()
    except AnnotationError as error:
        raise CordonError(
            f"whether processes outlive their pods cannot be read of node {name}: {error}"
        ) from error
    if inventory is None:
        return ""
    pods = {
        f"{report.namespace}/{report.pod_name}"
        for report in inventory.slices
        if report.state is SliceState.OUTLIVING and any(s.card == target.uuid for s in report.slices)
    }
    if pods:
        return f"processes on node {name} that outlive their pods: {', '.join(sorted(pods))}"
    if not inventory.serving:
        return f"the agent of node {name}, which does not serve: it would report processes that outlive their pods"
    return ""
