"""Pods that ask for slices by ResourceClaims, and what Kubernetes shows of the claims."""

from collections.abc import Mapping
from typing import Any

from device_plugin.core.contract.claims import GROUP, VERSION
from device_plugin.kube.api import Kind
from tests.e2e.kubectl import Kubectl
from tests.e2e.workloads import SLEEP, container, pod

CLASS = "dcu.vgpu.io"
API_VERSION = f"{GROUP}/{VERSION}"
CLAIMS: Kind[dict[str, Any]] = Kind(GROUP, VERSION, "resourceclaims", "ResourceClaim", dict)
CLASSES: Kind[dict[str, Any]] = Kind(GROUP, VERSION, "deviceclasses", "DeviceClass", dict)
SLICES: Kind[dict[str, Any]] = Kind(GROUP, VERSION, "resourceslices", "ResourceSlice", dict)


def asking(memory: str = "", cores: int = 0, count: int = 1) -> dict[str, Any]:
    """The spec of a claim for `count` slices."""
    amounts = {"memory": memory, "cores": str(cores) if cores else ""}
    exactly: dict[str, Any] = {
        "deviceClassName": CLASS,
        "capacity": {"requests": {name: amount for name, amount in amounts.items() if amount}},
    }
    if count > 1:
        exactly["count"] = count
    return {"devices": {"requests": [{"name": "slice", "exactly": exactly}]}}


def template(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A ResourceClaimTemplate."""
    kind = {"apiVersion": API_VERSION, "kind": "ResourceClaimTemplate"}
    return {**kind, "metadata": {"name": name}, "spec": {"spec": spec}}


def claim(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A ResourceClaim that people make themselves."""
    return {"apiVersion": API_VERSION, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def claim_pod(name: str, made_from: str = "", named: str = "", **spec: Any) -> dict[str, Any]:
    """A pod whose container uses a claim, made from a template or `named`; `command` is the container's.

    It names the scheduler: nobody sees in a pod whether its claim asks for a slice.
    """
    source = {"resourceClaimTemplateName": made_from} if made_from else {"resourceClaimName": named}
    command = spec.pop("command", SLEEP)
    using = container(command=command, resources={"claims": [{"name": "gpu"}]})
    spec = {"schedulerName": "vgpu-scheduler", **spec}
    return pod(name, using, resourceClaims=[{"name": "gpu", **source}], **spec)


def claim_of(kubectl: Kubectl, name: str) -> Any:
    """The ResourceClaim of the pod's claim `gpu`."""
    found = kubectl.pod(name)
    for status in found["status"].get("resourceClaimStatuses") or ():
        if status.get("resourceClaimName"):
            return kubectl.get(CLAIMS, status["resourceClaimName"])
    (used,) = found["spec"]["resourceClaims"]
    return kubectl.get(CLAIMS, used["resourceClaimName"])


def devices(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The devices that a claim was given."""
    allocation = (found.get("status") or {}).get("allocation") or {}
    given: list[dict[str, Any]] = (allocation.get("devices") or {}).get("results") or []
    return given


def device_uuids() -> dict[tuple[str, str], str]:
    """The uuids of all cards that ResourceSlices show, by pool and device name."""
    return {
        (shown["spec"]["pool"]["name"], device["name"]): device["attributes"]["uuid"]["string"]
        for shown in Kubectl("").items(SLICES)
        if shown["spec"]["driver"] == CLASS
        for device in shown["spec"].get("devices") or ()
    }
