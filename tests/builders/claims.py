"""ResourceClaims as the API server has them, and pods that ask by them."""

from typing import Any

from device_plugin.core.pods import Container, ContainerKind, Pod
from tests.builders.pods import pod

CLASS = "dcu.vgpu.io"


def claim(
    name: str = "slice", capacity: dict[str, str] | None = None, *, uid: str = "", pod_uid: str = "",
    **exactly: Any,
) -> dict[str, Any]:  # fmt: skip
    """The JSON of a claim of half a card, made from a template for the pod `pod_uid` if that is given."""
    owner = {"kind": "Pod", "name": "p", "uid": pod_uid, "controller": True}
    asked = {
        "deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 1,
        "capacity": {"requests": {"memory": "8Gi", "cores": "30"} if capacity is None else capacity}, **exactly,
    }  # fmt: skip
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "resourceVersion": "1",
            **({"ownerReferences": [owner]} if pod_uid else {}),
        },
        "spec": {"devices": {"requests": [{"name": "card", "exactly": asked}]}},
    }


def claim_pod(name: str, stored: str = "slice", **more: Any) -> Pod:
    """An unbound pod whose container `main` uses the ResourceClaim `stored`; empty: it is not made yet."""
    fields = {
        "containers": (Container("main", ContainerKind.MAIN, {}, ("gpu",)),),
        "claims": {"gpu": stored},
        **more,
    }
    return pod(name, **fields)
