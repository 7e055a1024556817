"""The ResourceClaims of the stub API server: each pod of the workload has one, as if made from a template.

They have the finalizer from the start, as the policy vgpu-claim-finalizer makes them in a cluster.
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from device_plugin.core.contract.claims import CORES, FINALIZER, GROUP, MEMORY, VERSION, device_class
from device_plugin.core.requests import Request
from hack.bench.extender.cluster_model import FAMILY, ClusterModel, claim_uid, uid

CLAIMS = f"/apis/{GROUP}/{VERSION}/resourceclaims"
CLAIM = re.compile(rf"/apis/{GROUP}/{VERSION}/namespaces/default/resourceclaims/pod-(\d+)-slice(/status)?")
# Claims in each part of a list.
PART = 256
Tell = Callable[[bytes], None]
# The metadata of a patch that must be those of the claim.
_CHECKED = {"resourceVersion", "uid"}


class ClaimConflictError(Exception):
    """The ResourceClaim was written with an old version, or does not exist."""


class ClaimStore:
    """Holds the ResourceClaims by the number of their pod.

    The first ones, of pods that hold slices already, have no allocation.
    """

    def __init__(self, workload: ClusterModel, filled: int) -> None:
        self._asked = [_spec(request) for request in workload.requests()]
        self._lock = threading.Lock()
        self._claims = {number: self._made(number) for number in range(filled)}
        self._version = 1
        self._watches: list[Tell] = []

    def listed(self) -> Iterator[bytes]:
        """A ResourceClaimList, in parts."""
        with self._lock:
            texts, version = [_text(each) for each in self._claims.values()], self._version
        yield b'{"metadata":{"resourceVersion":"%d"},"items":[' % version
        for first in range(0, len(texts), PART):
            yield (b"," if first else b"") + b",".join(texts[first : first + PART])
        yield b"]}"

    def watch(self, version: int, tell: Tell) -> bool:
        """Call `tell` with every change until it raises OSError; False if there were changes after `version`."""
        with self._lock:
            if version != self._version:
                return False
            self._watches.append(tell)
            return True

    def create(self, number: int) -> None:
        """Make the ResourceClaim of a new pod."""
        with self._lock:
            self._claims[number] = self._made(number)
            self._tell("ADDED", self._claims[number])

    def end(self, number: int) -> None:
        """Remove the ResourceClaim of a pod that has ended."""
        with self._lock:
            self._tell("DELETED", self._claims.pop(number))

    def read(self, number: int) -> bytes | None:
        """The JSON of the pod's ResourceClaim; None if it has none."""
        with self._lock:
            found = self._claims.get(number)
            return _text(found) if found else None

    def patch(self, number: int, body: bytes, *, status: bool) -> bytes:
        """Merge a patch of a ResourceClaim's status or finalizers; returns its JSON. Raises ClaimConflictError."""
        written: dict[str, Any] = msgspec.json.decode(body)
        with self._lock:
            found = self._claims.get(number)
            kept = found["metadata"] if found else {}
            if found is None or not {
                key: kept[key] for key in _CHECKED & written["metadata"].keys()
            }.items() <= (written["metadata"].items()):
                raise ClaimConflictError
            if status:
                found = {**found, "status": {**found["status"], **written["status"]}}
            else:
                added = {"finalizers": written["metadata"]["finalizers"]}
                found = {**found, "metadata": {**found["metadata"], **added}}
            self._claims[number] = found
            return self._tell("MODIFIED", found)

    def unprotected(self, numbers: Iterable[int]) -> list[str]:
        """Texts about bound pods whose ResourceClaims were not written."""
        with self._lock:
            return [
                f"the claim of pod-{number} has no allocation, or no finalizer"
                for number in numbers
                if number in self._claims
                and not (
                    self._claims[number]["status"].get("allocation")
                    and self._claims[number]["metadata"].get("finalizers") == [FINALIZER]
                )
            ]

    def _made(self, number: int) -> dict[str, Any]:
        owner = {
            "apiVersion": "v1", "kind": "Pod", "name": f"pod-{number}", "uid": uid(number), "controller": True,
        }  # fmt: skip
        meta = {
            "name": f"pod-{number}-slice", "namespace": "default", "uid": claim_uid(number), "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner], "finalizers": [FINALIZER],
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        }  # fmt: skip
        spec = self._asked[number % len(self._asked)]
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "ResourceClaim",
            "metadata": meta,
            "spec": spec,
            "status": {},
        }

    def _tell(self, kind: str, found: dict[str, Any]) -> bytes:
        """Give the ResourceClaim a new version, and send it to the watches; returns its JSON."""
        self._version += 1
        found["metadata"] = {**found["metadata"], "resourceVersion": str(self._version)}
        text = _text(found)
        event = b'{"type":"%b","object":%b}\n' % (kind.encode(), text)
        for tell in list(self._watches):
            try:
                tell(event)
            except OSError:  # the client has closed the connection
                self._watches.remove(tell)
        return text


def _spec(request: Request) -> dict[str, Any]:
    amounts = {
        MEMORY: f"{request.mem}Gi" if request.mem else "",
        CORES: str(request.cores) if request.cores else "",
    }
    exactly = {
        "deviceClassName": device_class(FAMILY), "allocationMode": "ExactCount", "count": 1,
        "capacity": {"requests": {name: amount for name, amount in amounts.items() if amount}},
    }  # fmt: skip
    return {"devices": {"requests": [{"name": "slice", "exactly": exactly}]}}


def _text(found: dict[str, Any]) -> bytes:
    return msgspec.json.encode(found)
