"""`vgpu pods`: the pods that hold slices: card, memory, core groups, node, since when, and whether they run.

    vgpu pods                      # of your namespace
    vgpu pods -A --sort-by=-memory # of all namespaces, those with most memory first
    vgpu pods -l app=notebook -w   # and again as they change
    vgpu pods --prometheus URL     # use is asked of a Prometheus; without it, of the agents, as `vgpu top` does

MEMORY is what a pod uses and what it holds of cards' memory, GROUPS the busy part of the core groups that it holds.
A pod holds its slices from its binding until it has ended, whether it runs or not: STATUS says which do not run, with
the reason that the kubelet gives (ImagePullBackOff, CrashLoopBackOff, CreateContainerConfigError), and which pods are
evicted soon because all of their slices are idle (annotation vgpu.io/idle-limit).
"""

import argparse
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from device_plugin.cli.access import caller
from device_plugin.cli.printing import output
from device_plugin.cli.printing.follow import follow_list
from device_plugin.cli.printing.output import Column, Listing, ListPrinter, age, age_since, in_gib, in_percent
from device_plugin.cli.reading import slice_use
from device_plugin.cli.reading.held_use import (
    UNKNOWN,
    HeldUse,
    SliceKey,
    SliceUse,
    of_slice,
    together,
    whole_bytes,
)
from device_plugin.cli.reading.slice_use import SliceUseReader, is_shown
from device_plugin.cli.reading.waste import Owner
from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import Slice, own_grant, ranges
from device_plugin.core.contract.units import MIB
from device_plugin.core.errors import AnnotationError
from device_plugin.core.idle import idle_limit, idle_together, notice_seconds
from device_plugin.kube.api import Kind, Object, Where, controller_of

BOUND = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!="
_CONTAINERS = ("containers", "initContainers")
# The keys of a pod's object for its use of its slices.
_USE = ("usedBytes", "compute", "unusedBytes", "idleSlices", "askedBackSeconds")
# Most characters of an owner's kind and name, which the API server does not check.
MAX_KIND, MAX_NAME = 63, 253
RUNNING, ENDING = "Running", "Terminating"


class HoldingPod(NamedTuple):
    """A bound pod with its slices, their use, and its status for people.

    `since` is the time of its binding. `fault` says why its grant is ignored, if it is. `idle_limit` is in
    seconds; None without a limit.
    """

    namespace: str
    name: str
    node: str
    since: str
    status: str
    slices: tuple[Slice, ...]
    fault: str = ""
    use: HeldUse = UNKNOWN
    containers: tuple[str, ...] = ()
    """The container of each of the slices."""
    owner: Owner = Owner("Pod", "")
    idle_limit: int | None = None
    asked_back: float | None = None
    """The seconds until the pod is evicted if its slices stay idle; None if it has no limit, or that is not known."""

    @property
    def mib(self) -> int:
        """Returns the MiB of all slices of the pod together."""
        return sum(part.mem_mib for part in self.slices)

    @property
    def groups(self) -> int:
        """Returns the number of core groups of all slices together."""
        return sum(len(part.cores) for part in self.slices)

    @property
    def compute(self) -> float | None:
        """Returns the mean busy share of the core groups; None if it is not known."""
        return self.use.busy / self.groups if self.use.busy is not None and self.groups else None

    @property
    def state(self) -> str:
        """Returns the pod's status as text, such as `Running`.

        Once its eviction is announced, the time until then follows: `Running, asked back in 5m`.
        """
        left, limit = self.asked_back, self.idle_limit
        if left is None or limit is None or left > notice_seconds(limit) or self.status == ENDING:
            return self.status
        return f"{self.status}, {asked_back_text(left)}"

    def left(self, uses: Mapping[SliceKey, SliceUse]) -> float | None:
        """Returns the seconds until the pod is evicted, if all its slices stay idle; `uses` has their measured use.

        Returns None if the pod has no idle limit, or if the idle time of one of its slices is not known.
        """
        if self.idle_limit is None:
            return None
        found = [uses.get(key) for key, _ in self.keyed()]
        idle = idle_together(use.idle if use is not None else None for use in found)
        return max(0.0, self.idle_limit - idle) if idle is not None else None

    def keyed(self) -> Iterable[tuple[SliceKey, Slice]]:
        """Yields each slice with the key (SliceKey) by which its use is looked up."""
        for container, part in zip(self.containers, self.slices, strict=True):
            yield (self.namespace, self.name, container, part.card), part


def read_pod(pod: Object) -> HoldingPod:
    """Returns the pod of a JSON object, with the slices of its grant; without a grant it has no slices.

    If the grant is void, the pod has no slices either, and its `fault` says why.
    """
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
        slices, fault, containers=holders, owner=_owner(metadata),
        idle_limit=idle_limit((metadata.get("annotations") or {}).get(annotations.IDLE_LIMIT, "")),
    )  # fmt: skip


