"""Requests to other products for a share of a card: HAMi, gpushare, KAI, Volcano, the plugins of the makers.

The names of resources are from each product's documentation: HAMi's for NVIDIA and Hygon, Alibaba Cloud's gpushare,
Volcano's vGPU, NVIDIA's k8s-device-plugin, Hygon's k8s-hcu-device-plugin.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from device_plugin.core.contract.quantities import parse_quantity
from device_plugin.core.errors import RequestError
from device_plugin.core.requests import DEFAULT_PREFIXES, MEM, PERCENT, all_resource_names, resource_names

WHOLE_CARD = 100  # percent
# More MiB than a card has (4 TiB): who writes so many meant bytes.
MOST_MIB = 1 << 22


@dataclass(frozen=True, slots=True)
class Ask:
    """One container's request: `count` cards, and the amount on each card; without an amount, whole cards.

    The compute of each card is `cores` core groups, or a percentage of all.
    """

    count: int = 1
    mem_mib: int | None = None
    mem_percent: int | None = None
    cores_percent: int | None = None
    cores: int | None = None

    @property
    def whole(self) -> bool:
        """True if the container asks for whole cards."""
        return self == Ask(self.count)


@dataclass(frozen=True, slots=True)
class _Product:
    """The names of one product's resources; empty for a resource that it does not have.

    `count` counts cards. `mem` and `mem_percent` are memory, and `cores` is percent of compute, on each card. With
    `cuts_one` the product cuts a card only for a container that asks for one card and a share of its compute. All
    other containers have whole cards, whatever memory they ask for.
    """

    count: str = ""
    mem: str = ""
    mem_percent: str = ""
    cores: str = ""
    mem_mib: int = 1  # MiB of one unit of `mem`
    cuts_one: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the resources that the product has."""
        return tuple(name for name in (self.count, self.mem, self.mem_percent, self.cores) if name)


