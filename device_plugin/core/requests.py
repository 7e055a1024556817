"""Requests: read from containers' resource limits or ResourceClaims (core/claims.py), and from pods' annotations.

For a prefix such as `hygon.com/dcu`, `<prefix>: n` asks for n whole cards, `<prefix>-mem: m` for m memory units and
`<prefix>-cores: c` for c core groups of one card, `<prefix>-percent: p` for p percent of one card. `<prefix>-slices`
only states the number of slices for quotas; for whole cards it is the number of all slices that they can give. Only
limits count: Kubernetes makes requests equal.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from device_plugin.core import card_models, percent
from device_plugin.core.contract import annotations
from device_plugin.core.contract.claims import Claim
from device_plugin.core.contract.quantities import parse_quantity
from device_plugin.core.errors import RequestError
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.core.roles import ALONE, Rank, order_problem

DEFAULT_PREFIXES = ("hygon.com/dcu", "hygon.com/hcu")
# Suffixes of a family's resources. The tickets of the first of them that a container asks for carry its slice.
SUFFIXES = WHOLE, MEM, CORES, PERCENT, SLICES = ("", "-mem", "-cores", "-percent", "-slices")
MAX_GANG = 1024
# Cards of one container: vgpu.conf and the usage region have places for 16 (vgpu_runtime.config.MAX_CARDS).
MAX_CONTAINER_CARDS = 16
LABELS = annotations.people_write("Pod", "label")
ANNOTATIONS = tuple(sorted(annotations.people_write("Pod", "annotation")))
# Most characters of a list of cards, and of any other annotation. Kubernetes allows 256 Ki, and a refusal repeats the
# text for each of thousands of nodes.
MAX_LIST, MAX_WORD = 4096, 63
# Most words of a list of cards: each takes about 100 bytes for as long as the request is kept.
MAX_WORDS = 64
MAX_COUNT = 2**31  # a larger count becomes this one: no card has as much, and int64 arithmetic stays exact
_SIZE = re.compile(r"[1-9][0-9]{0,3}")
# domain/name, the form of the names of extended resources in Kubernetes.
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


# Structs, and no dataclasses: each decision hashes and compares some, which takes a dataclass ten times as long.
class Request(Struct, frozen=True, gc=False):
    """The request of one container to one card family: `whole` cards, or a slice.

    A slice is `mem` memory units and `cores` core groups, or `percent` of both. If `mem` or `cores` is None, `place`
    completes it from the chosen card. A container gets `count` such slices, each of another card of one node.
    `max_slices`, if the author wrote it, is the number of slices that each whole card must be able to give.
    """

    family: str
    whole: int = 0
    mem: int | None = None
    cores: int | None = None
    percent: int | None = None
    max_slices: int | None = None
    count: int = 1

    @property
    def cards(self) -> int:
        """The number of cards of one node that the container needs; 1 for an empty request."""
        return self.whole or self.count

    def __str__(self) -> str:
        """The request as its author wrote it: `hygon.com/dcu-mem: 4, hygon.com/dcu-cores: 15`."""
        slices = None if self.max_slices is None else self.max_slices * self.whole
        each = (self.mem, self.cores, self.percent)
        counts = (self.whole or None, *(None if n is None else n * self.count for n in each), slices)
        text = ", ".join(
            f"{self.family}{suffix}: {count}"
            for suffix, count in zip(SUFFIXES, counts, strict=True)
            if count is not None
        )
        return text if self.count == 1 else f"{text} on {self.count} cards"


class Selector(Struct, frozen=True, gc=False):
    """A list `a,b,!c` from an annotation: values of which one must match, and `!values` that must not.

    It keeps only the text, which the pod keeps anyway: sets of its words would take twice the memory.
    """

    text: str = ""

    @property
    def include(self) -> frozenset[str]:
        """The values of which one must match; empty if every value matches."""
        return _words(self.text)[0]

    @property
    def exclude(self) -> frozenset[str]:
        """The values that must not match."""
        return _words(self.text)[1]

    def accepts(self, value: str) -> bool:
        """True if `value` is not excluded, and the list includes it or includes nothing."""
        include, exclude = _words(self.text)
        return value not in exclude and (not include or value in include)

    def accepts_model(self, model: str) -> bool:
        """True if no name of the card model is excluded, and the list includes one of its names or nothing."""
        include, exclude = _model_words(self.text)
        names = card_models.names(model)
        return names.isdisjoint(exclude) and (not include or not names.isdisjoint(include))


# A cache entry takes 16 KiB at most.
@lru_cache(128)
def _words(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words of a comma list: words without an exclamation mark, and words after one."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    return (
        frozenset(word for word in words if not word.startswith("!")),
        frozenset(word[1:].strip() for word in words if word.startswith("!")),
    )


@lru_cache(128)
def _model_words(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The included and the excluded words of a comma list of card models, in the form for comparisons."""
    include, exclude = _words(text)
    return frozenset(map(card_models.normal, include)), frozenset(map(card_models.normal, exclude))


