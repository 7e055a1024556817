"""The checks of kube-scheduler before it calls an extender: counted resources, and cordoned nodes."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from device_plugin.core.requests import parse_quantity

Pod = Mapping[str, Any]
Node = Mapping[str, Any]
Amounts = Mapping[str, Fraction]


def asked(pod: Pod) -> Amounts:
    """Extended resources that a pod takes: the sum of main containers and sidecars, or an init container's if larger.

    As component-helpers' resource.PodRequests counts.
    """
    spec = pod["spec"]
    sidecars: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        own = _extended((container.get("resources") or {}).get("requests"))
        if container.get("restartPolicy") == "Always":
            _add(sidecars, own)
            _raise(peak, sidecars)
        else:
            _raise(peak, _sum(sidecars, own))
    total = dict(sidecars)
    for container in spec.get("containers") or ():
        _add(total, _extended((container.get("resources") or {}).get("requests")))
    _raise(total, peak)
    return total


def offered(node: Node) -> Amounts:
    """Extended resources that a node can give."""
    return _extended((node.get("status") or {}).get("allocatable"))


def obstacles(node: Node, pods: Iterable[Pod], wanted: Amounts) -> list[str]:
    """kube-scheduler's texts about the resources that a node with `pods` lacks for `wanted`; empty if it fits."""
    if (node.get("spec") or {}).get("unschedulable"):
        return ["node(s) were unschedulable"]
    left = dict(offered(node))
    for pod in pods:
        for name, amount in asked(pod).items():
            left[name] = left.get(name, Fraction(0)) - amount
    return [
        f"Insufficient {name}"
        for name, amount in sorted(wanted.items())
        if amount > left.get(name, Fraction(0))
    ]


def _extended(amounts: Mapping[str, Any] | None) -> dict[str, Fraction]:
    found = {}
    for name, text in (amounts or {}).items():
        amount = parse_quantity(str(text))
        if "/" in name and amount is not None:
            found[name] = amount
    return found


def _sum(one: Amounts, other: Amounts) -> Amounts:
    total = dict(one)
    _add(total, other)
    return total


def _add(total: dict[str, Fraction], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount


def _raise(total: dict[str, Fraction], floor: Amounts) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, Fraction(0)), amount)
