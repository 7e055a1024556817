"""Objects of the Kubernetes API, as their JSON is written."""

from collections.abc import Mapping
from typing import Any


def container(name: str = "main", limits: Mapping[str, object] | None = None, **more: Any) -> dict[str, Any]:
    """A container of a pod; nothing pulls its image."""
    resources = {"limits": limits or {}}
    return {"name": name, "image": "registry.k8s.io/pause:3.10", "resources": resources, **more}


def pod(
    name: str,
    limits: Mapping[str, object] | None = None,
    metadata: Mapping[str, object] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod with one container `main`; `spec` overrides."""
    spec = {"containers": [container("main", limits)], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(metadata or {})}, "spec": spec}


def claiming(name: str, stored: str, limits: Mapping[str, object] | None = None) -> dict[str, Any]:
    """A pod of our scheduler whose container uses the ResourceClaim `stored`, and has `limits` if there are some."""
    using = container("main", limits)
    using["resources"] = {**using.get("resources", {}), "claims": [{"name": "gpu"}]}
    claims = [{"name": "gpu", "resourceClaimName": stored}]
    return pod(name, containers=[using], resourceClaims=claims, schedulerName="vgpu-scheduler")


def node(name: str, **metadata: object) -> dict[str, Any]:
    """A node of which no kubelet has said anything."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}


def binding(name: str, node: str, **metadata: object) -> dict[str, Any]:
    """A Binding of pod `name` to `node`."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}


def annotated(**values: str | None) -> dict[str, Any]:
    """A merge patch of annotations; None removes one."""
    return {"metadata": {"annotations": values}}


def job(name: str, width: int = 1, *, pod: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """An Indexed Job of `width` pods at once and in all; `spec` and `pod`, its pods' spec, override."""
    pods = {"restartPolicy": "Never", "containers": [container()], **(pod or {})}
    spec = {
        "completionMode": "Indexed",
        "completions": width,
        "parallelism": width,
        "template": {"spec": pods},
        **spec,
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
