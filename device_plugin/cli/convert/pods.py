"""Rewrites pods that ask other products for a share of a card: HAMi, gpushare, KAI, Volcano, NVIDIA's device plugin.

The names of their resources and annotations are those of each product's documentation: HAMi's for NVIDIA and Hygon,
Alibaba Cloud's gpushare, KAI's fractions, Volcano's vGPU, NVIDIA's k8s-device-plugin.
"""

import re
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from device_plugin.core.contract import annotations as ours
from device_plugin.core.errors import RequestError
from device_plugin.core.requests import CORES, MAX_CONTAINER_CARDS, MEM, PERCENT, parse_quantity

Object = MutableMapping[str, Any]
SCHEDULER = "vgpu-scheduler"
WHOLE_CARD = 100  # percent


@dataclass(frozen=True, slots=True)
class Target:
    """The resources that requests are converted to: those of `prefix`, with memory units of `unit_mib` MiB.

    `core_groups` is how many a card has, 0 if unknown: other products ask for compute in percent.
    """

    prefix: str
    unit_mib: int = 1024
    core_groups: int = 0


@dataclass(frozen=True, slots=True)
class _Product:
    """The resources of one product, empty where it has none: cards, memory of each, percent of memory, of compute."""

    count: str = ""
    mem: str = ""
    mem_percent: str = ""
    cores: str = ""
    mem_mib: int = 1  # MiB of one unit of `mem`

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its resources."""
        return tuple(name for name in (self.count, self.mem, self.mem_percent, self.cores) if name)


_PRODUCTS = (
    _Product("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
    _Product("hygon.com/dcunum", "hygon.com/dcumem", cores="hygon.com/dcucores"),
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
_MIG = "nvidia.com/mig-"
_FEW_DIGITS = re.compile("[0-9]{1,4}")
# KAI's annotations of a pod.
_FRACTION, _MEMORY, _DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
_FRACTIONS = (_FRACTION, _MEMORY, _DEVICES)
# Models of Hygon's cards that HAMi's users want or avoid. Lists of NVIDIA's models mean nothing on other cards.
_MODELS = {"hygon.com/use-dcutype": "", "hygon.com/nouse-dcutype": "!"}
_POLICIES = ("hami.io/gpu-scheduler-policy", "hami.io/node-scheduler-policy")
_POLICY_NAMES = {"binpack": "pack", "spread": "spread"}
_FOREIGN = (
    "nvidia.com/", "hygon.com/use-", "hygon.com/nouse-", "hami.io/", "aliyun.com/", "volcano.sh/vgpu-",
    "kai.scheduler/", "run.ai/",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Ask:
    """One container's request: `count` cards, and an amount of each. Without any amount they are whole cards."""

    count: int = 1
    mem_mib: int | None = None
    mem_percent: int | None = None
    cores_percent: int | None = None

    @property
    def whole(self) -> bool:
        """True if it asks for whole cards."""
        return self.mem_mib is None and self.mem_percent is None and self.cores_percent is None


