"""Reads pod objects: their identity, and the fields of the spec that the kubelet stand-in uses."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from device_plugin.kube.api import Ref
from hack.embedded.pod_requests import amounts

Json = Mapping[str, Any]
MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod: it shows a program that the node runs without the API server."""
_KEPT = re.compile(r"metadata\.(?P<kind>labels|annotations)\['(?P<key>[^']+)'\]")


@dataclass(frozen=True, slots=True)
class ContainerView:
    """One container of the spec. `limits` are whole numbers."""

    name: str
    init: bool
    sidecar: bool
    command: tuple[str, ...]
    env: Mapping[str, str]
    limits: Mapping[str, int]
    image: str


def uid(pod: Json) -> str:
    """The UID in the pod's metadata."""
    return str(pod["metadata"]["uid"])


def ref(pod: Json) -> Ref:
    """The name of the pod in the API."""
    metadata = pod["metadata"]
    return Ref(metadata["name"], metadata["namespace"], metadata["uid"])


def full_name(pod: Json) -> str:
    """The pod's name in the kubelet's messages: name_namespace(uid)."""
    of = ref(pod)
    return f"{of.name}_{of.namespace}({of.uid})"


def mirrored(pod: Json) -> bool:
    """True for a mirror pod."""
    return MIRROR in (pod["metadata"].get("annotations") or {})


def deleting(pod: Json) -> bool:
    """True once the pod's deletion was requested."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def terminal(pod: Json) -> bool:
    """True if the API server has the pod's final phase."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def grace_seconds(pod: Json) -> float:
    """Seconds that containers may run after SIGTERM: the deletion's grace period or else the spec's; at least 1."""
    asked = pod["metadata"].get("deletionGracePeriodSeconds") or pod["spec"].get(
        "terminationGracePeriodSeconds", 30
    )
    return max(float(asked), 1.0)


def containers(pod: Json) -> list[ContainerView]:
    """All containers in the order in which they start: init containers and sidecars, then main containers."""
    spec = pod["spec"]
    found = [_view(pod, raw, init=True) for raw in spec.get("initContainers") or ()]
    return found + [_view(pod, raw, init=False) for raw in spec["containers"]]


def _view(pod: Json, raw: Json, *, init: bool) -> ContainerView:
    limits = amounts((raw.get("resources") or {}).get("limits"))
    return ContainerView(
        name=raw["name"],
        init=init,
        sidecar=init and raw.get("restartPolicy") == "Always",
        command=(*(raw.get("command") or ("sleep", "infinity")), *(raw.get("args") or ())),
        env={entry["name"]: _value(pod, entry) for entry in raw.get("env") or ()},
        limits={name: math.ceil(value) for name, value in limits.items()},
        image=raw.get("image", ""),
    )


def _value(pod: Json, variable: Json) -> str:
    """The value of an environment variable: the written text, or the value of the pod's field that it names."""
    source = (variable.get("valueFrom") or {}).get("fieldRef")
    return field(pod, source["fieldPath"]) if source else str(variable.get("value", ""))


def field(pod: Json, path: str) -> str:
    """The label or annotation of the pod that `path` names, `metadata.labels['KEY']`; empty if there is none."""
    found = _KEPT.fullmatch(path)
    return str((pod["metadata"].get(found["kind"]) or {}).get(found["key"], "")) if found else ""
