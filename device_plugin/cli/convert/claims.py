"""The requests in ResourceClaims for Hygon's DRA driver (k8s-hcu-dra-driver, dra.hygon.com).

A claim with a capacity is a slice of a card, in compute units and bytes; without one it is a whole card.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from device_plugin.cli.convert.pods import Ask
from device_plugin.core.contract.quantities import parse_quantity
from device_plugin.core.errors import RequestError

DEVICE_CLASS = "dra.hygon.com"
KINDS = ("ResourceClaim", "ResourceClaimTemplate")
MIB = 1 << 20


def claims(document: object) -> Iterator[tuple[tuple[str, str], Ask | None]]:
    """The request of each claim in the document, by kind and name; None for another driver's. Raises RequestError."""
    if not isinstance(document, Mapping):
        return
    if document.get("kind") == "List":
        for item in document.get("items") or ():
            yield from claims(item)
        return
    kind = document.get("kind")
    if kind not in KINDS:
        return
    spec = document.get("spec") or {}
    if kind == KINDS[1]:
        spec = spec.get("spec") or {}
    name = str((document.get("metadata") or {}).get("name", ""))
    entries = (spec.get("devices") or {}).get("requests") or ()
    if any(
        one.get("deviceClassName") == DEVICE_CLASS
        for each in entries
        for one in each.get("firstAvailable") or ()
    ):
        raise RequestError(f"{kind} {name}: firstAvailable has no counterpart: choose one of its requests")
    # The version v1beta1 has the fields of `exactly` beside the request's name.
    asked = [entry.get("exactly") or entry for entry in entries]
    ours = [_read(exactly) for exactly in asked if exactly.get("deviceClassName") == DEVICE_CLASS]
    if len(ours) == 1 and len(asked) == 1:
        yield (str(kind), name), ours[0]
    elif ours:
        raise RequestError(f"{kind} {name}: has several requests: split it into claims of one request each")
    else:
        yield (str(kind), name), None


def _read(exactly: Mapping[str, Any]) -> Ask:
    if exactly.get("allocationMode") == "All":
        raise RequestError("allocationMode: All has no counterpart: write a count")
    if exactly.get("selectors"):
        raise RequestError(
            "selectors have no counterpart: write vgpu.io/card-model, and leave the selectors out"
        )
    amounts = (exactly.get("capacity") or {}).get("requests") or {}
    memory, cores = (
        _amount(name, amounts[name]) if name in amounts else None for name in ("memory", "cores")
    )
    return Ask(
        _amount("count", exactly.get("count", 1)), None if memory is None else -(-memory // MIB), cores=cores
    )


def _amount(name: str, value: object) -> int:
    amount = parse_quantity(str(value))
    if amount is None or amount.denominator > 1 or amount < 1:
        raise RequestError(f"capacity {name}: {value} is no whole number of at least 1")
    return int(amount)
