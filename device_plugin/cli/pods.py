"""`vgpu pods`: the pods that hold slices: card, memory, core groups, node, since when, and whether they run.

    vgpu pods                      # of your namespace
    vgpu pods -A --sort-by=-memory # of all namespaces, those with most memory first
    vgpu pods -l app=notebook -w   # and again as they change
    vgpu pods -o wide              # with what they use of it, as `vgpu top` reads it

A pod holds its slices from its binding until it has ended, whether it runs or not: STATUS says which do not run, with
the reason that the kubelet gives (ImagePullBackOff, CrashLoopBackOff, CreateContainerConfigError).
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from device_plugin.cli.access import caller
from device_plugin.cli.printing import output
from device_plugin.cli.printing.follow import follow_list
from device_plugin.cli.printing.output import Column, Listing, ListPrinter, age_since, in_gib, in_percent
from device_plugin.cli.reading import slice_use
from device_plugin.cli.reading.slice_use import FRESH_SECONDS, SliceKey, SliceUse, SliceUseReader
from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import Slice, own_grant, ranges
from device_plugin.core.errors import AnnotationError
from device_plugin.kube.api import Kind, Object, Where

BOUND = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!="
_CONTAINERS = ("containers", "initContainers")
_MIB = 2**20
RUNNING, ENDING = "Running", "Terminating"


class PodUse(NamedTuple):
    """A pod's use of its slices: bytes of memory, and the mean busy share of their core groups.

    A value is None if it is not known for one of the slices.
    """

    used: float | None = None
    compute: float | None = None


class HoldingPod(NamedTuple):
    """A bound pod with its slices and its state for people. `since` is the time of its binding."""

    namespace: str
    name: str
    node: str
    since: str
    status: str
    slices: tuple[Slice, ...]
    fault: str = ""
    use: PodUse = PodUse()
    containers: tuple[str, ...] = ()
    """The container of each of the slices."""

    @property
    def mib(self) -> int:
        """Returns the MiB of all slices together."""
        return sum(part.mem_mib for part in self.slices)

    @property
    def groups(self) -> int:
        """Returns the number of core groups of all slices together."""
        return sum(len(part.cores) for part in self.slices)


def read_pod(pod: Object) -> HoldingPod:
    """Returns a pod with its slices; none without a grant. If the grant is void, `fault` has the reason."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    text = (metadata.get("annotations") or {}).get(annotations.GRANT, "")
    slices, holders, fault = tuple[Slice, ...](), tuple[str, ...](), ""
    if text:
        try:
            names = {each["name"] for key in _CONTAINERS for each in spec.get(key) or ()}
            grant = own_grant(text, metadata["uid"], str(spec.get("nodeName") or ""), names)
            slices = tuple(grant.slices())
            holders = tuple(name for name in sorted(grant.containers) for _ in grant.containers[name])
        except AnnotationError as error:
            fault = str(error)
    bound: Object = next((c for c in status.get("conditions") or () if c.get("type") == "PodScheduled"), {})
    return HoldingPod(
        str(metadata.get("namespace") or ""), str(metadata["name"]), str(spec.get("nodeName") or ""),
        str(bound.get("lastTransitionTime") or metadata.get("creationTimestamp") or ""), _status(metadata, status),
        slices, fault, containers=holders,
    )  # fmt: skip


def _status(metadata: Object, status: Object) -> str:
    """Returns the reason why the pod does not run, else its phase."""
    if metadata.get("deletionTimestamp"):
        return ENDING
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for container in containers:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "PodInitializing"):
            return str(waiting["reason"])
    return str(status.get("phase") or "Pending")


HOLDING_PODS = Kind("", "v1", "pods", "Pod", HoldingPod, read_pod)
"""Pods, decoded to their slices and their state."""


def _cards(pod: HoldingPod) -> str:
    return pod.slices[0].card if len(pod.slices) == 1 else f"{len(pod.slices)} cards"


def _object(pod: HoldingPod) -> Mapping[str, Any]:
    return {
        "namespace": pod.namespace, "name": pod.name, "node": pod.node, "since": pod.since or None,
        "status": pod.status, "runs": pod.status == RUNNING, "memMiB": pod.mib, "coreGroups": pod.groups,
        "usedBytes": pod.use.used, "compute": pod.use.compute,
        "slices": [{"card": s.card, "memMiB": s.mem_mib, "cores": [*s.cores]} for s in pod.slices],
    }  # fmt: skip


