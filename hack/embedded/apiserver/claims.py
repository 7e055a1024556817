"""ResourceClaims and their templates: defaults, immutable fields, and the two routes by which a claim is written.

Model: k8s.io/kubernetes 1.36 pkg/registry/resource/resourceclaim and pkg/apis/resource (v1 defaults, validation).
"""

from collections.abc import Iterator

from hack.embedded.apiserver.errors import Cause
from hack.embedded.apiserver.strategies import Object, Strategy, keep

# Metadata that a write of the status keeps.
_OF_THE_OBJECT = ("labels", "annotations", "finalizers", "ownerReferences")


class ClaimStrategy(Strategy):
    """The strategy of claims: the object and its status are written by two routes."""

    def default(self, new: Object) -> None:
        """Set the mode and the count of each request that leaves them out."""
        _default_devices(new.get("spec") or {})

    def prepare_create(self, new: Object) -> None:
        """Leave out the status, which has a route of its own."""
        new["status"] = {}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Restore the part of the other route: the status, or spec and metadata."""
        if not subresource:
            keep(new, old, "status")
            return
        keep(new, old, "spec")
        for key in _OF_THE_OBJECT:
            keep(new["metadata"], old["metadata"], key)
        new["status"] = new.get("status") or {}

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """The faults of an update: the spec is immutable."""
        return [*self.validate(new), *_immutable_spec(new, old)]


class ClaimTemplateStrategy(Strategy):
    """The strategy of claim templates, whose spec is immutable."""

    def default(self, new: Object) -> None:
        """Set the mode and the count of each request that leaves them out."""
        _default_devices((new.get("spec") or {}).get("spec") or {})

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """The faults of an update: the spec is immutable."""
        return [*self.validate(new), *_immutable_spec(new, old)]


def _default_devices(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for asked in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if asked is not None:
                asked.setdefault("allocationMode", "ExactCount")
                if asked["allocationMode"] == "ExactCount":
                    asked.setdefault("count", 1)


def _immutable_spec(new: Object, old: Object) -> Iterator[Cause]:
    if new.get("spec") != old.get("spec"):
        yield Cause("spec", "Invalid value: {…}: field is immutable")
