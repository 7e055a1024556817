"""Rewrites a pod that asks other products for a share of a card: its resources, annotations, claims and scheduler."""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from device_plugin.cli.convert.annotations import FOREIGN, Annotations, Object, mapping_at
from device_plugin.cli.convert.claims import Claims
from device_plugin.cli.convert.products import WHOLE_CARD, Ask, Requests
from device_plugin.core.contract import annotations as ours
from device_plugin.core.errors import RequestError
from device_plugin.core.requests import CORES, MAX_CONTAINER_CARDS, MEM, PERCENT, resource_names

SCHEDULER = "vgpu-scheduler"
# The schedulers of other products, by the names that their documentation gives them.
SCHEDULERS = ("hami-scheduler", "hcu-scheduler-plugin", "kai-scheduler", "volcano")
# Fields of a pod's claim that name the object with the request.
_CLAIM_KINDS = {
    "resourceClaimName": "ResourceClaim",
    "resourceClaimTemplateName": "ResourceClaimTemplate",
}
_FOREIGN_LABELS = ("gpu", "dcu", "hcu", "hcu-mode", "gpushare")


@dataclass(frozen=True, slots=True)
class Target:
    """The resources to which requests are converted: the resources of `prefix`, with memory units of `unit_mib` MiB.

    `core_groups` is the number of core groups of a card, by which percents of compute are converted; 0 if unknown.
    """

    prefix: str
    unit_mib: int = 1024
    core_groups: int = 0


