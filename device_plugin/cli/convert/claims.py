"""The requests in ResourceClaims for Hygon's DRA driver (k8s-hcu-dra-driver, dra.hygon.com).

A claim with a capacity is a slice of a card, in compute units and bytes; without one it is a whole card.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from device_plugin.cli.convert.products import Ask
from device_plugin.core.contract.quantities import parse_quantity
from device_plugin.core.contract.units import MIB
from device_plugin.core.errors import RequestError

DEVICE_CLASS = "dra.hygon.com"
KINDS = ("ResourceClaim", "ResourceClaimTemplate")
# The namespaces that an object without one may be in.
_SAME = {"": "default", "default": ""}
# Fields of a request that are read here, or change nothing.
_READ = {
    "name", "deviceClassName", "count", "allocationMode", "capacity", "selectors", "tolerations", "adminAccess",
    "firstAvailable", "exactly",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claim:
    """The request of a ResourceClaim or of a template, and the names of its fields that a conversion loses.

    `ask` is None if the request is for another driver.
    """

    ask: Ask | None
    lost: tuple[str, ...] = ()


# By kind and name, in one namespace.
Claims = Mapping[tuple[str, str], Claim]


class Namespaces:
    """Holds the ResourceClaims and templates of all files, by their namespaces."""

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[str, str], Claim]] = {}

    def read(self, document: object) -> None:
        """Add the ResourceClaims and templates of a document.

        Raises RequestError for a claim that cannot be converted, and if two objects of one name have different
        requests.
        """
        for namespace, kind, name, claim in _claims(document):
            if self._known.setdefault(namespace, {}).setdefault((kind, name), claim) != claim:
                raise RequestError(f"{kind} {name} is there twice, with two requests: keep one")

    def claims(self, namespace: str) -> Claims:
        """Returns the ResourceClaims and templates that a pod of the namespace can name.

        An object without a namespace may be in `default`. So a pod in `default` can name claims without a namespace
        too, and a pod without a namespace can name claims in `default`.
        """
        same = _SAME.get(namespace, namespace)
        return ChainMap(self._known.get(namespace, {}), self._known.get(same, {}))


def _claims(document: object, listed: str = "") -> Iterator[tuple[str, str, str, Claim]]:
    """Yields namespace, kind, name and claim of each ResourceClaim and template in the document.

    `listed` is the kind of the document if it is an item of a list and has no kind of its own.
    """
    if not isinstance(document, Mapping):
        return
    kind = str(document.get("kind") or listed)
    if kind.endswith("List"):
        for item in document.get("items") or ():
            yield from _claims(item, kind.removesuffix("List"))
        return
    if kind not in KINDS:
        return
    metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
    if kind == KINDS[1]:
        spec = spec.get("spec") or {}
    name = str(metadata.get("name", ""))
    try:
        yield str(metadata.get("namespace") or ""), kind, name, _claim(spec.get("devices") or {})
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
    if exactly.get("adminAccess"):
        raise RequestError("adminAccess has no counterpart: leave it out")
    capacity = exactly.get("capacity") or {}
    amounts = capacity.get("requests") or {}
    unknown = [name for name in exactly if name not in _READ]
    unknown += [f"capacity {name}" for name in capacity if name != "requests"]
    unknown += [f"capacity {name}" for name in amounts if name not in ("memory", "cores")]
    if unknown:
        raise RequestError(f"{unknown[0]} is not known here: write memory and cores, and leave it out")
    memory, cores = (
        _amount(f"capacity {name}", amounts[name]) if name in amounts else None
        for name in ("memory", "cores")
    )
    count = _amount("count", exactly.get("count", 1))
    return Ask(count, None if memory is None else -(-memory // MIB), cores=cores)


def _amount(name: str, value: object) -> int:
    amount = parse_quantity(str(value))
    if amount is None or amount.denominator > 1 or amount < 1:
        raise RequestError(f"{name} is {value}: write a whole number of at least 1")
    return int(amount)