ANYTHING = Selector()


@dataclass(frozen=True, slots=True)
class Gang:
    """A group of pods of one namespace that are placed all together or not at all, and the number of its pods."""

    group: str
    size: int


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodRequest:
    """The request of a pod: its containers' requests in the order of the spec, and its selectors of cards.

    `host` is the CPU, memory and disk that the pod requests of its node. `app_type` and `rank` are for the policy
    `node-score`. `rank` is the pod's number in its group; the pod's author does not write it, and it is not compared.
    `claims` are the UIDs of the ResourceClaims from which containers' requests were read, each with its container.
    """

    pod: str
    containers: tuple[tuple[str, Request], ...]
    models: Selector = ANYTHING
    uuids: Selector = ANYTHING
    policy: str = ""
    host: HostAmounts = HostAmounts()
    app_type: str = ""
    rank: Rank = field(default=ALONE, compare=False)
    gang: Gang | None = None
    claims: tuple[tuple[str, str], ...] = ()


NO_CARD = Request("")


class Shape(Struct, frozen=True, gc=False):
    """The parts of a request that decide where a pod fits best, if at most one of its containers asks for cards.

    Pods of one shape share their scores. `request` is empty if a pod asks for no card: traces of real clusters, which
    our simulations read, have such pods, and they take CPU.
    """

    request: Request
    models: Selector = ANYTHING
    uuids: Selector = ANYTHING
    host: HostAmounts = HostAmounts()

    @classmethod
    def of(cls, request: PodRequest) -> "Shape | None":
        """The shape of a pod's request (the parts that decide where it fits best); None if several containers ask."""
        if len(request.containers) > 1:
            return None
        asked = request.containers[0][1] if request.containers else NO_CARD
        return cls(asked, request.models, request.uuids, request.host)

    def accepts(self, family: str, model: str, slices: int) -> bool:
        """True if the request accepts cards of this family and model that can give `slices` slices."""
        asked = self.request
        return (
            family == asked.family and asked.max_slices in (None, slices) and self.models.accepts_model(model)
        )

    @property
    def is_slice(self) -> bool:
        """True for a request for a part of a card, false for whole cards."""
        asked = self.request
        return asked.mem is not None or asked.cores is not None or asked.percent is not None


# Cached: it is called for each container of tens of thousands of pods, and a cluster has few prefixes.
@lru_cache(64)
def resource_names(prefix: str) -> tuple[str, ...]:
    """The names of a card family's resources, in the order of SUFFIXES."""
    return tuple(prefix + suffix for suffix in SUFFIXES)


def is_prefix(text: str) -> bool:
    """True if `text` has the form domain/name, with which Kubernetes' resource names may begin."""
    return _PREFIX.fullmatch(text) is not None


def all_resource_names(prefixes: Iterable[str]) -> frozenset[str]:
    """The names of the resources of several card families."""
    return frozenset(name for prefix in prefixes for name in resource_names(prefix))


def family_of(resource: str) -> str:
    """The card family (resource prefix) of one of our resource names."""
    return next((resource.removesuffix(s) for s in SUFFIXES if s and resource.endswith(s)), resource)


class RequestSource(Protocol):
    """A source of containers' requests other than their limits, such as ResourceClaims."""

    def of(self, pod: Pod, container: Container) -> tuple[Request, Claim] | None:
        """The container's request, and the claim in which it was found; None if there is none.

        Raises RequestError if the request is malformed.
        """

    def check(self, pod: Pod) -> None:
        """Raise RequestError if the pod can never start as it is. The requests of its containers were read before."""


class _NoClaims:
    def of(self, pod: Pod, container: Container) -> None:
        """Returns None for every container, because ResourceClaims are not served."""

    def check(self, pod: Pod) -> None:
        """Accept every pod."""


NO_CLAIMS: RequestSource = _NoClaims()


