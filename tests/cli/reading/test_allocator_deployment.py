"""Where the leader of the cluster service listens, as its Deployment, the Lease and the pods say it."""

from collections.abc import Sequence
from typing import Any

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access.port_forward import ForwardError
from device_plugin.cli.reading.allocator_deployment import allocator_leader, read_allocator
from device_plugin.kube.api import EVERYWHERE, Kind, Listed, Metadata, Named, Where
from device_plugin.kube.errors import ForbiddenError, GoneError
from device_plugin.kube.leases import Lease

FORBIDDEN = ForbiddenError("deployments is forbidden", 403, "Forbidden")
OWN, DEFAULT = "vgpu-system/vgpu-scheduler", "kube-system/kube-scheduler"


def deployment(path: str, **variables: str) -> dict[str, Any]:
    """A Deployment of the cluster service whose replicas are named after the field at `path`."""
    env: list[dict[str, Any]] = [{"name": "VGPU_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": path}}}]
    env += [{"name": name, "value": value} for name, value in variables.items()]
    spec = {"template": {"spec": {"containers": [{"name": "allocator", "env": env}]}}}
    return {"metadata": {"name": "vgpu-cluster", "namespace": "vgpu-system"}, "spec": spec}


BASE = deployment("metadata.name")
# As docs/install.md shows it.
BY_NODE = deployment("spec.nodeName", VGPU_LEASE_NAMESPACE="kube-system", VGPU_LEASE_NAME="kube-scheduler")


DELETED, RUNS = Metadata("vgpu-cluster-x0", deleting=True), Metadata("vgpu-cluster-x1")


class Cluster(KubeClient):
    """A client of a cluster with these Leases, and these replicas on cp-1; `found` is the Deployment, or why not."""

    def __init__(
        self,
        found: dict[str, Any] | Exception,
        leases: dict[str, str],
        replicas: Sequence[Metadata] = (DELETED, RUNS),
    ) -> None:
        self._found = found
        self._leases = leases
        self._replicas = replicas

    def get(self, kind: Kind[Any], of: Named) -> Any:
        if kind.plural == "leases":
            name = f"{of.namespace}/{of.name}"
            if name not in self._leases:
                raise GoneError(f"no {name}")
            return Lease(self._leases[name], "")
        assert kind.parse is not None
        if isinstance(self._found, Exception):
            raise self._found
        return kind.parse(self._found)

    def list(self, kind: Kind[Any], where: Where = EVERYWHERE) -> Listed[Any]:
        assert (kind.plural, where.namespace) == ("pods", "vgpu-system")
        assert where.labels == "app.kubernetes.io/name=vgpu,app.kubernetes.io/component=cluster"
        here = where.fields == "spec.nodeName=cp-1,status.phase=Running"
        return Listed([*self._replicas] if here else [])


@pytest.mark.parametrize(
    ("found", "leases", "pod"),
    [
        (BASE, {OWN: "vgpu-cluster-y2_uuid", DEFAULT: "cp-1_uuid"}, "vgpu-cluster-y2"),
        (BY_NODE, {DEFAULT: "cp-1_uuid"}, "vgpu-cluster-x1"),
        (FORBIDDEN, {OWN: "vgpu-cluster-y2_uuid"}, "vgpu-cluster-y2"),
        (GoneError("none"), {OWN: "vgpu-cluster-y2_uuid"}, "vgpu-cluster-y2"),
    ],
)
def test_the_leader_is_found(found: dict[str, Any] | Exception, leases: dict[str, str], pod: str) -> None:
    client = Cluster(found, leases)
    port = allocator_leader(client, read_allocator(client))
    assert (port.namespace, port.pod, port.port) == ("vgpu-system", pod, 9401)


@pytest.mark.parametrize(
    ("found", "leases", "says"),
    [
        (BASE, {OWN: ""}, "no replica of the allocator leads now"),
        (BY_NODE, {DEFAULT: "cp-2_uuid"}, "no replica of the allocator leads now"),
        (BY_NODE, {}, "there is no Lease kube-system/kube-scheduler"),
        (GoneError("none"), {}, "no cluster service is installed in namespace vgpu-system"),
        # The Lease may be another one, which only the Deployment says.
        (FORBIDDEN, {DEFAULT: "cp-1_uuid"}, "deployments is forbidden.*bind the Role ask-allocator"),
    ],
)
def test_without_a_leader_it_says_why(
    found: dict[str, Any] | Exception, leases: dict[str, str], says: str
) -> None:
    client = Cluster(found, leases)
    with pytest.raises(ForwardError, match=says):
        allocator_leader(client, read_allocator(client))


def test_a_replica_that_is_being_deleted_does_not_lead() -> None:
    client = Cluster(BY_NODE, {DEFAULT: "cp-1_uuid"}, [DELETED])
    with pytest.raises(ForwardError, match="no replica of the allocator leads now"):
        allocator_leader(client, read_allocator(client))


@pytest.mark.parametrize(
    ("variables", "scheduler", "unit"),
    [
        ({}, "vgpu-scheduler", 1024),
        ({"VGPU_SCHEDULER_NAME": "theirs", "VGPU_MEM_UNIT_MIB": "256"}, "theirs", 256),
        ({"VGPU_MEM_UNIT_MIB": "0"}, "vgpu-scheduler", 1024),
        ({"VGPU_MEM_UNIT_MIB": "from parameters.yaml"}, "vgpu-scheduler", 1024),
    ],
)
def test_the_deployment_says_whose_pods_may_ask_by_claims(
    variables: dict[str, str], scheduler: str, unit: int
) -> None:
    found = read_allocator(Cluster(deployment("metadata.name", **variables), {}))
    assert (found.scheduler, found.unit_mib) == (scheduler, unit)
