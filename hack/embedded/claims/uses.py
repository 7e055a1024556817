"""Reads which ResourceClaims a pod uses, and makes those that its templates ask for."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from device_plugin.core.contract.claims import GROUP, VERSION
from device_plugin.kube.api import Kind, controller_of
from hack.embedded.pod_spec import Json, deleting, terminal

Object = dict[str, Any]
CLAIMS: Kind[Object] = Kind(GROUP, VERSION, "resourceclaims", "ResourceClaim", dict)
TEMPLATES: Kind[Object] = Kind(GROUP, VERSION, "resourceclaimtemplates", "ResourceClaimTemplate", dict)
# On a claim that was made from a template: its name in the pod.
ENTRY = "resource.kubernetes.io/pod-claim-name"
# The longest beginning of such a claim's name, and the length of the end that the API server adds.
_LONGEST_BASE = 57


def claim_spec(device_class: str, capacity: Mapping[str, str], count: int = 1) -> Object:
    """The spec of a ResourceClaim for `count` devices of a class; `capacity` has the amounts requested of each."""
    exactly = {"deviceClassName": device_class, "count": count, "capacity": {"requests": dict(capacity)}}
    return {"devices": {"requests": [{"name": "slice", "exactly": exactly}]}}


def entries(pod: Json) -> Sequence[Json]:
    """The entries in the pod's `spec.resourceClaims`."""
    return pod["spec"].get("resourceClaims") or ()


def used(pod: Json) -> Mapping[str, str]:
    """The names of the pod's ResourceClaims, by their names in the pod; empty for a claim that is not made yet."""
    made = {
        each["name"]: each.get("resourceClaimName") or ""
        for each in pod["status"].get("resourceClaimStatuses") or ()
    }
    return {
        each["name"]: each.get("resourceClaimName") or made.get(each["name"], "") for each in entries(pod)
    }


def needed(pod: Json) -> bool:
    """False if no container of the pod will run any more: it has ended, or it is deleted and has no node."""
    return not terminal(pod) and not (deleting(pod) and not pod["spec"].get("nodeName"))


def owner(claim: Json) -> Json:
    """The reference to the pod for which the ResourceClaim was made; empty if a person made the claim."""
    found = controller_of(claim["metadata"])
    return found if found.get("kind") == "Pod" else {}


def new_claim(pod: Json, entry: str, template: Json) -> Object:
    """A ResourceClaim from the template, which belongs to the pod; `entry` is its name in the pod."""
    metadata, spec = pod["metadata"], copy.deepcopy(template["spec"])
    own = spec.get("metadata") or {}
    reference = {
        "apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True,
    }  # fmt: skip
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.name,
        "metadata": {
            "generateName": _base(metadata["name"], entry),
            "labels": own.get("labels") or {},
            "annotations": {**(own.get("annotations") or {}), ENTRY: entry},
            "ownerReferences": [reference],
        },
        "spec": spec["spec"],
    }


def _base(pod: str, entry: str) -> str:
    """The beginning of a ResourceClaim's name; long names of pod and entry are cut in proportion."""
    whole = f"{pod}-{entry}-"
    if len(whole) <= _LONGEST_BASE:
        return whole
    return "-".join(part[: len(part) * _LONGEST_BASE // len(whole)] for part in (pod, entry))