def pod_request(pod: Pod, prefixes: Collection[str], source: RequestSource = NO_CLAIMS) -> PodRequest | None:
    """The request of `pod`; None if no container asks for a card. Raises RequestError if any part is malformed."""
    asking: list[tuple[str, Request]] = []
    claims: list[tuple[str, str]] = []
    count = _slices(pod)
    for container in pod.containers:
        request = container_request(container.name, container.limits, prefixes, count)
        claimed = source.of(pod, container)
        if claimed is not None:
            if request is not None:
                raise RequestError(
                    f"container {container.name} asks for {request} in limits and in a claim: leave one of them out"
                )
            request = claimed[0]
            claims.append((container.name, claimed[1].uid))
        if request is None:
            continue
        if container.kind is ContainerKind.INIT:
            raise RequestError(
                f"init container {container.name} asks for {request}: an init container cannot hold a slice;"
                " ask in a main container, or make it a sidecar (restartPolicy: Always)"
            )
        asking.append((container.name, request))
    source.check(pod)
    if not asking:
        return None
    if len(asking) > 1 and pod.annotation(annotations.SLICES):
        raise RequestError(
            f"annotation {annotations.SLICES}: {len(asking)} containers ask for slices: leave it out, or ask in one"
            " container alone"
        )
    _check_places(pod)
    if problem := order_problem(pod):
        raise RequestError(problem)
    gang = _gang(pod)
    if claims:
        _check_claims(pod, gang, asking)
    return PodRequest(
        pod.uid,
        tuple(asking),
        _selector(pod, annotations.CARD_MODEL),
        _selector(pod, annotations.CARD_UUID),
        _annotation(pod, annotations.POLICY, MAX_WORD),
        pod.host,
        _annotation(pod, annotations.APP_TYPE, MAX_WORD),
        gang=gang,
        claims=tuple(claims),
    )


def _check_claims(pod: Pod, gang: Gang | None, asking: Collection[tuple[str, Request]]) -> None:
    """Raise RequestError if the pod uses an option that is not for pods with ResourceClaims.

    The options are: a gang, the annotation for the number of slices, and a container that asks for slices of several
    cards next to another asking container.
    """
    if len(asking) > 1 and (several := next((name for name, each in asking if each.count > 1), "")):
        raise RequestError(
            f"container {several} asks for slices of several cards, and other containers ask too: leave out `count`, or"
            " ask in one container alone"
        )
    if gang is not None:
        raise RequestError(
            f"label {annotations.GROUP_SIZE}: pods with claims are placed one by one: ask in limits, or leave it out"
        )
    if pod.annotation(annotations.SLICES):
        raise RequestError(f"annotation {annotations.SLICES}: write `count` in the claim instead")


def _check_places(pod: Pod) -> None:
    """Raise RequestError if a key that must be a label is written as an annotation, or the other way round."""
    for keys, kept, found, meant in (
        (LABELS, pod.annotations, "annotation", "a label"),
        (ANNOTATIONS, pod.labels, "label", "an annotation"),
    ):
        if kept and (strays := [key for key in keys if key in kept]):
            raise RequestError(f"{found} {', '.join(strays)}: write {meant} instead")


def _selector(pod: Pod, key: str) -> Selector:
    text = pod.annotation(key)
    if not text:
        return ANYTHING
    if len(text) > MAX_LIST or sum(bool(word.strip()) for word in text.split(",")) > MAX_WORDS:
        raise RequestError(
            f"annotation {key} is too long: write at most {MAX_WORDS} words, {MAX_LIST} characters"
        )
    return Selector(text) if text.strip(", ") else ANYTHING


def _annotation(pod: Pod, key: str, most: int) -> str:
    text = pod.annotation(key)
    if len(text) > most:
        raise RequestError(f"annotation {key} is too long: write at most {most} characters")
    return text


def _slices(pod: Pod) -> int:
    """The number of slices, each of another card, that a container of the pod asks for: the pod's annotation, or 1."""
    text = pod.annotation(annotations.SLICES)
    if text and not (_SIZE.fullmatch(text) and int(text) <= MAX_CONTAINER_CARDS):
        raise RequestError(
            f"annotation {annotations.SLICES} is {text[:MAX_WORD]!r}: write a whole number from 1 to"
            f" {MAX_CONTAINER_CARDS}"
        )
    return int(text) if text else 1


def _gang(pod: Pod) -> Gang | None:
    size, group = pod.label(annotations.GROUP_SIZE), pod.label(annotations.GROUP)
    if not size:
        return None
    if not _SIZE.fullmatch(size) or int(size) > MAX_GANG:
        raise RequestError(
            f"label {annotations.GROUP_SIZE} is {size!r}: write a whole number from 1 to {MAX_GANG}"
        )
    if not group:
        raise RequestError(
            f"label {annotations.GROUP_SIZE} needs {annotations.GROUP}: write the group's name"
        )
    return Gang(group, int(size))


def container_request(
    name: str, limits: Mapping[str, str], prefixes: Collection[str], count: int = 1
) -> Request | None:
    """The request in one container's limits, for `count` slices; None if the limits ask for no card.

    Raises RequestError, whose text says what to write instead.
    """
    names = [resource for prefix in prefixes for resource in resource_names(prefix) if resource in limits]
    ours = tuple([(resource, limits[resource]) for resource in names])
    return _read_limits(name, ours, tuple(prefixes), count) if ours else None