def _used(pod: HoldingPod) -> str:
    return "?" if pod.use.used is None else f"{in_gib(pod.use.used / _MIB)} GiB"


_NAMESPACE: Column[HoldingPod] = Column("NAMESPACE", lambda pod: pod.namespace)
# These columns cost requests to agents or to a Prometheus.
_USE: tuple[Column[HoldingPod], ...] = (
    Column("USED", _used, key=lambda pod: pod.use.used or 0.0),
    Column("COMPUTE", lambda pod: in_percent(pod.use.compute), key=lambda pod: pod.use.compute or 0.0),
)
_COLUMNS: tuple[Column[HoldingPod], ...] = (
    Column("NAME", lambda pod: pod.name),
    Column("NODE", lambda pod: pod.node),
    Column("CARD", _cards),
    Column("MEMORY", lambda pod: f"{in_gib(pod.mib)} GiB", key=lambda pod: pod.mib),
    Column("GROUPS", lambda pod: str(pod.groups), key=lambda pod: pod.groups),
    *_USE,
    Column("CORE GROUPS", lambda pod: "; ".join(ranges(s.cores) for s in pod.slices), wide=True),
    Column("ALL CARDS", lambda pod: ",".join(s.card for s in pod.slices), wide=True),
    Column("SINCE", lambda pod: age_since(pod.since, time.time()), key=lambda pod: pod.since),
    Column("STATUS", lambda pod: pod.status, warning=lambda pod: pod.status != RUNNING),
)
LISTING: Listing[HoldingPod] = Listing(
    "pods", (_NAMESPACE, *_COLUMNS), name=lambda pod: f"pod/{pod.namespace}/{pod.name}", object=_object
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu pods`."""
    caller.add_namespaces(parser)
    slice_use.add_arguments(parser)
    output.add_arguments(parser, LISTING)
    output.add_selector(parser, "pods")
    caller.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the pods. Raises ListForbiddenError, ApiError, EndpointError, SortError, PrometheusError."""
    namespace = "" if args.all_namespaces else caller.namespace(args)
    used = _use_is_asked(args)
    hidden = () if used else _USE
    listing = LISTING.without(*hidden, *(() if args.all_namespaces else (_NAMESPACE,)))
    where = Where(namespace, args.selector, BOUND)
    empty = f"no pod of namespace {namespace} holds a slice" if namespace else "no pod holds a slice"
    with caller.connected(args) as client:
        reader = SliceUseReader(client, args, namespace)

        def rows(pods: Sequence[HoldingPod]) -> tuple[Sequence[HoldingPod], Sequence[str]]:
            found, faults = holding(pods)
            return (with_use(found, reader.read({pod.node for pod in found})) if used else found), faults

        return follow_list(
            args, ListPrinter(args, listing), client, HOLDING_PODS, where, rows, empty,
            notes=lambda: reader.notes, every=FRESH_SECONDS if used else None,
        )  # fmt: skip


def _use_is_asked(args: argparse.Namespace) -> bool:
    """True if the list shows the use of slices: with -o wide, with --prometheus, or sorted by it."""
    order = (args.sort_by or "").lstrip("-")
    return bool(args.output == "wide" or args.prometheus or order in [column.word for column in _USE])


def with_use(pods: Sequence[HoldingPod], uses: Mapping[SliceKey, SliceUse]) -> Sequence[HoldingPod]:
    """Returns the pods with their use of their slices."""
    return [pod._replace(use=_total(pod, uses)) for pod in pods]


def _total(pod: HoldingPod, uses: Mapping[SliceKey, SliceUse]) -> PodUse:
    found = [
        (use, len(part.cores))
        for container, part in zip(pod.containers, pod.slices, strict=True)
        if (use := uses.get((pod.namespace, pod.name, container, part.card))) is not None
    ]
    used = [use.used for use, _ in found if use.used is not None]
    busy = [use.compute * groups for use, groups in found if use.compute is not None]
    return PodUse(
        sum(used) if len(used) == len(pod.slices) else None,
        sum(busy) / pod.groups if len(busy) == len(pod.slices) and pod.groups else None,
    )


def holding(pods: Sequence[HoldingPod]) -> tuple[Sequence[HoldingPod], Sequence[str]]:
    """Returns the pods that hold slices, by name, and a line for each pod whose grant is ignored."""
    found = sorted((pod for pod in pods if pod.slices), key=lambda pod: (pod.namespace, pod.name))
    return found, [f"ignored, of {pod.namespace}/{pod.name}: {pod.fault}" for pod in pods if pod.fault]
