"""Computes the resources that a pod takes on its node, as kubelet and kube-scheduler do (PodRequests)."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from device_plugin.core.contract.quantities import parse_quantity

Amounts = Mapping[str, Fraction]
ZERO = Fraction(0)


def requested(pod: Mapping[str, Any]) -> Amounts:
    """The amounts that the pod requests: the larger of two sums, by resource.

    One sum is of the main containers and sidecars; the other is of an init container and the sidecars before it.
    """
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
    """The amounts in `limits`, `requests` or `allocatable`; a malformed quantity counts as 0."""
    return {name: parse_quantity(str(text)) or ZERO for name, text in (quantities or {}).items()}


def total(one: Amounts, other: Amounts) -> Amounts:
    """The sum of two amounts, for each resource."""
    return {name: one.get(name, ZERO) + other.get(name, ZERO) for name in {**one, **other}}


def larger(one: Amounts, other: Amounts) -> Amounts:
    """The larger amount of each resource."""
    return {name: max(one.get(name, ZERO), other.get(name, ZERO)) for name in {**one, **other}}


def _own(container: Mapping[str, Any]) -> Amounts:
    return amounts((container.get("resources") or {}).get("requests"))
