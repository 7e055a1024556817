"""CustomResourceDefinitions of our own for the kinds that the engine starts: any spec and status, no controller."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from device_plugin.core.workload_kinds import MPI_JOB_V1, WORKLOAD_KINDS, WorkloadKind
from tests.builders.workloads import body
from tests.contract.cluster import Cluster
from tests.deadline import eventually

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(kind: WorkloadKind) -> dict[str, Any]:
    """The definition of a kind, with a status of its own."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {
        "name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group, "scope": "Namespaced", "versions": [version],
            "names": {"plural": kind.plural, "singular": kind.name.lower(), "kind": kind.name},
        },
    }  # fmt: skip


@contextmanager
def installed(cluster: Cluster) -> Iterator[None]:
    """Install the kinds in a real cluster; the stand-in has them."""
    if not os.environ.get("VGPU_CONTRACT_KUBECONFIG"):
        yield
        return
    kinds = [kind for kind in WORKLOAD_KINDS if kind is not MPI_JOB_V1]
    for kind in kinds:
        assert cluster.post(DEFINITIONS, definition(kind)).code in (201, 409)
    assert cluster.post(ROLES, _editors()).code in (201, 409)
    assert eventually(lambda: all(_is_there(cluster, kind) for kind in kinds), 60, every=0.5)
    yield
    for kind in kinds:
        cluster.delete(f"{DEFINITIONS}/{kind.plural}.{kind.group}")
    cluster.delete(f"{ROLES}/{_editors()['metadata']['name']}")


def _is_there(cluster: Cluster, kind: WorkloadKind) -> bool:
    """True once the editor may create objects of the kind: a new definition takes none for some seconds."""
    folder = f"/apis/{kind.group}/{kind.version}/namespaces/default/{kind.plural}"
    return cluster.post(f"{folder}?dryRun=All", body(kind, "any"), "editor").code == 201


def _editors() -> dict[str, Any]:
    """A role that gives the rights of Kubernetes' role `edit` for these kinds too, as their installations do."""
    group = "rbac.authorization.k8s.io"
    groups = sorted({kind.group for kind in WORKLOAD_KINDS})
    return {
        "apiVersion": f"{group}/v1", "kind": "ClusterRole",
        "metadata": {"name": "vgpu-contract-kinds", "labels": {f"{group}/aggregate-to-edit": "true"}},
        "rules": [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}],
    }  # fmt: skip