def _owner(metadata: Object) -> Owner:
    """Returns the pod's controller, or the pod itself if it has none.

    In place of a Deployment's ReplicaSet it returns the Deployment. Such a ReplicaSet is known by its name: that of the
    Deployment, then the hash of the pod's template.
    """
    found = controller_of(metadata)
    kind, name = str(found.get("kind") or "Pod"), str(found.get("name") or metadata["name"])
    tail = f"-{(metadata.get('labels') or {}).get('pod-template-hash')}"
    if kind == "ReplicaSet" and name.endswith(tail):
        kind, name = "Deployment", name.removesuffix(tail)
    return Owner(kind[:MAX_KIND], name[:MAX_NAME])


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


def asked_back_text(left: float) -> str:
    """Returns the `left` seconds until a pod's eviction as text: `asked back in 5m`, or `asked back now` below 1 s."""
    return f"asked back in {age(left)}" if left >= 1 else "asked back now"


def _cards(pod: HoldingPod) -> str:
    return pod.slices[0].card if len(pod.slices) == 1 else f"{len(pod.slices)} cards"


def _object(pod: HoldingPod) -> Mapping[str, Any]:
    used = whole_bytes(pod.use.used), pod.compute, whole_bytes(pod.use.unused), pod.use.idle, pod.asked_back
    return {
        "namespace": pod.namespace, "name": pod.name, "node": pod.node, "since": pod.since or None,
        "status": pod.status, "runs": pod.status == RUNNING, "memMiB": pod.mib, "coreGroups": pod.groups,
        **dict(zip(_USE, used, strict=True)),
        "slices": [{"card": s.card, "memMiB": s.mem_mib, "cores": [*s.cores]} for s in pod.slices],
    }  # fmt: skip


def _granted_alone(found: Mapping[str, Any]) -> Any:
    """Returns the JSON object of a pod without the keys about use.

    --watch compares such objects, so it prints nothing if only the use has changed.
    """
    return {key: value for key, value in found.items() if key not in _USE}


def _used_gib(pod: HoldingPod) -> str:
    return "?" if pod.use.used is None else in_gib(pod.use.used / MIB)


_NAMESPACE: Column[HoldingPod] = Column("NAMESPACE", lambda pod: pod.namespace)
_COLUMNS: tuple[Column[HoldingPod], ...] = (
    Column("NAME", lambda pod: pod.name),
    Column("NODE", lambda pod: pod.node),
    Column("CARD", _cards),
    Column("MEMORY", lambda pod: f"{_used_gib(pod)}/{in_gib(pod.mib)} GiB", key=lambda pod: pod.mib),
    Column("GROUPS", lambda pod: f"{in_percent(pod.compute)} of {pod.groups}", key=lambda pod: pod.groups),
    Column("USED", lambda pod: f"{_used_gib(pod)} GiB", key=lambda pod: pod.use.used or 0.0, wide=True),
    Column("COMPUTE", lambda pod: in_percent(pod.compute), key=lambda pod: pod.compute or 0.0, wide=True),
    Column("CORE GROUPS", lambda pod: "; ".join(ranges(s.cores) for s in pod.slices), wide=True),
    Column("ALL CARDS", lambda pod: ",".join(s.card for s in pod.slices), wide=True),
    Column("SINCE", lambda pod: age_since(pod.since, time.time()), key=lambda pod: pod.since),
    Column("STATUS", lambda pod: pod.state, warning=lambda pod: pod.status != RUNNING),
)
LISTING: Listing[HoldingPod] = Listing(
    "pods", (_NAMESPACE, *_COLUMNS), name=lambda pod: f"pod/{pod.namespace}/{pod.name}", object=_object,
    watched=_granted_alone,
)  # fmt: skip


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
    listing = LISTING if args.all_namespaces else LISTING.without(_NAMESPACE)
    where = Where(namespace, args.selector, BOUND)
    empty = f"no pod of namespace {namespace} holds a slice" if namespace else "no pod holds a slice"
    with caller.connected(args) as client:
        reader = SliceUseReader(client, args, namespace, wanted=is_shown(args, "used", "compute"))

        def rows(pods: Sequence[HoldingPod]) -> tuple[Sequence[HoldingPod], Sequence[str]]:
            found, faults = holding(pods)
            return with_use(found, reader.read({pod.node for pod in found})), faults

        return follow_list(
            args, ListPrinter(args, listing), client, HOLDING_PODS, where, rows, empty,
            notes=lambda: reader.notes,
        )  # fmt: skip


def with_use(pods: Sequence[HoldingPod], uses: Mapping[SliceKey, SliceUse]) -> Sequence[HoldingPod]:
    """Returns the pods, each with the use of its slices from `uses` and with the seconds until its eviction."""
    return [
        pod._replace(
            use=together(of_slice(part, uses.get(key)) for key, part in pod.keyed()),
            asked_back=pod.left(uses),
        )
        for pod in pods
    ]


def holding(pods: Sequence[HoldingPod]) -> tuple[Sequence[HoldingPod], Sequence[str]]:
    """Returns the pods that hold slices, sorted by name, and a line of text for each pod whose grant is ignored."""
    found = sorted((pod for pod in pods if pod.slices), key=lambda pod: (pod.namespace, pod.name))
    return found, [f"ignored, of {pod.namespace}/{pod.name}: {pod.fault}" for pod in pods if pod.fault]
