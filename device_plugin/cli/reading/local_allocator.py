"""An allocator made of lists with the caller's rights: it decides as the cluster's own does, and binds nothing.

The reservations and the target workload of the cluster's leader are in its memory only; where the caller may forward a
port to it, they are taken over.
"""

import argparse
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from math import inf
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.allocator.allocator import Allocator
from device_plugin.allocator.decisions import Decisions, DecisionsError
from device_plugin.allocator.dry_run import DryRun
from device_plugin.allocator.search import SearchCopy
from device_plugin.allocator.service import Shared, only_reads
from device_plugin.allocator.why_pod import PodAnswers
from device_plugin.cli.access.caller import NAMESPACE
from device_plugin.cli.access.port_forward import ForwardError, get
from device_plugin.cli.reading.allocator_deployment import (
    AllocatorDeployment,
    allocator_leader,
    read_allocator,
)
from device_plugin.core import pages
from device_plugin.core.batch import QueuedJob
from device_plugin.core.contract.annotations import QUEUE
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.errors import AnnotationError, VgpuError
from device_plugin.core.http_values import JSON
from device_plugin.core.node_constraints import NodeConstraints, NodeIndex
from device_plugin.core.pods import Node, Pod
from device_plugin.core.requests import DEFAULT_PREFIXES, family_of
from device_plugin.kube.api import NODES, PODS, QUEUED_JOBS, Where
from device_plugin.kube.errors import ApiError, ForbiddenError, GoneError, RefusedError
from device_plugin.state.view import ClusterView


class MissingListError(VgpuError):
    """The caller may not list the nodes, or the pods of all namespaces, by which a decision is made."""


class LocalAllocator:
    """The allocator's records and decisions, on nodes, pods and Jobs as they were listed."""

    def __init__(
        self, nodes: Sequence[Node], pods: Iterable[Pod], jobs: Iterable[QueuedJob], prefixes: Sequence[str]
    ) -> None:
        self.prefixes = prefixes
        self.served = frozenset(name for node in nodes for name in node.capacity or ())
        """The resources of devices that kubelets count, those of other plugins too."""
        self.view = ClusterView(prefixes, time.monotonic)
        self.allocator = Allocator(self.view, inf, time.monotonic)
        shared = Shared(self.view, self.allocator, only_reads, time.monotonic)
        self.decisions = Decisions(shared)
        self.dry = DryRun(shared)
        self.answers = PodAnswers(shared, SearchCopy(shared, lambda _: None))
        self.source = ""
        """The source of the reservations, or the reason why they are not known, as a sentence."""
        self.unknown = ""
        """The lists that could not be read, as a sentence; empty if all were."""
        self._index = NodeIndex(node.traits() for node in nodes)
        self.view.node_news.sync(nodes)
        self.view.pod_news.sync(pods)
        self.view.job_news.sync(jobs)

    def units(self) -> Mapping[str, int]:
        """By family of cards, the smallest memory unit of a node in MiB."""
        found: dict[str, int] = {}
        for inventory in self.view.ledger.inventories().values():
            for card in inventory.cards:
                found[card.family] = min(card.unit_mib, found.get(card.family, card.unit_mib))
        return found

    def allowed(self, constraints: NodeConstraints) -> Sequence[str]:
        """The nodes with cards where a pod with these constraints may go."""
        among = self._index.allowed(constraints)
        return [name for name in self.view.ledger.nodes() if among is None or name in among]

    def limits(self, constraints: NodeConstraints) -> str:
        """The constraints that keep such a pod from some of the nodes, as a sentence; empty if none does."""
        return self._index.limits(constraints, of_pod=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option --allocator-namespace."""
    parser.add_argument(
        "--allocator-namespace", metavar="NAMESPACE", default=NAMESPACE,
        help=f"where the cluster service runs (default: {NAMESPACE})",
    )  # fmt: skip


def listed(
    client: KubeClient, prefixes: Sequence[str] = (), known: Sequence[str] = DEFAULT_PREFIXES
) -> LocalAllocator:
    """The allocator of what is listed, for these resource prefixes, or for `known` and all that inventories name.

    Without the right to list Jobs it is not known what is kept for which: then `unknown` says so. Raises
    MissingListError, ApiError.
    """
    try:
        nodes, pods = client.list(NODES).items, client.list(PODS).items
    except ForbiddenError as error:
        raise MissingListError(
            f"{error}: have an administrator bind the ClusterRole vgpu-reader ({pages.COMMANDS}) to you"
        ) from error
    jobs: Sequence[QueuedJob] = ()
    unknown = ""
    try:
        jobs = client.list(QUEUED_JOBS, Where(labels=QUEUE)).items
    except (RefusedError, GoneError) as error:
        unknown = f"what is kept for jobs is not known: {error}"
    made = LocalAllocator(nodes, pods, jobs, prefixes or _shown(nodes, known))
    made.unknown = unknown
    return made


def read(client: KubeClient, args: argparse.Namespace) -> LocalAllocator:
    """The allocator of what is listed, with the leader's decisions where it may be asked.

    Raises MissingListError, ApiError.
    """
    service = read_allocator(client, args.allocator_namespace)
    made = listed(client, known=service.prefixes or DEFAULT_PREFIXES)
    try:
        count = made.decisions.take_over(_decided(client, args, service))
        source = f"From the API server's lists and the allocator's {count} reservations"
    except (ForwardError, ApiError, DecisionsError) as error:
        made.dry.learn()
        source = f"From the API server's lists; the allocator's reservations are not known: {error}"
    made.source = "; ".join(filter(None, (source, made.unknown)))
    return made


def prefixes_of(pod: Pod) -> Sequence[str]:
    """The prefixes of the pod's extended resources, for a caller that may not read the nodes."""
    asked = {family_of(name) for container in pod.containers for name in container.limits}
    return sorted(asked | set(DEFAULT_PREFIXES))


def _shown(nodes: Iterable[Node], known: Iterable[str]) -> Sequence[str]:
    """The resource prefixes of all cards that inventories show, and the `known` ones."""
    found = {*known}
    for node in nodes:
        if node.inventory:
            # An inventory that cannot be read is reported when the nodes are recorded.
            with suppress(AnnotationError):
                found |= {card.family for card in Inventory.decode(node.inventory).cards}
    return sorted(found)


def _decided(client: KubeClient, args: argparse.Namespace, service: AllocatorDeployment) -> Any:
    """The leader's decisions as JSON. Raises ForwardError, ApiError, DecisionsError."""
    answer = get(args, allocator_leader(client, service), "/decisions", JSON)
    if answer.status != HTTPStatus.OK:
        raise DecisionsError(f"the allocator answers {answer.status}: it is of another version")
    try:
        told = json.loads(answer.text)
    except ValueError as error:
        raise DecisionsError(f"the allocator's answer is no JSON: {error}") from error
    if not isinstance(told, dict) or not told.get("leader"):
        raise DecisionsError("no replica of the allocator leads now: try again")
    return told
