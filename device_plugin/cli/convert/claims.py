"""The requests in ResourceClaims for Hygon's DRA driver (k8s-hcu-dra-driver, dra.hygon.com).

A claim with a capacity is a slice of a card, in compute units and bytes; without one it is a whole card.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from device_plugin.cli.convert.pods import Claim
from device_plugin.cli.convert.products import Ask
from device_plugin.core.contract.quantities import parse_quantity
from device_plugin.core.errors import RequestError

DEVICE_CLASS = "dra.hygon.com"
KINDS = ("ResourceClaim", "ResourceClaimTemplate")
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Named:
    """A claim or a template of claims, with its namespace (empty where none is written), kind and name."""

    namespace: str
    kind: str
    name: str
    claim: Claim


def claims(document: object, listed: str = "") -> Iterator[Named]:
    """The claims in the document, which may be a list of them: `listed` is its kind of items. Raises RequestError."""
    if not isinstance(document, Mapping):
        return
    kind = str(document.get("kind") or listed)
    if kind.endswith("List"):
        for item in document.get("items") or ():
            yield from claims(item, kind.removesuffix("List"))
        return
    if kind not in KINDS:
        return
    metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
    if kind == KINDS[1]:
        spec = spec.get("spec") or {}
    name = str(metadata.get("name", ""))
    try:
        yield Named(str(metadata.get("namespace") or ""), kind, name, _claim(spec.get("devices") or {}))
    except RequestError as error:
        raise RequestError(f"{kind} {name}: {error}") from error


def _claim(devices: Mapping[str, Any]) -> Claim:
    entries = devices.get("requests") or ()
    if any(
        one.get("deviceClassName") == DEVICE_CLASS
        for each in entries
        for one in each.get("firstAvailable") or ()
    ):
        raise RequestError("firstAvailable has no counterpart: choose one of its requests")
    # The version v1beta1 has the fields of `exactly` beside the request's name.
    asked = [entry.get("exactly") or entry for entry in entries]
    ours = [exactly for exactly in asked if exactly.get("deviceClassName") == DEVICE_CLASS]
    if not ours:
        return Claim(None)
    if len(asked) > 1:
        raise RequestError("has several requests: split it into claims of one request each")
    parts = {**devices, "tolerations": ours[0].get("tolerations")}
    return Claim(
        _read(ours[0]), tuple(part for part in ("config", "constraints", "tolerations") if parts.get(part))
    )


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