# Tens of thousands of containers have only a few distinct limits, and equal requests share one object.
@lru_cache(4096)
def _read_limits(
    name: str, limits: tuple[tuple[str, str], ...], prefixes: tuple[str, ...], count: int
) -> Request:
    texts, asked = dict(limits), dict[str, dict[str, int]]()
    for prefix in prefixes:
        for suffix, resource in zip(SUFFIXES, resource_names(prefix), strict=True):
            text = texts.get(resource)
            if text is not None:
                asked.setdefault(prefix, {})[suffix] = _count(name, resource, text)
    if len(asked) > 1:
        raise RequestError(
            f"container {name} asks for {' and '.join(sorted(asked))}: ask for one kind of card"
        )
    ((prefix, counts),) = asked.items()
    where = f"container {name}"
    _check_amounts(where, prefix, counts, count)
    _check_slices(where, prefix, counts, count)
    whole, slices = counts.get(WHOLE, 0), counts.get(SLICES)
    if whole:
        return Request(prefix, whole, max_slices=None if slices is None else slices // whole)
    mem, cores, share = (counts[s] // count if s in counts else None for s in (MEM, CORES, PERCENT))
    return Request(prefix, 0, mem, cores, share, count=count)


def _check_amounts(where: str, prefix: str, counts: Mapping[str, int], slices: int) -> None:
    """Raise RequestError if the amounts contradict each other, or cannot be divided evenly into `slices`.

    `counts` are the amounts by the suffix of the resource name.
    """
    whole, share = counts.get(WHOLE, 0), counts.get(PERCENT, 0)
    if whole and counts.keys() - {WHOLE, SLICES}:
        raise RequestError(
            f"{where} asks for whole cards and a slice: write either {prefix}: N (whole cards)"
            f" or {prefix}{MEM} and {prefix}{CORES}, or {prefix}{PERCENT} (a slice of one card)"
        )
    if whole > MAX_CONTAINER_CARDS:
        raise RequestError(
            f"{where} asks for {whole} whole cards: a container can hold at most"
            f" {MAX_CONTAINER_CARDS}; ask in more containers or pods"
        )
    if share and (MEM in counts or CORES in counts):
        raise RequestError(
            f"{where} asks for {prefix}{PERCENT} beside {prefix}{MEM} or {prefix}{CORES}: percent counts for both;"
            f" write either {prefix}{PERCENT}, or {prefix}{MEM} and {prefix}{CORES}"
        )
    if whole and slices > 1:
        raise RequestError(
            f"{where} asks for whole cards: leave out the annotation {annotations.SLICES}; {prefix}: N is their number"
        )
    uneven = [f"{prefix}{s} is {counts[s]}" for s in (MEM, CORES, PERCENT) if counts.get(s, 0) % slices]
    if uneven:
        raise RequestError(
            f"{where}: {' and '.join(uneven)} for {slices} slices (annotation {annotations.SLICES}): write the sum of"
            f" equal slices, a multiple of {slices}"
        )
    if share > percent.MOST * slices:
        raise RequestError(
            f"{where}: {prefix}{PERCENT} is {share}: write 1 to {percent.MOST}, the percent of one card, or {prefix}:"
            " N for whole cards"
        )


def _check_slices(where: str, prefix: str, counts: Mapping[str, int], count: int) -> None:
    """Raise RequestError if the limit `-slices` is written, but is not the number of slices that the container gets."""
    whole, slices = counts.get(WHOLE, 0), counts.get(SLICES)
    if slices is None:
        return
    if counts.keys() == {SLICES}:
        raise RequestError(
            f"{where} asks for {prefix}{SLICES} alone, which only counts slices for a quota: write also what the slice"
            f" is to be, {prefix}{MEM} and {prefix}{CORES}, or {prefix}{PERCENT}"
        )
    if not whole and slices != count:
        held = "one slice" if count == 1 else f"{count} slices"
        raise RequestError(f"{where}: {prefix}{SLICES} is {slices}, and it asks for {held}: write {count}")
    if whole and slices % whole:
        raise RequestError(
            f"{where}: {prefix}{SLICES} is {slices} for {whole} whole cards: write all slices that these cards can"
            " give, an equal number for each"
        )


def _count(container: str, resource: str, text: str) -> int:
    value = parse_quantity(text)
    if value is None or value.denominator != 1 or value.numerator < 1:
        raise RequestError(
            f"container {container}: {resource} is {text!r}: write a whole number of at least 1"
        )
    return min(value.numerator, MAX_COUNT)
