"""Reads the cluster service's Deployment: the resource prefixes of its cards, and how to find its leader.

The leader is the replica next to the kube-scheduler that holds a Lease. By default both are in one pod, and the holder
of the Lease has the name of this pod. If the default kube-scheduler asks the allocator (docs/install.md), it has a
Lease of its own, and the holder has the name of the machine on which both run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access.caller import NAMESPACE
from device_plugin.cli.access.leader import LedService, leader
from device_plugin.cli.access.port_forward import ForwardError, PodPort, forbidden
from device_plugin.core import pages
from device_plugin.core.contract.units import DEFAULT_UNIT_MIB
from device_plugin.kube.api import PODS, Kind, Object, Ref, Where
from device_plugin.kube.errors import ApiError, ForbiddenError, GoneError

DEPLOYMENT, LEASE, PORT = "vgpu-cluster", "vgpu-scheduler", 9401
SCHEDULER = "vgpu-scheduler"
REPLICA_LABELS = "app.kubernetes.io/name=vgpu,app.kubernetes.io/component=cluster"
"""Selects the pods of the cluster service."""
# Variables of manifests/base/cluster/deployment.yaml and docs/install.md, and most prefixes that are read.
FAMILIES, MOST_PREFIXES = "FAMILIES", 64
CLAIMS = "VGPU_CLAIMS"
LEASE_NAMESPACE, LEASE_NAME, REPLICA_NAME = "VGPU_LEASE_NAMESPACE", "VGPU_LEASE_NAME", "VGPU_POD_NAME"
SCHEDULER_NAME, UNIT = "VGPU_SCHEDULER_NAME", "VGPU_MEM_UNIT_MIB"
_UNIT = re.compile(r"[1-9][0-9]{0,6}")
ROLE = f"ask-allocator ({pages.OPERATIONS})"


@dataclass(frozen=True, slots=True)
class AllocatorDeployment:
    """The settings of the cluster service in `namespace`. `prefixes` are its resource prefixes; empty if unknown.

    `lease` is the Lease of the kube-scheduler that asks the service. The Lease's holder has the name of the leading
    replica's pod; if `by_node` is true, it has the name of that pod's node. `claims` is true if the service serves
    ResourceClaims. Pods of `scheduler` may ask by claims, whose memory is rounded up to units of `unit_mib` MiB.
    `unread` is the error if the Deployment could not be read; the other fields are then as in manifests/base.
    """

    namespace: str
    lease: Ref
    prefixes: tuple[str, ...] = ()
    by_node: bool = False
    claims: bool = False
    unread: ApiError | None = None
    scheduler: str = SCHEDULER
    unit_mib: int = DEFAULT_UNIT_MIB


def base_deployment(namespace: str, unread: ApiError | None = None) -> AllocatorDeployment:
    """Returns the settings of a cluster service in `namespace` as manifests/base installs it."""
    return AllocatorDeployment(namespace, Ref(LEASE, namespace), unread=unread)


def read_deployment(found: Object) -> AllocatorDeployment:
    """Returns the settings that the JSON of the cluster service's Deployment has."""
    namespace = str(found["metadata"]["namespace"])
    texts, fields = dict[str, str](), dict[str, str]()
    for variable in _variables(found):
        texts[variable["name"]] = str(variable.get("value") or "")
        source = (variable.get("valueFrom") or {}).get("fieldRef") or {}
        fields[variable["name"]] = str(source.get("fieldPath") or "")
    lease = Ref(texts.get(LEASE_NAME) or LEASE, texts.get(LEASE_NAMESPACE) or namespace)
    prefixes = comma_list(texts[FAMILIES])[:MOST_PREFIXES] if texts.get(FAMILIES) else ()
    unit = texts.get(UNIT, "")
    return AllocatorDeployment(
        namespace, lease, prefixes, fields.get(REPLICA_NAME) == "spec.nodeName",
        claims=texts.get(CLAIMS, "").lower() == "true", scheduler=texts.get(SCHEDULER_NAME) or SCHEDULER,
        unit_mib=int(unit) if _UNIT.fullmatch(unit) else DEFAULT_UNIT_MIB,
    )  # fmt: skip


def comma_list(text: str) -> tuple[str, ...]:
    """Returns the words of a list with commas."""
    return tuple(word.strip() for word in text.split(","))


def _variables(deployment: Object) -> Iterator[Object]:
    """Yields the environment variables of all containers, the first container's variables last.

    So a caller that keeps the last value of each name keeps the first container's value.
    """
    for container in reversed(deployment["spec"]["template"]["spec"]["containers"]):
        yield from container.get("env") or ()


DEPLOYMENTS: Kind[AllocatorDeployment] = Kind(
    "apps", "v1", "deployments", "Deployment", AllocatorDeployment, read_deployment
)
"""Deployments of the cluster service, decoded to its settings."""


def read_allocator(client: KubeClient, namespace: str = NAMESPACE) -> AllocatorDeployment:
    """Returns the settings of the cluster service, from its Deployment.

    If there is no such Deployment, or the caller may not read it, returns the settings of manifests/base. Raises
    ApiError if the API server has another error, or does not answer.
    """
    try:
        return client.get(DEPLOYMENTS, Ref(DEPLOYMENT, namespace))
    except (GoneError, ForbiddenError) as error:
        return base_deployment(namespace, error)


def allocator_leader(client: KubeClient, of: AllocatorDeployment) -> PodPort:
    """Returns the port of the leading replica, which places pods. Raises ForwardError, ApiError."""

    def pod_of(holder: str) -> str:
        # kube-scheduler appends `_` and a random text to the name of its host.
        name = holder.partition("_")[0]
        return _replica_on(client, of, name) if name and of.by_node else name

    try:
        return leader(
            client, LedService("the allocator", of.namespace, "cluster", of.lease, PORT, ROLE), pod_of
        )
    except GoneError:
        raise _without_lease(of) from None


def _without_lease(service: AllocatorDeployment) -> ForwardError:
    if isinstance(error := service.unread, GoneError):
        return ForwardError(
            f"no cluster service is installed in namespace {service.namespace}: name its namespace with"
            " --allocator-namespace"
        )
    if error is not None:
        return forbidden(error, ROLE)
    return ForwardError(
        f"there is no Lease {service.lease.namespace}/{service.lease.name}, which says what replica of the allocator"
        " leads: see whether its kube-scheduler runs"
    )


def _replica_on(client: KubeClient, service: AllocatorDeployment, node: str) -> str:
    """Returns the name of the replica that runs on `node` and is not being deleted; empty if there is none."""
    fields = f"spec.nodeName={node},status.phase=Running"
    found = client.list(PODS.metadata, Where(service.namespace, REPLICA_LABELS, fields)).items
    return next((pod.name for pod in found if not pod.deleting), "")
