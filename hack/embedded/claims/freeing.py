"""Reserves a ResourceClaim for a bound pod, and frees it when its pods need it no more."""

from collections.abc import Callable
from contextlib import suppress

from device_plugin.core.contract.claims import FINALIZER
from device_plugin.kube.api import Api, Ref
from device_plugin.kube.errors import GoneError
from hack.embedded.claims.uses import CLAIMS, Object, needed, owner
from hack.embedded.pod_spec import Json, deleting, ref, uid

MAX_RESERVED = 256
# Reads the pod of a namespace and a name; None if there is none.
FindPod = Callable[[str, str], Object | None]


def reserve(api: Api, pod: Json, name: str) -> None:
    """Add the pod to those for which an allocated ResourceClaim is reserved. Raises ApiError."""
    claim = api.get(CLAIMS, Ref(name, pod["metadata"]["namespace"]))
    status, own = claim.get("status") or {}, owner(claim)
    reserved = status.get("reservedFor") or []
    if own and own["uid"] != uid(pod):
        return
    if status.get("allocation") and len(reserved) < MAX_RESERVED and not _listed(pod, reserved):
        entry = {"resource": "pods", "name": pod["metadata"]["name"], "uid": uid(pod)}
        _write(api, claim, {"reservedFor": [*reserved, entry]})


def free(api: Api, claim: Object, find: FindPod) -> None:
    """Remove ended and absent pods from a ResourceClaim, and its devices if no pod remains.

    A claim that was made for such a pod is deleted.

    Raises ApiError.
    """
    metadata, status = claim["metadata"], claim.get("status") or {}
    namespace, reserved = metadata["namespace"], status.get("reservedFor") or []
    left = [each for each in reserved if _needs(find(namespace, each["name"]), each["uid"])]
    protected = FINALIZER in (metadata.get("finalizers") or ())
    if len(left) < len(reserved):
        change: Object = {"reservedFor": left or None}
        if protected and not left:
            change["allocation"] = None
        claim = _write(api, claim, change)
        _unprotect(api, claim)
    elif protected and deleting(claim) and not left:
        if status.get("allocation"):
            claim = _write(api, claim, {"allocation": None})
        _unprotect(api, claim)
    own = owner(claim)
    if not left and own and not deleting(claim) and not _needs(find(namespace, own["name"]), own["uid"]):
        with suppress(GoneError):
            api.delete(CLAIMS, ref(claim))


def _listed(pod: Json, reserved: list[Json]) -> bool:
    return any(each["uid"] == uid(pod) for each in reserved)


def _needs(pod: Object | None, wanted: str) -> bool:
    """True if this is the pod of the UID `wanted`, and it may still run."""
    return pod is not None and uid(pod) == wanted and needed(pod)


def _unprotect(api: Api, claim: Object) -> None:
    """Remove the finalizer of a ResourceClaim without devices."""
    finalizers = claim["metadata"].get("finalizers") or []
    if FINALIZER in finalizers and not (claim.get("status") or {}).get("allocation"):
        left = [each for each in finalizers if each != FINALIZER]
        version = {"resourceVersion": claim["metadata"]["resourceVersion"]}
        api.patch(CLAIMS, ref(claim), {"metadata": {**version, "finalizers": left or None}})


def _write(api: Api, claim: Object, status: Object) -> Object:
    """Change the status of the ResourceClaim, which must not have changed since it was read."""
    version = {"resourceVersion": claim["metadata"]["resourceVersion"]}
    return api.patch(CLAIMS, ref(claim), {"metadata": version, "status": status}, subresource="status")