@dataclass(slots=True)
class Conversion:
    """Converts one pod or pod template. `remarks` list differences, `problems` list what cannot be converted.

    `claims` are the ResourceClaims and their templates that the pod can name.
    """

    target: Target
    claims: Claims = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    # True if a request was converted, or removed because it asked for no card.
    converted: bool = False
    # The number of containers that ask for a card, converted or not.
    asking: int = 0
    # By the pod's own name of a claim, the container that uses it.
    users: dict[str, str] = field(default_factory=dict)

    def run(self, pod: Object) -> None:
        """Rewrite the pod in place if it asks another product for a card.

        If there are problems, parts of it stay as they were.
        """
        spec = pod["spec"]
        annotations = Annotations(pod, self.remarks)
        claimed = self._claimed(spec)
        counts = {
            self._container(container, claimed)
            for kind in ("initContainers", "containers")
            for container in mappings(spec.get(kind))
        }
        self._elsewhere(spec)
        try:
            counts.add(self._share(annotations, spec))
            if self.converted:
                self._slices(annotations, max(counts, default=1))
                annotations.convert_choices()
        except RequestError as error:
            self.problems.append(f"{error}")
        if self.converted:
            self._refuse_init(spec)
            self._spec(spec, claimed)
        else:
            self._left(spec)

    def _claimed(self, spec: Object) -> dict[str, Ask]:
        """Returns the requests in the pod's ResourceClaims, by the names that the pod gives to its claims.

        Adds a remark for a ResourceClaim that is in none of the files.
        """
        found = {}
        for entry in mappings(spec.get("resourceClaims")):
            for key in _keys_of(entry):
                claim = self.claims.get(key)
                if claim is None:
                    self.remarks.append(
                        f"its {' '.join(key)} is in none of the files, in the same namespace: convert both together if"
                        " it is for dra.hygon.com"
                    )
                elif claim.ask is not None:
                    found[str(entry.get("name"))] = claim.ask
        return found

    def _container(self, container: Object, claimed: Mapping[str, Ask]) -> int:
        """Convert one container; returns the number of cards of which it takes a part, 0 if it takes none."""
        name = container.get("name", "?")
        try:
            ask = self._asked(name, container, claimed)
            return self._write(container, ask) if ask is not None else 0
        except RequestError as error:
            self.problems.append(f"container {name}: {error}")
            return 0

    def _asked(self, name: str, container: Object, claimed: Mapping[str, Ask]) -> Ask | None:
        """Remove the container's request to another product, and return the request; None without one.

        Raises RequestError for a request without a counterpart, and for a container with several requests.
        """
        resources = container.get("resources") or {}
        requests = Requests(_amounts(resources), self.target.prefix)
        requests.read()
        claims = [use for use in mappings(resources.get("claims")) if str(use.get("name")) in claimed]
        for use in claims:
            other = self.users.setdefault(str(use.get("name")), name)
            if other != name:
                raise RequestError(
                    f"uses claim {use.get('name')}, as container {other} does, and a slice belongs to one container:"
                    " give each container a claim of its own"
                )
        found = [*requests.asks, *(claimed[str(use.get("name"))] for use in claims)]
        if len(found) > 1 or (found and requests.ours):
            by = [*requests.asked_by, *requests.ours[:1], *(f"claim {use.get('name')}" for use in claims)]
            raise RequestError(f"asks for cards by {' and by '.join(by)}: keep one, or split the container")
        self.remarks += (f"container {name}: {remark}" for remark in requests.remarks)
        self.asking += bool(found or requests.ours)
        self.converted |= bool(requests.names) or requests.whole_cards_of_a_maker()
        for part in ("requests", "limits"):
            _without(resources, part, requests.names)
        _without_claims(resources, claims)
        return found[0] if found else None

    def _share(self, annotations: Annotations, spec: Object) -> int:
        """Convert KAI's annotations; returns the number of cards of which the container takes a part, 0 without them.

        Raises RequestError.
        """
        share = annotations.take_share()
        if share is None:
            return 0
        if self.asking:
            raise RequestError("an annotation and a container ask for a card: keep one of them")
        for container in mappings(spec.get("containers")):
            if share.container in (None, container.get("name")):
                self.asking += 1
                return self._write(container, share.ask)
        raise RequestError(f"an annotation asks for a card, and there is no container {share.container}")

    def _elsewhere(self, spec: Object) -> None:
        """Add a problem for a request where Kubernetes gives no card: of a whole pod, or of an ephemeral container."""
        places = {"the resources of the pod": spec.get("resources")}
        for container in mappings(spec.get("ephemeralContainers")):
            places[f"ephemeral container {container.get('name', '?')}"] = container.get("resources")
        for place, resources in places.items():
            asked = Requests(_amounts(resources or {}), self.target.prefix)
            try:
                asked.read()
            except RequestError as error:
                self.problems.append(f"{place}: {error}")
            if asked.asks or asked.ours:
                self.problems.append(f"{place}: no card is given there: ask in the limits of a container")

    def _refuse_init(self, spec: Object) -> None:
        """Add a problem for each init container that asks for a card, because admission refuses such a pod."""
        for container in mappings(spec.get("initContainers")):
            limits = (container.get("resources") or {}).get("limits") or {}
            asks = any(name in limits for name in resource_names(self.target.prefix))
            if asks and container.get("restartPolicy") != "Always":
                self.problems.append(
                    f"init container {container.get('name', '?')}: cannot hold a slice: ask in a main container,"
                    " or make it a sidecar (restartPolicy: Always)"
                )

    def _write(self, container: Object, ask: Ask) -> int:
        """Write the request with our resources; returns the number of cards that it takes in part (whole cards: 0).

        Raises RequestError.
        """
        self.converted = True
        name, prefix, unit = container.get("name", "?"), self.target.prefix, self.target.unit_mib
        if ask.count > MAX_CONTAINER_CARDS:
            raise RequestError(
                f"asks for {ask.count} cards, and a container can have {MAX_CONTAINER_CARDS}: make several pods"
            )
        limits = mapping_at(mapping_at(container, "resources"), "limits")
        if ask.whole:
            limits[prefix] = ask.count
            return 0
        if ask.mem_mib is None:
            self._write_percent(name, limits, ask)
            return ask.count
        units = -(-ask.mem_mib // unit)
        limits[prefix + MEM] = units * ask.count
        if ask.mem_mib % unit:
            plural = "s" if units > 1 else ""
            self.remarks.append(
                f"container {name}: memory is rounded up to {units} unit{plural} of {unit} MiB, from {ask.mem_mib} MiB"
            )
        self._write_cores(name, limits, ask)
        return ask.count

    def _write_cores(self, name: str, limits: Object, ask: Ask) -> None:
        """Write the core groups of a request that has an amount of memory.

        If the request has none, or their number is not known, adds a remark that the container's memory decides their
        number.
        """
        prefix, groups = self.target.prefix, self.target.core_groups
        if ask.cores is not None:
            limits[prefix + CORES] = ask.cores * ask.count
        elif not ask.cores_percent:
            self.remarks.append(f"container {name}: gets core groups in proportion to its memory, of its own")
        elif groups:
            limits[prefix + CORES] = -(-ask.cores_percent * groups // WHOLE_CARD) * ask.count
        else:
            self.remarks.append(
                f"container {name}: asked for {ask.cores_percent} % of the compute units, gets core groups in"
                f" proportion to its memory: write {prefix}{CORES}, or convert with --core-groups and a card's number"
            )

    def _write_percent(self, name: str, limits: Object, ask: Ask) -> None:
        """Write one percent for memory and core groups: the greater of the two that were asked for."""
        prefix = self.target.prefix
        shares = [share for share in (ask.mem_percent, ask.cores_percent) if share]
        percent = min(max(shares, default=WHOLE_CARD), WHOLE_CARD)
        limits[prefix + PERCENT] = percent * ask.count
        if ask.cores is not None:
            self.remarks.append(
                f"container {name}: asked for {ask.cores} compute units and no memory, gets {percent} % of the card:"
                f" to share it, write {prefix}{MEM} and {prefix}{CORES}"
            )
        elif not ask.mem_percent and percent < WHOLE_CARD:
            self.remarks.append(
                f"container {name}: had {percent} % of the compute units and no limit of memory, gets {percent} % of"
                f" both: for more memory, write {prefix}{MEM} and {prefix}{CORES}"
            )
        if len(set(shares)) > 1:
            self.remarks.append(
                f"container {name}: gets {percent} % of memory and of core groups, the greater of what it asked"
            )

    def _slices(self, annotations: Annotations, most: int) -> None:
        """Write the number of cards that a container takes in part into an annotation of the pod, if it is over 1."""
        if most > 1 and self.asking > 1:
            self.problems.append(
                f"a part of {most} cards in one container, and another container asks: make them two pods"
            )
        elif most > 1:
            annotations.write(ours.SLICES, str(most), "the requests")

    def _spec(self, spec: Object, claimed: Mapping[str, Ask]) -> None:
        """Convert the other product's ResourceClaims, schedulerName, runtimeClassName; remark on its node selectors."""
        self._release(spec, claimed)
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
                if str(key).startswith(FOREIGN) or key in _FOREIGN_LABELS:
                    self.remarks.append(f"{where} {key} stays: remove it if no node has that label")

    def _release(self, spec: Object, claimed: Mapping[str, Ask]) -> None:
        """Remove the pod's ResourceClaims that have become requests of its containers.

        Adds a remark for each claim that no container uses, and that therefore stays.
        """
        used = [name for name in claimed if name in self.users]
        for entry in mappings(spec.get("resourceClaims")):
            if entry.get("name") in used:
                for key in _keys_of(entry):
                    self._lost(*key)
        if used:
            spec["resourceClaims"] = [each for each in spec["resourceClaims"] if each.get("name") not in used]
            if not spec["resourceClaims"]:
                del spec["resourceClaims"]
            self.remarks.append(f"its claims {', '.join(used)} are requests now: delete the ResourceClaims")
        for name in claimed.keys() - used:
            self.remarks.append(f"its claim {name} is used by no container; it stays")

    def _lost(self, kind: str, name: str) -> None:
        """Add a remark for each property of a ResourceClaim that a request of ours does not have."""
        for part in self.claims[kind, name].lost:
            self.remarks.append(f"its {kind} {name} has {part}, which has no effect here")
        if kind == "ResourceClaim":
            self.remarks.append(
                f"all pods that name ResourceClaim {name} share its cards: here each pod has a slice of its own"
            )

    def _left(self, spec: Object) -> None:
        """Add a remark for the scheduler and the runtime class of another product, in a pod that is not converted."""
        for key, names in (("schedulerName", SCHEDULERS), ("runtimeClassName", ("nvidia",))):
            if spec.get(key) in names:
                self.remarks.append(
                    f"{key} {spec[key]} stays, since nothing was converted: remove it before you remove that product"
                )


def mappings(listed: object) -> Iterator[Object]:
    """The mappings in a list; nothing if the value is not a list."""
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, MutableMapping):
            yield entry


def _keys_of(entry: Object) -> list[tuple[str, str]]:
    """Kind and name of the object (ResourceClaim or template) that an entry of a pod's claims names."""
    return [(kind, str(entry[name])) for name, kind in _CLAIM_KINDS.items() if name in entry]


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
    """Remove these ResourceClaims from a container's `claims`, and the list itself if it is empty then."""
    if claims:
        resources["claims"] = [use for use in resources["claims"] if use not in claims]
        if not resources["claims"]:
            del resources["claims"]
