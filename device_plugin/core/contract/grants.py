"""Slices and grants, and the grant as the Pod annotation `vgpu.io/grant` carries it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import lt
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from device_plugin.core.contract.annotations import MAX_BYTES, MAX_CARDS, MAX_COMPUTE_UNITS
from device_plugin.core.contract.codec import Count, Reader, Text, shared, write_object
from device_plugin.core.errors import AnnotationError

MAX_CONTAINERS = 256
# Characters of a container's name, as Kubernetes has it.
MAX_CONTAINER_NAME = 63
# As many slices fit in an annotation whatever their names and core groups: one takes at most 13,000 characters.
ALWAYS_FIT = 4
_Core = Annotated[int, Meta(ge=0, lt=MAX_COMPUTE_UNITS)]
_ContainerName = Annotated[str, Meta(min_length=1, max_length=MAX_CONTAINER_NAME)]


class Slice(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of one card: `mem_mib` MiB and the core groups `cores`, ascending.

    `percent` is the percent of the card that was asked for; 0 if memory or core groups were.
    """

    card: Text
    mem_mib: Count = msgspec.field(name="memMiB")
    cores: Annotated[tuple[_Core, ...], Meta(min_length=1, max_length=MAX_COMPUTE_UNITS)]
    percent: Count = 0


Slices = Annotated[tuple[Slice, ...], Meta(min_length=1, max_length=MAX_CARDS)]
"""The slices of one container."""


class CardSize(msgspec.Struct, frozen=True, gc=False):
    """The memory of a card and its largest number of slices, at the time of a grant."""

    mem_mib: Count = msgspec.field(name="memMiB")
    max_slices: Count = msgspec.field(name="maxSlices")


def largest(sizes: Iterable[CardSize | None]) -> CardSize:
    """The largest memory and the largest slice count among `sizes`; None (unknown) entries are left out."""
    known = [size for size in sizes if size is not None]
    return CardSize(max(size.mem_mib for size in known), max(size.max_slices for size in known))


class Grant(msgspec.Struct, frozen=True, gc=False):
    """The slices that a pod was given, by container.

    `pod` is the pod's UID. A container holds one slice, or several when it asked for several whole cards. `cards` are
    the sizes, by uuid, of its cards at the time of the grant: a card may report less later, and then the grant is not a
    conflict. A grant whose writer did not know the sizes has none.
    """

    pod: Text
    node: Text
    containers: Annotated[Mapping[_ContainerName, Slices], Meta(min_length=1, max_length=MAX_CONTAINERS)]
    gen: Count = 1
    cards: Annotated[Mapping[Text, CardSize], Meta(max_length=MAX_CARDS)] = {}

    def slices(self) -> Iterator[Slice]:
        """Every slice of every container, in the order of the containers' names."""
        for name in sorted(self.containers):
            yield from self.containers[name]

    @property
    def too_long(self) -> int:
        """The characters of its annotation if these are more than readers take; else 0.

        Whole cards of hundreds of core groups, or hundreds of containers with long names, make it too long.
        """
        if len(list(self.slices())) <= ALWAYS_FIT:
            return 0
        length = len(self.encode())
        return length if length > MAX_BYTES else 0

    def encode(self) -> str:
        """The text of the annotation: one line of JSON, keys in a fixed order."""
        containers, cards = (
            msgspec.to_builtins(dict(sorted(each.items()))) for each in (self.containers, self.cards)
        )
        return write_object({
            "gen": self.gen, "pod": self.pod, "node": self.node, "containers": containers,
            **({"cards": cards} if cards else {}),
        })  # fmt: skip

    @classmethod
    def decode(cls, text: str) -> "Grant":
        """The grant in an annotation's text; unknown keys are ignored. Raises AnnotationError if malformed.

        The caller checks that the UID is the pod's, that the card exists, and that the slice is free.
        """
        grant = _READER.read(text)
        for name, slices in grant.containers.items():
            if fault := slices_fault(slices):
                raise AnnotationError(f"grant: container {name}: {fault}")
        if len(grant.containers) > 1:
            held = [(s.card, core) for s in grant.slices() for core in s.cores]
            if len(held) != len(set(held)):
                raise AnnotationError("grant: two containers hold the same core group")
        force_setattr(grant, "cards", {uuid: shared(size) for uuid, size in grant.cards.items()})
        return grant


_READER = Reader(Grant, "grant", required=["gen"])


def own_grant(text: str, pod: str, node: str, containers: Collection[str]) -> Grant:
    """The grant in the annotation of the pod with this UID, on this node, with these containers.

    Raises AnnotationError if the grant cannot be this pod's: malformed, written for another pod or node, or naming a
    container that the pod does not have.
    """
    grant = Grant.decode(text)
    if grant.pod != pod:
        raise AnnotationError(f"grant: written for pod {grant.pod[:63]}, found on {pod}: void")
    if grant.node != node:
        raise AnnotationError(f"grant: written for node {grant.node[:63]}, the pod is on {node!r}: void")
    if strangers := grant.containers.keys() - containers:
        raise AnnotationError(f"grant: the pod has no container {min(strangers)}")
    return grant


def slices_fault(slices: Sequence[Slice]) -> str:
    """The reason why one container cannot hold these slices, which were read; empty if it can."""
    for each in slices:
        if (cores := _ascending(each.cores)) is None:
            return "cores must be distinct and ascending"
        force_setattr(each, "cores", cores)
    if len(slices) > 1 and len({each.card for each in slices}) != len(slices):
        return "two slices of one card"
    return ""


@lru_cache(4096)
def _ascending(cores: tuple[int, ...]) -> tuple[int, ...] | None:
    """The first of equal tuples, as most slices of a cluster have one of few; None if they are not ascending."""
    return cores if all(map(lt, cores, cores[1:])) else None


def ranges(ids: Iterable[int]) -> str:
    """Ascending ids as people write them: `0-14, 20`."""
    runs: list[list[int]] = []
    for i in ids:
        if runs and runs[-1][1] == i - 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