_PRODUCTS = (
    _Product("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
    _Product("hygon.com/dcunum", "hygon.com/dcumem", cores="hygon.com/dcucores"),
    _Product("hygon.com/hcunum", "hygon.com/hcumem", cores="hygon.com/hcucores", cuts_one=True),
    _Product("hygon.com/hcu"),
    _Product(
        "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage",
        "volcano.sh/vgpu-cores",
    ),
    _Product(mem="aliyun.com/gpu-mem", cores="aliyun.com/gpu-core.percentage", mem_mib=1024),
)  # fmt: skip
_UNSIZED = {
    "nvidia.com/gpu.shared": "a time slice has no size",
    "aliyun.com/gpu-count": "it counts cards of a node",
}
# Names that contain the size of a part of a card: compute units and GiB (Hygon's vHCU), or parts of the compute units
# and GB (MIG), with the number of parts that a card has.
_SIZE = "([1-9][0-9]{0,3})"
_SHARE = re.compile(rf"hygon\.com/hcu-share-{_SIZE}c-{_SIZE}g")
_MIG = re.compile(rf"(nvidia\.com/mig-|hygon\.com/hcu-mig-){_SIZE}g[.-]{_SIZE}gb(?:[.+].*)?")
_SIZED = ("nvidia.com/mig-", "hygon.com/hcu-mig-", "hygon.com/hcu-share-")
_MIG_PARTS = {"nvidia.com/mig-": 7, "hygon.com/hcu-mig-": 4}
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")
# Resources of cards have these beginnings.
_CARDS = ("nvidia.com/", "hygon.com/", "aliyun.com/gpu", "volcano.sh/vgpu", "amd.com/")


_NAMES = frozenset(_UNSIZED).union(*(product.names for product in _PRODUCTS))
# A ResourceQuota puts one of these before the name of a resource.
_QUOTA = re.compile(r"(?:requests|limits)\.")


def is_of_another_product(name: str, prefix: str) -> bool:
    """True for a resource of another product, also in a quota. The resources of `prefix` are ours."""
    if "/" not in name:
        return False
    resource = _QUOTA.sub("", name, count=1)
    return resource not in resource_names(prefix) and (resource in _NAMES or resource.startswith(_SIZED))


@dataclass(slots=True)
class Requests:
    """The requests (`asks`) to other products among the `amounts` of a container, and the `names` of their resources.

    `asked_by` has for each of `asks` the name of one of its resources. `ours` are the container's resources of the card
    family `prefix`, to which requests are converted. Remarks and errors do not name the container: the caller adds it.
    """

    amounts: Mapping[str, Any]
    prefix: str
    asks: list[Ask] = field(default_factory=list)
    asked_by: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    ours: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def read(self) -> None:
        """Find the requests to other products and to ours, and add remarks on resources that stay.

        Raises RequestError for a request without a counterpart, and for a container that asks another product and ours.
        """
        for resource, why in _UNSIZED.items():
            if resource in self.amounts:
                raise RequestError(f"{resource}: {why}: write {self.prefix}{PERCENT} or {self.prefix}{MEM}")
        for resource in self.amounts:
            if resource.startswith(_SIZED):
                self._sized(resource)
        for product in _PRODUCTS:
            given = [name for name in product.names if name in self.amounts]
            # A plugin of a maker and ours have one name for whole cards.
            if given and given != [self.prefix]:
                self._read(product, given)
        self.ours = [
            name for name in resource_names(self.prefix) if name in self.amounts and name not in self.names
        ]
        if self.asks and self.ours:
            raise RequestError(f"asks for {self.asked_by[0]} and for {self.ours[0]}: keep one of them")
        for name in self.amounts:
            if name not in self.names and name not in self.ours:
                self._left(name)

    def whole_cards_of_a_maker(self) -> bool:
        """True if the only resource of ours is `prefix`, for whole cards, and a maker's plugin uses this name too."""
        return self.ours == [self.prefix] and any(product.count == self.prefix for product in _PRODUCTS)

    def _left(self, name: str) -> None:
        """Add a remark that the resource `name` stays, if it asks for cards."""
        if name in all_resource_names(DEFAULT_PREFIXES):
            self.remarks.append(f"{name} is for other cards of vgpu than {self.prefix}; it stays")
        elif name.startswith(_CARDS):
            self.remarks.append(f"{name} is not known here; it stays")

    def _sized(self, resource: str) -> None:
        """Add the request of a resource whose name has the size of the parts of a card, such as a MIG profile."""
        self.names.append(resource)
        count = _whole(resource, self.amounts[resource])
        share, mig = _SHARE.fullmatch(resource), _MIG.fullmatch(resource)
        if not share and not mig:
            raise RequestError(
                f"{resource}: not a profile such as {_SIZED[0]}1g.5gb, {_SIZED[1]}2g-15gb or {_SIZED[2]}4c-16g"
            )
        if not count:
            self.remarks.append(f"{resource}: 0 asks for no card; it is removed")
        elif share:
            self._ask(resource, Ask(count, int(share[2]) * 1024, cores=int(share[1])))
        elif mig:
            parts, of = int(mig[2]), _MIG_PARTS[mig[1]]
            if parts > of:
                raise RequestError(f"{resource}: a card has {of} parts of compute units")
            self.remarks.append(f"{resource} was {parts} of {of} parts of the compute units")
            self._ask(resource, Ask(count, int(mig[3]) * 1024, cores_percent=parts * WHOLE_CARD // of))

    def _ask(self, resource: str, ask: Ask) -> None:
        self.asked_by.append(resource)
        self.asks.append(ask)

    def _read(self, product: _Product, names: list[str]) -> None:
        """Add the request that a product's resources make, or remark that the amount is 0. Raises RequestError."""
        self.names += names
        given = {name: _whole(name, self.amounts[name]) for name in names}
        if not any(given.values()):
            resource = names[0]
            self.remarks.append(f"{resource}: 0 asks for no card; it is removed")
            return
        if given.get(product.count) == 0:
            raise RequestError(f"{product.count}: 0 beside other amounts: write at least 1, or none of them")
        for name in (product.mem_percent, product.cores):
            if given.get(name, 0) > WHOLE_CARD:
                raise RequestError(f"{name}: {given[name]} percent are more than a card")
        mem = given.get(product.mem, 0) * product.mem_mib
        if mem > MOST_MIB:
            raise RequestError(
                f"{product.mem}: {self.amounts[product.mem]} counts units of {product.mem_mib} MiB here, and no card"
                " has as many: write the number of units"
            )
        # These products have 0 for an amount that is not limited.
        ask = Ask(
            given.get(product.count, 1), mem or None, given.get(product.mem_percent) or None,
            given.get(product.cores) or None,
        )  # fmt: skip
        self._ask(names[0], self._all_units(product, ask) if product.cuts_one else ask)

    def _all_units(self, product: _Product, ask: Ask) -> Ask:
        """The request as a product with `cuts_one` serves it: whole cards, unless the product cuts one card for it.

        Adds a remark if a request for parts becomes a request for whole cards.
        """
        if ask.whole or (ask.count == 1 and ask.cores_percent not in (None, WHOLE_CARD)):
            return ask
        whole = f"{ask.count} cards" if ask.count > 1 else "all compute units"
        if ask.count == 1 and ask.cores_percent is None:
            whole += f", since it asks for no {product.cores}"
        self.remarks.append(
            f"had {whole} for itself and gets whole cards; to share them, write {self.prefix}{MEM}"
        )
        return Ask(ask.count)


def _whole(name: str, value: object) -> int:
    """The amount of a resource. Raises RequestError if it is not a whole number of at least 0."""
    text = "" if value is None else str(value).strip()
    text = text.lower() if isinstance(value, bool) else text
    if _LEADING_ZERO.match(text):  # YAML 1.1 and 1.2 have different numbers for 010
        raise RequestError(f"{name}: {text}: write the number without a leading zero")
    amount = parse_quantity(text)
    if amount is None or amount.denominator > 1 or amount < 0:
        found = f"is {text}" if text else "has no amount"
        raise RequestError(f"{name} {found}: write a whole number of at least 0 in decimal digits")
    return int(amount)


def whole_number(name: str, value: object) -> int:
    """The amount of a resource or annotation, at least 1. Raises RequestError if it is another value."""
    amount = _whole(name, value)
    if not amount:
        raise RequestError(f"{name} is 0: write at least 1")
    return amount
