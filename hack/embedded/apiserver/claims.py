"""ResourceClaims and their templates: defaults, immutable fields, and the two routes by which a claim is written.

Model: k8s.io/kubernetes 1.36 pkg/registry/resource/resourceclaim and pkg/apis/resource (v1 defaults, validation).
"""

from collections.abc import Iterator

from hack.embedded.apiserver import allocations, quantities
from hack.embedded.apiserver.errors import Cause
from hack.embedded.apiserver.strategies import Object, Strategy, keep

# Metadata that a write of the status keeps.
_OF_THE_OBJECT = ("labels", "annotations", "finalizers", "ownerReferences")


class ClaimStrategy(Strategy):
    """The rules for writes of ResourceClaims: the object and its status are written by two routes."""

    def default(self, new: Object) -> None:
        """Set the mode and count of each request that leaves them out, and normalise quantities."""
        _default_devices(new.get("spec") or {}, "ResourceClaim")
        for result in allocations.results(new.get("status") or {}):
            quantities.normalise("ResourceClaim", result.get("consumedCapacity") or {})

    def prepare_create(self, new: Object) -> None:
        """Leave out the status, which has a route of its own."""
        new["status"] = {}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Restore the part that only the other route may write: the status, or spec and metadata."""
        if not subresource:
            keep(new, old, "status")
            return
        keep(new, old, "spec")
        for key in _OF_THE_OBJECT:
            keep(new["metadata"], old["metadata"], key)
        new["status"] = allocations.written(new.get("status") or {})

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """The faults of an update: the spec is immutable, and so is an allocation until it is removed."""
        return [*self.validate(new), *_immutable_spec(new, old), *allocations.causes(new, old)]


class ClaimTemplateStrategy(Strategy):
    """The rules for writes of ResourceClaimTemplates, whose spec is immutable."""

    def default(self, new: Object) -> None:
        """Set the mode and count of each request that leaves them out, and normalise quantities."""
        _default_devices((new.get("spec") or {}).get("spec") or {}, "ResourceClaimTemplate")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """The faults of an update: the spec is immutable."""
        return [*self.validate(new), *_immutable_spec(new, old)]


def _default_devices(spec: Object, kind: str) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for asked in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if asked is not None:
                asked.setdefault("allocationMode", "ExactCount")
                if asked["allocationMode"] == "ExactCount":
                    asked["count"] = asked.get("count") or 1
                quantities.normalise(kind, (asked.get("capacity") or {}).get("requests") or {})


def _immutable_spec(new: Object, old: Object) -> Iterator[Cause]:
    if new.get("spec") != old.get("spec"):
        yield Cause("spec", "Invalid value: {…}: field is immutable")
