"""Makes an allocator from lists that the caller may read. It decides as the cluster service does, and binds nothing.

The leader of the cluster service has its reservations, and the mix of requests that it has learnt, only in its memory.
If the caller may forward a port to the leader, the allocator takes both over.
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
    SCHEDULER,
    AllocatorDeployment,
    allocator_leader,
    read_allocator,
)
from device_plugin.core import pages
from device_plugin.core.contract.annotations import QUEUE
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.claims import Claim
from device_plugin.core.errors import AnnotationError, VgpuError
from device_plugin.core.http_values import JSON
from device_plugin.core.node_constraints import NodeConstraints, NodeIndex
from device_plugin.core.pods import Node, Pod
from device_plugin.core.requests import DEFAULT_PREFIXES, family_of
from device_plugin.kube.api import JOBS, NODES, PODS, RESOURCE_CLAIMS, Where
from device_plugin.kube.errors import ApiError, ForbiddenError, GoneError, RefusedError
from device_plugin.state.claims import ServedClaims
from device_plugin.state.records import QueuedJob
from device_plugin.state.view import ClusterView

BASE_CLAIMS = ServedClaims(SCHEDULER)
"""The pods that may ask by claims where the allocator is as in manifests/base."""


class MissingListError(VgpuError):
    """The caller may not list the nodes, or the pods of all namespaces, which a decision needs."""


class LocalAllocator:
    """An allocator in this process, which decides for nodes, pods and Jobs as they were listed."""

    def __init__(
        self, nodes: Sequence[Node], pods: Iterable[Pod], jobs: Iterable[QueuedJob], prefixes: Sequence[str],
        claims: Iterable[Claim] = (), served: ServedClaims | None = None,
    ) -> None:  # fmt: skip
        self.prefixes = prefixes
        self.served = frozenset(name for node in nodes for name in node.capacity or ())
        """The extended resources that kubelets count, those of other device plugins included."""
        self.view = ClusterView(prefixes, time.monotonic, served=served)
        self.allocator = Allocator(self.view, inf, time.monotonic)
        shared = Shared(self.view, self.allocator, only_reads, time.monotonic)
        self.decisions = Decisions(shared)
        self.dry = DryRun(shared)
        self.answers = PodAnswers(shared, SearchCopy(shared, lambda _: None))
        self.source = ""
        """A sentence that says where the reservations are from, or why they are not known."""
        self.unknown = ""
        """A sentence about the lists of Jobs and claims, if one of them could not be read; else empty."""
        self._index = NodeIndex(node.traits() for node in nodes)
        self.view.node_news.sync(nodes)
        self.view.pod_news.sync(pods)
        self.view.job_news.sync(jobs)
        self.view.claim_news.sync(claims)

    def units(self) -> Mapping[str, int]:
        """Returns the memory unit in MiB by family of cards; the smallest one if nodes differ."""
        found: dict[str, int] = {}
        for inventory in self.view.ledger.inventories().values():
            for card in inventory.cards:
                found[card.family] = min(card.unit_mib, found.get(card.family, card.unit_mib))
        return found

    def allowed(self, constraints: NodeConstraints) -> Sequence[str]:
        """Returns the nodes with cards where a pod with these constraints may run."""
        among = self._index.allowed(constraints)
        return [name for name in self.view.ledger.nodes() if among is None or name in among]

    def limits(self, constraints: NodeConstraints) -> str:
        """Returns a sentence about the constraints that keep a pod from some of the nodes; empty if none does."""
        return self._index.limits(constraints, of_pod=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option --allocator-namespace."""
    parser.add_argument(
        "--allocator-namespace", metavar="NAMESPACE", default=NAMESPACE,
        help=f"where the cluster service runs (default: {NAMESPACE})",
    )  # fmt: skip


def listed(
    client: KubeClient, prefixes: Sequence[str] = (), known: Sequence[str] = DEFAULT_PREFIXES,
    served: ServedClaims = BASE_CLAIMS,
) -> LocalAllocator:  # fmt: skip
    """Returns an allocator made from the lists that the caller may read, for cards of `prefixes`.

    If `prefixes` is empty, it counts the cards of the prefixes in `known` and in the inventories. Claims are listed
    only if a pod that may ask by claims has some. If the caller may not list Jobs or claims, the allocator does not
    know the promises (cards kept for jobs) or the requests in claims; its field `unknown` says so. Raises
    MissingListError, ApiError.
    """
    try:
        nodes, pods = client.list(NODES).items, client.list(PODS).items
    except ForbiddenError as error:
        raise MissingListError(
            f"{error}: have an administrator bind the ClusterRole vgpu-reader ({pages.COMMANDS}) to you"
        ) from error
    jobs: Sequence[QueuedJob] = ()
    claims: Sequence[Claim] = ()
    unknown = []
    try:
        jobs = client.list(JOBS.metadata, Where(labels=QUEUE)).items
    except (RefusedError, GoneError) as error:
        unknown.append(f"what is kept for jobs is not known: {error}")
    asks = any(pod.claims and pod.scheduler == served.scheduler for pod in pods)
    try:
        claims = client.list(RESOURCE_CLAIMS).items if asks else ()
    except (RefusedError, GoneError) as error:
        unknown.append(f"what pods ask for in claims is not known: {error}")
    made = LocalAllocator(
        nodes, pods, jobs, prefixes or _shown(nodes, known), claims, served if asks else None
    )
    made.unknown = "; ".join(unknown)
    return made


def read(client: KubeClient, args: argparse.Namespace) -> LocalAllocator:
    """Returns the allocator of the listed objects, with the leader's reservations if the caller may ask the leader.

    Raises MissingListError, ApiError.
    """
    service = read_allocator(client, args.allocator_namespace)
    served = ServedClaims(service.scheduler, service.unit_mib)
    made = listed(client, known=service.prefixes or DEFAULT_PREFIXES, served=served)
    try:
        count = made.decisions.take_over(_decided(client, args, service))
        source = f"From the API server's lists and the allocator's {count} reservations"
    except (ForwardError, ApiError, DecisionsError) as error:
        made.dry.learn()
        source = f"From the API server's lists; the allocator's reservations are not known: {error}"
    made.source = "; ".join(filter(None, (source, made.unknown)))
    return made


def prefixes_of(pod: Pod) -> Sequence[str]:
    """Returns the prefixes of the pod's extended resources, for a caller who may not read the nodes."""
    asked = {family_of(name) for container in pod.containers for name in container.limits}
    return sorted(asked | set(DEFAULT_PREFIXES))


def _shown(nodes: Iterable[Node], known: Iterable[str]) -> Sequence[str]:
    """Returns the resource prefixes of all cards in inventories, and `known`."""
    found = {*known}
    for node in nodes:
        if node.inventory:
            # An inventory that cannot be read is reported when the nodes are recorded.
            with suppress(AnnotationError):
                found |= {card.family for card in Inventory.decode(node.inventory).cards}
    return sorted(found)


def _decided(client: KubeClient, args: argparse.Namespace, service: AllocatorDeployment) -> Any:
    """Returns the leader's decisions as JSON. Raises ForwardError, ApiError, DecisionsError."""
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
