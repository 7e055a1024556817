"""Slices and grants, and the grant as the Pod annotation `vgpu.io/grant` carries it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import lt
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from device_plugin.core.contract.annotations import MAX_BYTES, MAX_CARDS, MAX_COMPUTE_UNITS, VERSION
from device_plugin.core.contract.codec import Count, Reader, Text, ascii_text, shared
from device_plugin.core.errors import AnnotationError

MAX_CONTAINERS = 256
# Characters of a container's name, as Kubernetes has it.
MAX_CONTAINER_NAME = 63
# This many slices always fit in an annotation, because one slice takes at most 13,000 characters.
ALWAYS_FIT = 4
_Core = Annotated[int, Meta(ge=0, lt=MAX_COMPUTE_UNITS)]
_ContainerName = Annotated[str, Meta(min_length=1, max_length=MAX_CONTAINER_NAME)]


class Slice(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of one card: `mem_mib` MiB and the core groups `cores`, ascending.

    `percent` is the percent of the card that the container asked for; 0 if it asked for memory or core groups.
    """

    card: Text
    mem_mib: Count = msgspec.field(name="memMiB")
    cores: Annotated[tuple[_Core, ...], Meta(min_length=1, max_length=MAX_COMPUTE_UNITS)]
    percent: Count = 0


Slices = Annotated[tuple[Slice, ...], Meta(min_length=1, max_length=MAX_CARDS)]
"""The slices of one container."""


class CardSize(msgspec.Struct, frozen=True, gc=False):
    """The memory and the largest number of slices of a card, as they were when a slice of it was granted."""

    mem_mib: Count = msgspec.field(name="memMiB")
    max_slices: Count = msgspec.field(name="maxSlices")


def largest(sizes: Iterable[CardSize | None]) -> CardSize:
    """The largest memory and the largest number of slices among `sizes`; None (unknown) is left out."""
    known = [size for size in sizes if size is not None]
    return CardSize(max(size.mem_mib for size in known), max(size.max_slices for size in known))


class Grant(msgspec.Struct, frozen=True, gc=False):
    """The slices that a pod was given, by container.

    `pod` is the pod's UID. A container holds one slice, or one slice of each of several cards. `cards` holds the sizes
    of the cards, by uuid, at the time of the grant: if a card reports less later, the grant is still no conflict.
    `cards` is empty if the writer did not know the sizes. `claims` holds the UID of the ResourceClaim in which a
    container asked for its slices, by the container's name; a container that asked in its limits is not in it.
    """

    pod: Text
    node: Text
    containers: Annotated[Mapping[_ContainerName, Slices], Meta(min_length=1, max_length=MAX_CONTAINERS)]
    gen: Count = 1
    cards: Annotated[Mapping[Text, CardSize], Meta(max_length=MAX_CARDS)] = {}
    claims: Annotated[Mapping[_ContainerName, Text], Meta(max_length=MAX_CONTAINERS)] = {}

    def slices(self) -> Iterator[Slice]:
        """All slices of the grant, in the order of the containers' names."""
        if len(self.containers) == 1:
            # Nearly all grants, and a decision reads its slices many times.
            ((_, given),) = self.containers.items()
            return iter(given)
        return (each for name in sorted(self.containers) for each in self.containers[name])

    @property
    def too_long(self) -> int:
        """The number of characters of the grant's annotation if there are more than MAX_BYTES; else 0.

        Whole cards with hundreds of core groups, or hundreds of containers with long names, make the annotation too
        long.
        """
        if len(list(self.slices())) <= ALWAYS_FIT:
            return 0
        length = len(self.encode())
        return length if length > MAX_BYTES else 0

    def encode(self) -> str:
        """The grant as text for the annotation: one line of JSON, with keys in a fixed order."""
        containers, cards = dict(sorted(self.containers.items())), dict(sorted(self.cards.items()))
        claims = dict(sorted(self.claims.items()))
        return ascii_text(
            _encode(_Written(VERSION, self.gen, self.pod, self.node, containers, cards, claims))
        )

    @classmethod
    def decode(cls, text: str) -> "Grant":
        """The grant in an annotation's text; unknown keys are ignored. Raises AnnotationError if malformed.

        The caller must check that the UID is the pod's, that the card exists, and that the slices are free.
        """
        grant = _READER.read(text)
        for name, slices in grant.containers.items():
            if fault := slices_fault(slices):
                raise AnnotationError(f"grant: container {name}: {fault}")
        if len(grant.containers) > 1:
            held = [(s.card, core) for s in grant.slices() for core in s.cores]
            if len(held) != len(set(held)):
                raise AnnotationError("grant: two containers hold the same core group")
        if strangers := grant.claims.keys() - grant.containers.keys():
            raise AnnotationError(f"grant: a claim of container {min(strangers)}, which is given nothing")
        uuids = {s.card: s.card for s in grant.slices()}
        sizes = {uuids.get(uuid, uuid): shared(size) for uuid, size in grant.cards.items()}
        force_setattr(grant, "cards", sizes)
        return grant


class _Written(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A grant in its JSON form, with the keys in the order of the text; empty `cards` and `claims` are left out."""

    v: int
    gen: int
    pod: str
    node: str
    containers: Mapping[str, Sequence[Slice]]
    cards: Mapping[str, CardSize] = {}
    claims: Mapping[str, str] = {}


_encode = msgspec.json.Encoder().encode
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
    names = {name: name for name in containers}
    if strangers := grant.containers.keys() - names.keys():
        raise AnnotationError(f"grant: the pod has no container {min(strangers)}")
    # The pod's own texts in place of equal ones: tens of thousands of grants are in memory.
    force_setattr(grant, "pod", pod)
    force_setattr(grant, "node", node)
    force_setattr(grant, "containers", {names[name]: given for name, given in grant.containers.items()})
    return grant


def slices_fault(slices: Sequence[Slice]) -> str:
    """The reason why one container cannot hold these decoded slices, as text; empty if it can.

    Equal `cores` of the slices become one object, to save memory.
    """
    for each in slices:
        if (cores := _ascending(each.cores)) is None:
            return "cores must be distinct and ascending"
        force_setattr(each, "cores", cores)
    if len(slices) > 1 and len({each.card for each in slices}) != len(slices):
        return "two slices of one card"
    return ""


@lru_cache(4096)
def _ascending(cores: tuple[int, ...]) -> tuple[int, ...] | None:
    """`cores` if the ids are ascending, else None; equal tuples become one object, to save memory."""
    return cores if all(map(lt, cores, cores[1:])) else None


def ranges(ids: Iterable[int], between: str = ", ") -> str:
    """Ascending ids as text: `0-14, 20`; a Job's `completedIndexes` has `,` between two ranges."""
    return between.join(str(a) if a == b else f"{a}-{b}" for a, b in runs(ids))


def runs(ids: Iterable[int]) -> list[list[int]]:
    """Ascending ids as runs, each with its first and last id: `[[0, 14], [20, 20]]`."""
    found: list[list[int]] = []
    for i in ids:
        if found and found[-1][1] == i - 1:
            found[-1][1] = i
        else:
            found.append([i, i])
    return found
