"""Reading the pod object: the fields of the spec that this kubelet honours."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from device_plugin.core.requests import parse_quantity

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ContainerView:
    """One container of the spec. `limits` are whole numbers; `requests` fall back on limits, as in Kubernetes."""

    name: str
    init: bool
    sidecar: bool
    command: tuple[str, ...]
    env: Mapping[str, str]
    limits: Mapping[str, int]
    requests: Mapping[str, Fraction]
    image: str


def uid(pod: Json) -> str:
    """The UID in the pod's metadata."""
    return str(pod["metadata"]["uid"])


def key(pod: Json) -> tuple[str, str]:
    """The namespace and name of the pod."""
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def full_name(pod: Json) -> str:
    """The pod as the kubelet names it in messages: name_namespace(uid)."""
    namespace, name = key(pod)
    return f"{name}_{namespace}({uid(pod)})"


def deleting(pod: Json) -> bool:
    """True once the pod's deletion was requested."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def terminal(pod: Json) -> bool:
    """True if the API server has the pod's final phase."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def grace_seconds(pod: Json) -> float:
    """Seconds that containers may run after SIGTERM: the deletion's grace period, else the spec's; at least 1."""
    asked = pod["metadata"].get("deletionGracePeriodSeconds") or pod["spec"].get(
        "terminationGracePeriodSeconds", 30
    )
    return max(float(asked), 1.0)


def containers(pod: Json) -> list[ContainerView]:
    """Init containers, sidecars among them, then main containers: the order in which they start."""
    spec = pod["spec"]
    found = [_view(raw, init=True) for raw in spec.get("initContainers") or ()]
    return found + [_view(raw, init=False) for raw in spec["containers"]]


def total_requests(pod: Json) -> dict[str, Fraction]:
    """The pod's requests from the node: the sum of containers that run together, or the largest init container."""
    total: dict[str, Fraction] = {}
    views = containers(pod)
    for view in views:
        if view.sidecar or not view.init:
            for name, value in view.requests.items():
                total[name] = total.get(name, Fraction(0)) + value
    for view in views:
        if view.init and not view.sidecar:
            for name, value in view.requests.items():
                total[name] = max(total.get(name, Fraction(0)), value)
    return total


def _view(raw: Json, *, init: bool) -> ContainerView:
    resources = raw.get("resources") or {}
    limits = _quantities(resources.get("limits") or {})
    return ContainerView(
        name=raw["name"],
        init=init,
        sidecar=init and raw.get("restartPolicy") == "Always",
        command=(*(raw.get("command") or ("sleep", "infinity")), *(raw.get("args") or ())),
        env={entry["name"]: entry.get("value", "") for entry in raw.get("env") or ()},
        limits={name: math.ceil(value) for name, value in limits.items()},
        requests={**limits, **_quantities(resources.get("requests") or {})},
        image=raw.get("image", ""),
    )


def _quantities(raw: Json) -> dict[str, Fraction]:
    return {name: parse_quantity(str(value)) or Fraction(0) for name, value in raw.items()}
