"""Rewrites pods that ask other products for a share of a card: HAMi, gpushare, KAI, Volcano, the plugins of the makers.

The names of resources and annotations are from each product's documentation: HAMi's for NVIDIA and Hygon,
Alibaba Cloud's gpushare, KAI's fractions, Volcano's vGPU, NVIDIA's k8s-device-plugin, Hygon's k8s-hcu-device-plugin and
k8s-hcu-dra-driver.
"""

import re
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from device_plugin.core.contract import annotations as ours
from device_plugin.core.contract.quantities import parse_quantity
from device_plugin.core.errors import RequestError
from device_plugin.core.requests import CORES, MAX_CONTAINER_CARDS, MEM, PERCENT

Object = MutableMapping[str, Any]
SCHEDULER = "vgpu-scheduler"
WHOLE_CARD = 100  # percent


@dataclass(frozen=True, slots=True)
class Target:
    """The resources to which requests are converted: the resources of `prefix`, with memory units of `unit_mib` MiB.

    `core_groups` is the number of core groups of a card, by which percents of compute are converted; 0 if unknown.
    """

    prefix: str
    unit_mib: int = 1024
    core_groups: int = 0


@dataclass(frozen=True, slots=True)
class _Product:
    """The names of one product's resources; empty for a resource that it does not have.

    `count` counts cards. `mem` and `mem_percent` are memory, and `cores` is percent of compute, on each card. With
    `cuts_one` it cuts a card only for a container that asks for one card and a share of its compute. All others have
    whole cards, whatever memory they ask for.
    """

    count: str = ""
    mem: str = ""
    mem_percent: str = ""
    cores: str = ""
    mem_mib: int = 1  # MiB of one unit of `mem`
    cuts_one: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names that are not empty."""
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
_SHARE = re.compile(r"hygon\.com/hcu-share-([0-9]{1,4})c-([0-9]{1,4})g")
_MIG = re.compile(r"(nvidia\.com/mig-|hygon\.com/hcu-mig-)([0-9]{1,4})g[.-]([0-9]{1,4})gb(?:[.+].*)?")
_SIZED = ("nvidia.com/mig-", "hygon.com/hcu-mig-", "hygon.com/hcu-share-")
_MIG_PARTS = {"nvidia.com/mig-": 7, "hygon.com/hcu-mig-": 4}
# KAI's annotations of a pod.
_FRACTION, _MEMORY, _DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
_FRACTIONS = (_FRACTION, _MEMORY, _DEVICES)
# Models of Hygon's cards that HAMi's users want or avoid. Lists of NVIDIA's models mean nothing on other cards.
_MODELS = {
    "hygon.com/use-dcutype": "", "hygon.com/nouse-dcutype": "!",
    "hygon.com/use-hcutype": "", "hygon.com/nouse-hcutype": "!",
}  # fmt: skip
# Fields of a pod's claim that name the object with the request.
_CLAIM_KINDS = {
    "resourceClaimName": "ResourceClaim",
    "resourceClaimTemplateName": "ResourceClaimTemplate",
}
_POLICIES = ("hami.io/gpu-scheduler-policy", "hami.io/node-scheduler-policy")
_POLICY_NAMES = {"binpack": "pack", "spread": "spread"}
_FOREIGN = (
    "nvidia.com/", "hygon.com/use-", "hygon.com/nouse-", "hygon.com/hcu", "hami.io/", "aliyun.com/", "volcano.sh/vgpu-",
    "kai.scheduler/", "run.ai/",
)  # fmt: skip
_FOREIGN_LABELS = ("gpu", "dcu", "hcu", "hcu-mode", "gpushare")


@dataclass(frozen=True, slots=True)
class Ask:
    """One container's request: `count` cards, and the amount on each. Without an amount it is for whole cards.

    The compute of each is `cores` core groups, or a percentage of all.
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


