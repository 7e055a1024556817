"""Resources that a pod takes of its node, as kubelet and kube-scheduler count them (component-helpers' PodRequests)."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from device_plugin.core.requests import parse_quantity

Amounts = Mapping[str, Fraction]
ZERO = Fraction(0)


def requested(pod: Mapping[str, Any]) -> Amounts:
    """The sum of main containers and sidecars, or an init container's with the sidecars before it if that is larger."""
    spec = pod["spec"]
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        beside = total(sidecars, _own(container))
        peak = larger(peak, beside)
        if container.get("restartPolicy") == "Always":
            sidecars = beside
    needed = sidecars
    for container in spec.get("containers") or ():
        needed = total(needed, _own(container))
    return larger(needed, peak)


def amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    """The amounts of `limits`, `requests` or `allocatable`; what is no quantity counts as none."""
    return {name: parse_quantity(str(text)) or ZERO for name, text in (quantities or {}).items()}


def total(one: Amounts, other: Amounts) -> Amounts:
    """The sum by resource."""
    return {name: one.get(name, ZERO) + other.get(name, ZERO) for name in {**one, **other}}


def larger(one: Amounts, other: Amounts) -> Amounts:
    """The larger amount of each resource."""
    return {name: max(one.get(name, ZERO), other.get(name, ZERO)) for name in {**one, **other}}


def _own(container: Mapping[str, Any]) -> Amounts:
    return amounts((container.get("resources") or {}).get("requests"))