@dataclass(slots=True)
class Conversion:
    """The conversion of one pod or pod template: `remarks` say what differs, `problems` what cannot be converted."""

    target: Target
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    converted: int = 0

    def run(self, template: Object) -> None:
        """Rewrite the template in place. Containers that ask for no card of another product stay as they are."""
        spec = template["spec"]
        slices: set[int] = set()
        for kind in ("initContainers", "containers"):
            for container in _objects(spec.get(kind)):
                slices.add(self._container(container))
                if kind == "initContainers" and self.converted and container.get("restartPolicy") != "Always":
                    self._refused_init(container)
        slices |= self._fraction(template, spec)
        if not self.converted:
            return
        self._slices(template, slices)
        self._annotations(template)
        self._spec(spec)

    def _container(self, container: Object) -> int:
        """Convert one container; returns the cards of which it takes a part, 0 if none."""
        name = container.get("name", "?")
        try:
            ask = self._asked(name, container)
        except RequestError as error:
            self.problems.append(f"container {name}: {error}")
            return 0
        return self._write(container, ask) if ask is not None else 0

    def _refused_init(self, container: Object) -> None:
        """Note the problem of an init container that asks for a card: admission refuses it."""
        limits = (container.get("resources") or {}).get("limits") or {}
        if any(str(name).startswith(self.target.prefix) for name in limits):
            self.problems.append(
                f"init container {container.get('name', '?')}: cannot hold a slice: ask in a main container,"
                " or make it a sidecar (restartPolicy: Always)"
            )

    def _asked(self, name: str, container: Object) -> _Ask | None:
        """Take what the container asks of another product out of it. Raises RequestError."""
        resources = container.get("resources") or {}
        amounts: dict[str, Any] = {}
        for part in ("requests", "limits"):
            amounts |= resources.get(part) or {}
        for resource, why in _UNSIZED.items():
            if resource in amounts:
                raise RequestError(f"{resource}: {why}: write {self.target.prefix}{PERCENT} or {MEM}")
        found = [self._mig(name, resource, amounts) for resource in amounts if resource.startswith(_MIG)]
        names = [resource for resource in amounts if resource.startswith(_MIG)]
        for product in _PRODUCTS:
            if any(resource in amounts for resource in product.names):
                found.append(_read(product, amounts))
                names += product.names
        if len(found) > 1:
            raise RequestError("asks several products for cards: split it into containers")
        for part in ("requests", "limits"):
            _without(resources, part, names)
        return found[0] if found else None

    def _mig(self, name: str, resource: str, amounts: Mapping[str, Any]) -> _Ask:
        """The request for `nvidia.com/mig-1g.5gb`: 1 of 7 parts of the compute units, 5 GB. Raises RequestError."""
        profile = resource.removeprefix(_MIG).partition(".")
        parts, memory = profile[0].removesuffix("g"), profile[2].partition("gb")[0]
        if not (_FEW_DIGITS.fullmatch(parts) and _FEW_DIGITS.fullmatch(memory)):
            raise RequestError(f"{resource}: not a profile such as {_MIG}1g.5gb")
        self.remarks.append(f"container {name}: {resource} was {parts} of 7 parts of the compute units")
        return _Ask(
            _whole(resource, amounts[resource]),
            int(memory) * 1024,
            cores_percent=int(parts) * WHOLE_CARD // 7,
        )

    def _fraction(self, template: Object, spec: Object) -> set[int]:
        """Convert KAI's annotations, which are about a pod with one container that has the share."""
        annotations = (template.get("metadata") or {}).get("annotations") or {}
        if not any(key in annotations for key in (_FRACTION, _MEMORY)):
            return set()
        container = next(iter(_objects(spec.get("containers"))), None)
        if container is None:
            return set()
        try:
            count = _whole(_DEVICES, annotations.get(_DEVICES, 1))
            ask = (
                _Ask(count, mem_percent=self._percent_of(annotations[_FRACTION]))
                if _FRACTION in annotations
                else _Ask(count, mem_mib=_whole(_MEMORY, annotations[_MEMORY]))
            )
        except RequestError as error:
            self.problems.append(str(error))
            return set()
        for key in _FRACTIONS:
            annotations.pop(key, None)
        return {self._write(container, ask)}

    def _percent_of(self, text: object) -> int:
        """A fraction of a card in percent, rounded down: a card fits no fewer than before. Raises RequestError."""
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

    def _write(self, container: Object, ask: _Ask) -> int:
        """Write the request in our names; returns the cards of which the container takes a part, 0 for whole ones."""
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
        if ask.cores_percent is None or ask.cores_percent == 0:
            self.remarks.append(f"container {name}: gets core groups in proportion to its memory, of its own")
        elif self.target.core_groups:
            limits[prefix + CORES] = -(-ask.cores_percent * self.target.core_groups // WHOLE_CARD) * ask.count
        else:
            self.remarks.append(
                f"container {name}: asked for {ask.cores_percent} % of the compute units, gets core groups in"
                f" proportion to its memory: write {prefix}{CORES}, or convert with --core-groups and a card's number"
            )
        return ask.count

    def _write_percent(self, name: str, limits: Object, ask: _Ask) -> None:
        """Write a share in percent, which is of memory and core groups alike: the greater of both."""
        shares = [share for share in (ask.mem_percent, ask.cores_percent) if share]
        percent = min(max(shares, default=WHOLE_CARD), WHOLE_CARD)
        limits[self.target.prefix + PERCENT] = percent * ask.count
        if len(set(shares)) > 1:
            self.remarks.append(
                f"container {name}: gets {percent} % of memory and of core groups, the greater of what it asked"
            )

    def _slices(self, template: Object, counts: set[int]) -> None:
        """Say on the pod of how many cards its container has a part, where that is more than one."""
        most = max(counts, default=1)
        if most > 1 and self.converted > 1:
            self.problems.append(
                f"a part of {most} cards in one container, and another container asks: make them two pods"
            )
        elif most > 1:
            _annotations(template)[ours.SLICES] = str(most)

    def _annotations(self, template: Object) -> None:
        """Convert the annotations that choose cards; say which ones have no counterpart."""
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

    def _spec(self, spec: Object) -> None:
        """Convert what in the pod's spec belongs to the other product."""
        if spec.get("schedulerName") not in (None, "default-scheduler", SCHEDULER):
            self.remarks.append(f"schedulerName {spec['schedulerName']} is now {SCHEDULER}")
            spec["schedulerName"] = SCHEDULER
        if spec.get("runtimeClassName") == "nvidia":
            self.remarks.append("runtimeClassName nvidia is removed: it gives every card to a container")
            del spec["runtimeClassName"]
        for key in spec.get("nodeSelector") or {}:
            if str(key).startswith(_FOREIGN) or key in ("gpu", "dcu", "gpushare"):
                self.remarks.append(f"nodeSelector {key} stays: remove it if no node has that label")


def templates(document: object) -> Iterator[Object]:
    """Every pod and pod template of a document: an object with a spec that has containers, at any depth."""
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


def _read(product: _Product, amounts: Mapping[str, Any]) -> _Ask:
    """The request in a product's resources. Raises RequestError."""
    given = {name: _whole(name, amounts[name]) for name in product.names if name in amounts}
    mem = given.get(product.mem)
    return _Ask(
        given.get(product.count, 1), mem * product.mem_mib if mem else None,
        given.get(product.mem_percent), given.get(product.cores),
    )  # fmt: skip


def _whole(name: str, value: object) -> int:
    """A resource's amount. Raises RequestError if it is no whole number."""
    amount = parse_quantity(str(value))
    if amount is None or amount.denominator > 1 or amount < 0:
        raise RequestError(f"{name}: {value} is no whole number")
    return int(amount)


def _without(resources: Object, part: str, names: list[str]) -> None:
    """Remove resources, and what then is empty."""
    amounts = resources.get(part) or {}
    for name in names:
        amounts.pop(name, None)
    if part == "requests" and part in resources and not amounts:
        del resources[part]


def _annotations(template: Object) -> Object:
    """The annotations of a pod or template, which it has after this call."""
    metadata: Object = template.setdefault("metadata", {})
    found: Object = metadata.setdefault("annotations", {})
    return found


def _objects(listed: object) -> Iterator[Object]:
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, MutableMapping):
            yield entry
