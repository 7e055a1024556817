"""ResourceSlices: defaults, and fields that cannot change.

Model: k8s.io/kubernetes 1.36 pkg/registry/resource/resourceslice.
"""

from collections.abc import Iterator

from hack.embedded.apiserver import quantities
from hack.embedded.apiserver.errors import Cause
from hack.embedded.apiserver.strategies import Object, Strategy
from hack.embedded.clock import timestamp


class SliceStrategy(Strategy):
    """The rules for writes of ResourceSlices."""

    def default(self, new: Object) -> None:
        """Add the time to taints without one, and normalise quantities."""
        for device in new["spec"].get("devices") or ():
            for taint in device.get("taints") or ():
                taint.setdefault("timeAdded", timestamp())
            for capacity in (device.get("capacity") or {}).values():
                policy = capacity.get("requestPolicy") or {}
                for amounts, keys in (
                    (capacity, ("value",)),
                    (policy, ("default",)),
                    (policy.get("validRange") or {}, ("min", "max", "step")),
                ):
                    found = {key: amounts[key] for key in keys if key in amounts}
                    quantities.normalise("ResourceSlice", found)
                    amounts.update(found)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """The faults of an update: a ResourceSlice stays on its node, and in the pool (devices) of its driver."""
        return [*self.validate(new), *_immutable(new["spec"], old["spec"])]


def _immutable(spec: Object, was: Object) -> Iterator[Cause]:
    for path, value, before in (
        ("nodeName", spec.get("nodeName"), was.get("nodeName")),
        ("driver", spec.get("driver"), was.get("driver")),
        ("pool.name", (spec.get("pool") or {}).get("name"), was["pool"]["name"]),
    ):
        if value != before:
            yield Cause(f"spec.{path}", f'Invalid value: "{value}": field is immutable')
