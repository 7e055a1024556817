"""Rewrites pods that ask other products for a share of a card (`products.py`): resources, annotations, selectors.

The names of annotations and labels are from the documentation of HAMi and KAI.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from device_plugin.cli.convert.products import WHOLE_CARD, Ask, Requests, whole_number
from device_plugin.core.contract import annotations as ours
from device_plugin.core.errors import RequestError
from device_plugin.core.requests import CORES, MAX_CONTAINER_CARDS, MEM, PERCENT

Object = MutableMapping[str, Any]
SCHEDULER = "vgpu-scheduler"


@dataclass(frozen=True, slots=True)
class Target:
    """The resources to which requests are converted: the resources of `prefix`, with memory units of `unit_mib` MiB.

    `core_groups` is the number of core groups of a card, by which percents of compute are converted; 0 if unknown.
    """

    prefix: str
    unit_mib: int = 1024
    core_groups: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """The request of a ResourceClaim or a template, None if it is for another driver, and its fields that are lost."""

    ask: Ask | None
    lost: tuple[str, ...] = ()


# KAI's annotations of a pod.
_FRACTION, _MEMORY, _DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
_OF_CONTAINER = "gpu-fraction-container-name"
_FRACTIONS = (_FRACTION, _MEMORY, _DEVICES, _OF_CONTAINER)
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


@dataclass(slots=True)
class Conversion:
    """Converts one pod or pod template. `remarks` list differences, `problems` list what cannot be converted.

    `claims` are the ResourceClaims and their templates in the pod's namespace, by kind and name.
    """

    target: Target
    claims: Mapping[tuple[str, str], Claim] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    converted: int = 0
    # The number of containers that ask for a card, converted or not.
    asking: int = 0
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
        self._elsewhere(spec)
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
                claim = self.claims.get(key)
                if claim is None:
                    self.remarks.append(
                        f"its {' '.join(key)} is in none of the files, in the same namespace: convert both together if"
                        " it is for dra.hygon.com"
                    )
                elif claim.ask is not None:
                    found[str(entry.get("name"))] = claim.ask
                    for part in claim.lost:
                        self.remarks.append(f"its {' '.join(key)} has {part}, which has no effect here")
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

    def _elsewhere(self, spec: Object) -> None:
        """Add a problem for a request where Kubernetes gives no card: of a whole pod, or of an ephemeral container."""
        places = {"the resources of the pod": spec.get("resources")}
        for container in _objects(spec.get("ephemeralContainers")):
            places[f"ephemeral container {container.get('name', '?')}"] = container.get("resources")
        for place, resources in places.items():
            asked = Requests(_amounts(resources or {}), self.target.prefix)
            try:
                asked.read()
            except RequestError as error:
                self.problems.append(f"{place}: {error}")
            if asked.asks or asked.ours:
                self.problems.append(f"{place}: no card is given there: ask in the limits of a container")

    def _asked(self, name: str, container: Object, claimed: Mapping[str, Ask]) -> Ask | None:
        """Remove the request to another product from the container, and return it. Raises RequestError."""
        resources = container.get("resources") or {}
        requests = Requests(_amounts(resources), self.target.prefix)
        requests.read()
        claims = [use for use in _objects(resources.get("claims")) if str(use.get("name")) in claimed]
        for use in claims:
            other = self.users.setdefault(str(use.get("name")), name)
            if other != name:
                raise RequestError(
                    f"uses claim {use.get('name')}, as container {other} does, and a slice belongs to one container:"
                    " give each container a claim of its own"
                )
        found = [*requests.asks, *(claimed[str(use.get("name"))] for use in claims)]
        if len(found) > 1 or (found and requests.ours):
            raise RequestError("asks several products for cards: split it into containers")
        self.remarks += (f"container {name}: {remark}" for remark in requests.remarks)
        self.asking += bool(found or requests.ours)
        self.converted += requests.whole_cards_of_a_maker()
        for part in ("requests", "limits"):
            _without(resources, part, requests.names)
        _without_claims(resources, claims)
        return found[0] if found else None

    def _fraction(self, template: Object, spec: Object) -> set[int]:
        """Convert KAI's annotations, which give the share to a container by its name, or to the pod's first one.

        Returns the number of cards of which the container takes a part.
        """
        annotations = (template.get("metadata") or {}).get("annotations") or {}
        if not any(key in annotations for key in (_FRACTION, _MEMORY)):
            return set()
        name = annotations.get(_OF_CONTAINER)
        container = next(
            (each for each in _objects(spec.get("containers")) if name in (None, each.get("name"))), None
        )
        if container is None or self.asking:
            self.problems.append(
                f"annotation {_FRACTION} or {_MEMORY}: "
                + (
                    "a container asks for a card too: keep one of them"
                    if self.asking
                    else f"no container {name}"
                )
            )
            return set()
        try:
            count = whole_number(_DEVICES, annotations.get(_DEVICES, 1))
            ask = (
                Ask(count, mem_percent=self._percent_of(annotations[_FRACTION]))
                if _FRACTION in annotations
                else Ask(count, mem_mib=whole_number(_MEMORY, annotations[_MEMORY]))
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
        limits = _written(_written(container, "resources"), "limits")
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
        if most > 1 and self.asking > 1:
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
        affinity = (spec.get("affinity") or {}).get("nodeAffinity")
        for where, keys in (
            ("nodeSelector", spec.get("nodeSelector") or {}),
            ("nodeAffinity", _keys(affinity)),
        ):
            for key in keys:
                if str(key).startswith(_FOREIGN) or key in _FOREIGN_LABELS:
                    self.remarks.append(f"{where} {key} stays: remove it if no node has that label")


def templates(document: object, owner: Object | None = None) -> Iterator[tuple[Object, Object]]:
    """The pods and pod templates of a document, at any depth: objects whose spec has containers.

    With each comes the object of Kubernetes that holds it, such as a Deployment or the pod itself.
    """
    if isinstance(document, MutableMapping):
        if "kind" in document and "items" not in document:
            owner = document
        spec = document.get("spec")
        if isinstance(spec, MutableMapping) and isinstance(spec.get("containers"), list):
            yield document if owner is None else owner, document
            return
        for value in document.values():
            yield from templates(value, owner)
    elif isinstance(document, list):
        for value in document:
            yield from templates(value, owner)


def _amounts(resources: Object) -> dict[str, Any]:
    """The requests of a container, overwritten by its limits."""
    amounts: dict[str, Any] = {}
    for part in ("requests", "limits"):
        amounts |= resources.get(part) or {}
    return amounts


def _keys(selectors: object) -> Iterator[object]:
    """The labels that a nodeAffinity names, at any depth."""
    if isinstance(selectors, MutableMapping):
        if "key" in selectors:
            yield selectors["key"]
        for value in selectors.values():
            yield from _keys(value)
    elif isinstance(selectors, list):
        for value in selectors:
            yield from _keys(value)


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
    """The annotations of a pod or template, which are added if it has none."""
    return _written(_written(template, "metadata"), "annotations")


def _written(parent: Object, name: str) -> Object:
    """The mapping of this name in `parent`, which is added if it is missing or null."""
    if parent.get(name) is None:
        parent[name] = {}
    found: Object = parent[name]
    return found


def _objects(listed: object) -> Iterator[Object]:
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, MutableMapping):
            yield entry