@dataclass(slots=True)
class Conversion:
    """Converts one pod or pod template. `remarks` list differences, `problems` list what cannot be converted.

    `claims` are the requests of ResourceClaims and their templates, by kind and name; None for those of another driver.
    """

    target: Target
    claims: Mapping[tuple[str, str], Ask | None] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    converted: int = 0
    # By the pod's own name of a claim, the container that uses it.
    users: dict[str, str] = field(default_factory=dict)

    def run(self, template: Object) -> None:
        """Rewrite the template in place. Containers that ask no other product for a card stay as they are."""
        spec = template["spec"]
        slices: set[int] = set()
        claimed = self._claimed(spec)
        for kind in ("initContainers", "containers"):
            for container in _objects(spec.get(kind)):
                slices.add(self._container(container, claimed))
                if kind == "initContainers" and self.converted and container.get("restartPolicy") != "Always":
                    self._refused_init(container)
        slices |= self._fraction(template, spec)
        if not self.converted:
            return
        self._slices(template, slices)
        self._annotations(template)
        self._spec(spec, claimed)

    def _claimed(self, spec: Object) -> dict[str, Ask]:
        """The requests of the pod's claims, by the pod's own names for the claims."""
        found = {}
        for entry in _objects(spec.get("resourceClaims")):
            for key in ((kind, str(entry[name])) for name, kind in _CLAIM_KINDS.items() if name in entry):
                if key not in self.claims:
                    self.remarks.append(
                        f"its {' '.join(key)} is in none of the files: convert both together if it is for dra.hygon.com"
                    )
                elif (ask := self.claims[key]) is not None:
                    found[str(entry.get("name"))] = ask
                    if key[0] == "ResourceClaim":
                        self.remarks.append(
                            f"all pods that name ResourceClaim {key[1]} share its cards: here each pod has a slice of"
                            " its own"
                        )
        return found

    def _container(self, container: Object, claimed: Mapping[str, Ask]) -> int:
        """Convert one container; returns the number of cards of which it takes a part, 0 if it takes none."""
        name = container.get("name", "?")
        try:
            ask = self._asked(name, container, claimed)
        except RequestError as error:
            self.problems.append(f"container {name}: {error}")
            return 0
        return self._write(container, ask) if ask is not None else 0

    def _refused_init(self, container: Object) -> None:
        """Add a problem if this init container asks for a card: admission refuses it."""
        limits = (container.get("resources") or {}).get("limits") or {}
        if any(str(name).startswith(self.target.prefix) for name in limits):
            self.problems.append(
                f"init container {container.get('name', '?')}: cannot hold a slice: ask in a main container,"
                " or make it a sidecar (restartPolicy: Always)"
            )

    def _asked(self, name: str, container: Object, claimed: Mapping[str, Ask]) -> Ask | None:
        """Remove the request to another product from the container, and return it. Raises RequestError."""
        resources = container.get("resources") or {}
        amounts: dict[str, Any] = {}
        for part in ("requests", "limits"):
            amounts |= resources.get(part) or {}
        for resource, why in _UNSIZED.items():
            if resource in amounts:
                raise RequestError(f"{resource}: {why}: write {self.target.prefix}{PERCENT} or {MEM}")
        names = [resource for resource in amounts if resource.startswith(_SIZED)]
        found = [self._sized(name, resource, amounts[resource]) for resource in names]
        for product in _PRODUCTS:
            if product.count != self.target.prefix and any(resource in amounts for resource in product.names):
                found.append(self._read(name, product, amounts))
                names += product.names
        claims = [use for use in _objects(resources.get("claims")) if str(use.get("name")) in claimed]
        for use in claims:
            other = self.users.setdefault(str(use.get("name")), name)
            if other != name:
                raise RequestError(
                    f"uses claim {use.get('name')}, as container {other} does, and a slice belongs to one container:"
                    " give each container a claim of its own"
                )
        found += [claimed[str(use.get("name"))] for use in claims]
        if len(found) > 1:
            raise RequestError("asks several products for cards: split it into containers")
        for part in ("requests", "limits"):
            _without(resources, part, names)
        _without_claims(resources, claims)
        return found[0] if found else None

    def _sized(self, name: str, resource: str, amount: object) -> Ask:
        """The request for parts whose size is in the name of the resource. Raises RequestError."""
        count = _whole(resource, amount)
        if share := _SHARE.fullmatch(resource):
            return Ask(count, int(share[2]) * 1024, cores=int(share[1]))
        if mig := _MIG.fullmatch(resource):
            of = _MIG_PARTS[mig[1]]
            self.remarks.append(
                f"container {name}: {resource} was {mig[2]} of {of} parts of the compute units"
            )
            return Ask(count, int(mig[3]) * 1024, cores_percent=int(mig[2]) * WHOLE_CARD // of)
        raise RequestError(
            f"{resource}: not a profile such as {_SIZED[0]}1g.5gb, {_SIZED[1]}2g-15gb or {_SIZED[2]}4c-16g"
        )

    def _read(self, name: str, product: _Product, amounts: Mapping[str, Any]) -> Ask:
        """The request in a product's resources. Raises RequestError."""
        given = {
            resource: _whole(resource, amounts[resource]) for resource in product.names if resource in amounts
        }
        mem = given.get(product.mem)
        ask = Ask(
            given.get(product.count, 1), mem * product.mem_mib if mem else None,
            given.get(product.mem_percent), given.get(product.cores),
        )  # fmt: skip
        if (
            not product.cuts_one
            or ask.whole
            or (ask.count == 1 and ask.cores_percent not in (None, WHOLE_CARD))
        ):
            return ask
        whole = (
            f"{ask.count} cards"
            if ask.count > 1
            else f"all compute units, since it asks for no {product.cores}"
        )
        self.remarks.append(
            f"container {name}: had {whole} for itself and gets whole cards;"
            f" to share them, write {self.target.prefix}{MEM}"
        )
        return Ask(ask.count)

    def _fraction(self, template: Object, spec: Object) -> set[int]:
        """Convert KAI's annotations, which give the share to the pod's first container.

        Returns the number of cards of which the container takes a part.
        """
        annotations = (template.get("metadata") or {}).get("annotations") or {}
        if not any(key in annotations for key in (_FRACTION, _MEMORY)):
            return set()
        container = next(iter(_objects(spec.get("containers"))), None)
        if container is None:
            return set()
        try:
            count = _whole(_DEVICES, annotations.get(_DEVICES, 1))
            ask = (
                Ask(count, mem_percent=self._percent_of(annotations[_FRACTION]))
                if _FRACTION in annotations
                else Ask(count, mem_mib=_whole(_MEMORY, annotations[_MEMORY]))
            )
        except RequestError as error:
            self.problems.append(str(error))
            return set()
        for key in _FRACTIONS:
            annotations.pop(key, None)
        return {self._write(container, ask)}

    def _percent_of(self, text: object) -> int:
        """Returns a fraction in percent, rounded down, so that a card holds as many as before. Raises RequestError."""
        try:
            # A Decimal keeps its exponent as it is written: a Fraction of 1e999999999 takes all memory.
            percent = Decimal(str(text)) * WHOLE_CARD
        except (ArithmeticError, ValueError):
            percent = Decimal(0)
        if not percent.is_finite() or not 1 <= percent <= WHOLE_CARD:
            raise RequestError(f"annotation {_FRACTION}: {text}: write a fraction from 0.01 to 1")
        if percent != int(percent):
            self.remarks.append(f"{_FRACTION} {text} is rounded down to {int(percent)} percent")
        return int(percent)

    def _write(self, container: Object, ask: Ask) -> int:
        """Write the request with our resources; returns the number of cards that it takes in part (whole cards: 0)."""
        self.converted += 1
        name, prefix = container.get("name", "?"), self.target.prefix
        if not isinstance(container.get("resources"), MutableMapping):
            container["resources"] = {}
        limits = container["resources"].setdefault("limits", {})
        if ask.whole:
            limits[prefix] = ask.count
            return 0
        if ask.count > MAX_CONTAINER_CARDS:
            self.problems.append(
                f"container {name}: asks for parts of {ask.count} cards; at most {MAX_CONTAINER_CARDS} are possible"
            )
        if ask.mem_mib is None:
            self._write_percent(name, limits, ask)
            return ask.count
        units = -(-ask.mem_mib // self.target.unit_mib)
        limits[prefix + MEM] = units * ask.count
        if ask.mem_mib % self.target.unit_mib:
            self.remarks.append(
                f"container {name}: {ask.mem_mib} MiB are rounded up to {units} units of {self.target.unit_mib} MiB"
            )
        if ask.cores is not None:
            limits[prefix + CORES] = ask.cores * ask.count
        elif ask.cores_percent is None or ask.cores_percent == 0:
            self.remarks.append(f"container {name}: gets core groups in proportion to its memory, of its own")
        elif self.target.core_groups:
            limits[prefix + CORES] = -(-ask.cores_percent * self.target.core_groups // WHOLE_CARD) * ask.count
        else:
            self.remarks.append(
                f"container {name}: asked for {ask.cores_percent} % of the compute units, gets core groups in"
                f" proportion to its memory: write {prefix}{CORES}, or convert with --core-groups and a card's number"
            )
        return ask.count

    def _write_percent(self, name: str, limits: Object, ask: Ask) -> None:
        """Write one percent for memory and core groups: the greater of the two that were asked for."""
        shares = [share for share in (ask.mem_percent, ask.cores_percent) if share]
        percent = min(max(shares, default=WHOLE_CARD), WHOLE_CARD)
        limits[self.target.prefix + PERCENT] = percent * ask.count
        if ask.cores is not None:
            self.remarks.append(
                f"container {name}: asked for {ask.cores} compute units and no memory, gets {percent} % of the card:"
                f" to share it, write {self.target.prefix}{MEM} and {self.target.prefix}{CORES}"
            )
        if len(set(shares)) > 1:
            self.remarks.append(
                f"container {name}: gets {percent} % of memory and of core groups, the greater of what it asked"
            )

    def _slices(self, template: Object, counts: set[int]) -> None:
        """Write the number of cards that a container takes in part into an annotation of the pod, if it is over 1."""
        most = max(counts, default=1)
        if most > 1 and self.converted > 1:
            self.problems.append(
                f"a part of {most} cards in one container, and another container asks: make them two pods"
            )
        elif most > 1:
            _annotations(template)[ours.SLICES] = str(most)

    def _annotations(self, template: Object) -> None:
        """Convert the annotations that choose cards; add a remark for each annotation without a counterpart."""
        found = (template.get("metadata") or {}).get("annotations") or {}
        models = [
            mark + word.strip()
            for key, mark in _MODELS.items()
            if key in found
            for word in str(found.pop(key)).split(",")
            if word.strip()
        ]
        policies = [_POLICY_NAMES.get(str(found[key]), "") for key in _POLICIES if key in found]
        if models:
            found[ours.CARD_MODEL] = ",".join(models)
        if any(policies):
            found[ours.POLICY] = next(filter(None, policies))
            if len(set(policies)) > 1:
                self.remarks.append(
                    f"{ours.POLICY} decides on node and card; they differed, now both are {found[ours.POLICY]}"
                )
            for key in _POLICIES:
                found.pop(key, None)
        for where in ("annotations", "labels"):
            for key in list((template.get("metadata") or {}).get(where) or {}):
                if str(key).startswith(_FOREIGN):
                    self.remarks.append(f"{where[:-1]} {key} has no counterpart; it stays, without effect")

    def _spec(self, spec: Object, claimed: Mapping[str, Ask]) -> None:
        """Convert the other product's claims, schedulerName and runtimeClassName; remark on its node selectors."""
        if claimed and not self.problems:
            kept = [entry for entry in spec["resourceClaims"] if str(entry.get("name")) not in claimed]
            spec["resourceClaims"] = kept
            if not kept:
                del spec["resourceClaims"]
            self.remarks.append(
                f"its claims {', '.join(claimed)} are requests now: delete the ResourceClaims"
            )
        if spec.get("schedulerName") not in (None, "default-scheduler", SCHEDULER):
            self.remarks.append(f"schedulerName {spec['schedulerName']} is now {SCHEDULER}")
            spec["schedulerName"] = SCHEDULER
        if spec.get("runtimeClassName") == "nvidia":
            self.remarks.append("runtimeClassName nvidia is removed: it gives every card to a container")
            del spec["runtimeClassName"]
        for key in spec.get("nodeSelector") or {}:
            if str(key).startswith(_FOREIGN) or key in _FOREIGN_LABELS:
                self.remarks.append(f"nodeSelector {key} stays: remove it if no node has that label")


def templates(document: object) -> Iterator[Object]:
    """Yields the pods and pod templates of a document, at any depth: objects whose spec has containers."""
    if isinstance(document, MutableMapping):
        spec = document.get("spec")
        if isinstance(spec, MutableMapping) and isinstance(spec.get("containers"), list):
            yield document
            return
        for value in document.values():
            yield from templates(value)
    elif isinstance(document, list):
        for value in document:
            yield from templates(value)


def _whole(name: str, value: object) -> int:
    """Returns the amount of a resource. Raises RequestError if it is not a whole number."""
    amount = parse_quantity(str(value))
    if amount is None or amount.denominator > 1 or amount < 0:
        raise RequestError(f"{name}: {value} is no whole number")
    return int(amount)


def _without(resources: Object, part: str, names: list[str]) -> None:
    """Remove resources from requests or limits, and the requests themselves if they are empty then."""
    amounts = resources.get(part) or {}
    for name in names:
        amounts.pop(name, None)
    if part == "requests" and part in resources and not amounts:
        del resources[part]


def _without_claims(resources: Object, claims: list[Object]) -> None:
    """Remove a container's uses of claims, and its list of uses if it is empty then."""
    if claims:
        resources["claims"] = [use for use in resources["claims"] if use not in claims]
        if not resources["claims"]:
            del resources["claims"]


def _annotations(template: Object) -> Object:
    """Returns the annotations of a pod or template, which are added if it has none."""
    metadata: Object = template.setdefault("metadata", {})
    found: Object = metadata.setdefault("annotations", {})
    return found


def _objects(listed: object) -> Iterator[Object]:
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, MutableMapping):
            yield entry
