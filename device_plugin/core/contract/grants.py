"""Slices and grants, and the grant as the Pod annotation `vgpu.io/grant` carries it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from device_plugin.core.contract import annotations
from device_plugin.core.contract.annotations import MAX_CARDS, MAX_COMPUTE_UNITS, Fields, checked_text
from device_plugin.core.contract.card_names import unique
from device_plugin.core.errors import AnnotationError

MAX_CONTAINERS = 256
# Characters of a container's name, as Kubernetes has it.
MAX_CONTAINER_NAME = 63
# As many slices fit in an annotation whatever their names and core groups: one takes at most 13,000 characters.
ALWAYS_FIT = 4


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of one card: `mem_mib` MiB and the core groups `cores`, ascending.

    `percent` is the percent of the card that was asked for; 0 if memory or core groups were.
    """

    card: str
    mem_mib: int
    cores: tuple[int, ...]
    percent: int = 0


@dataclass(frozen=True, slots=True)
class CardSize:
    """The memory of a card and its largest number of slices, at the time of a grant."""

    mem_mib: int
    max_slices: int


def largest(sizes: Iterable[CardSize | None]) -> CardSize:
    """The largest memory and the largest slice count among `sizes`; None (unknown) entries are left out."""
    known = [size for size in sizes if size is not None]
    return CardSize(max(size.mem_mib for size in known), max(size.max_slices for size in known))


@dataclass(frozen=True, slots=True)
class Grant:
    """The slices that a pod was given, by container.

    `pod` is the pod's UID. A container holds one slice, or several when it asked for several whole cards. `cards` are
    the sizes, by uuid, of its cards at the time of the grant: a card may report less later, and then the grant is not a
    conflict. Grants written by earlier versions have no sizes.
    """

    pod: str
    node: str
    containers: Mapping[str, tuple[Slice, ...]]
    gen: int = 1
    cards: Mapping[str, CardSize] = field(default_factory=dict)

    def slices(self) -> Iterator[Slice]:
        """Every slice of every container, in the order of the containers' names."""
        for name in sorted(self.containers):
            yield from self.containers[name]

    def renamed(self, names: Mapping[str, str]) -> "Grant":
        """The grant with its cards renamed: `names` maps old names to new ones."""
        if not names:
            return self
        return replace(
            self,
            containers={
                container: tuple(replace(s, card=names.get(s.card, s.card)) for s in slices)
                for container, slices in self.containers.items()
            },
            cards={names.get(uuid, uuid): size for uuid, size in self.cards.items()},
        )

    @property
    def too_long(self) -> int:
        """The characters of its annotation if these are more than readers take; else 0.

        Whole cards of hundreds of core groups, or hundreds of containers with long names, make it too long.
        """
        if len(list(self.slices())) <= ALWAYS_FIT:
            return 0
        length = len(self.encode())
        return length if length > annotations.MAX_BYTES else 0

    def encode(self) -> str:
        """The text of the annotation: one line of JSON, keys in a fixed order."""
        containers = {name: slice_objects(slices) for name, slices in sorted(self.containers.items())}
        cards = {
            uuid: {"memMiB": size.mem_mib, "maxSlices": size.max_slices}
            for uuid, size in sorted(self.cards.items())
        }
        return annotations.write_object({
            "gen": self.gen, "pod": self.pod, "node": self.node, "containers": containers,
            **({"cards": cards} if cards else {}),
        })  # fmt: skip

    @classmethod
    def decode(cls, text: str) -> "Grant":
        """The grant in an annotation's text; unknown keys are ignored. Raises AnnotationError if malformed.

        The caller checks that the UID is the pod's, that the card exists, and that the slice is free.
        """
        fields = annotations.read_object(text, "grant")
        entries = fields.mapping("containers", most=MAX_CONTAINERS)
        if not entries:
            raise AnnotationError("grant: no container holds a slice")
        for name in entries:
            checked_text(name, "grant: the name of a container", max_length=MAX_CONTAINER_NAME)
        node = fields.text("node")
        grant = cls(
            pod=fields.text("pod"),
            node=node,
            containers={
                name: read_slices(value, f"grant: container {name}", node) for name, value in entries.items()
            },
            gen=fields.integer("gen", least=1),
            cards=_sizes(fields, node),
        )
        held = [(s.card, core) for s in grant.slices() for core in s.cores] if len(entries) > 1 else []
        if len(held) != len(set(held)):
            raise AnnotationError("grant: two containers hold the same core group")
        return grant


def own_grant(
    text: str, pod: str, node: str, containers: Collection[str], decode: Callable[[str], Grant] = Grant.decode
) -> Grant:
    """The grant in the annotation of the pod with this UID, on this node, with these containers.

    `decode` reads the annotation; it returns and raises what Grant.decode does. Raises AnnotationError if the grant
    cannot be this pod's: malformed, written for another pod or node, or naming a container that the pod does not have.
    """
    grant = decode(text)
    if grant.pod != pod:
        raise AnnotationError(f"grant: written for pod {grant.pod[:63]}, found on {pod}: void")
    if grant.node != node:
        raise AnnotationError(f"grant: written for node {grant.node[:63]}, the pod is on {node!r}: void")
    if strangers := grant.containers.keys() - containers:
        raise AnnotationError(f"grant: the pod has no container {min(strangers)}")
    return grant


def _sizes(fields: Fields, node: str) -> Mapping[str, CardSize]:
    if not fields.has("cards"):
        return {}
    sizes = {}
    for uuid, value in fields.mapping("cards", most=MAX_CARDS).items():
        size = Fields(value, f"grant: card {checked_text(uuid, 'grant: the uuid of a card')}")
        sizes[unique(uuid, node)] = CardSize(
            size.integer("memMiB", least=1), size.integer("maxSlices", least=1)
        )
    return sizes


def slice_objects(slices: Sequence[Slice]) -> list[dict[str, object]]:
    """One container's slices as JSON objects, for every annotation that carries slices."""
    return [
        {
            "card": s.card,
            "memMiB": s.mem_mib,
            "cores": list(s.cores),
            **({"percent": s.percent} if s.percent else {}),
        }
        for s in slices
    ]


def ranges(ids: Iterable[int]) -> str:
    """Ascending ids as people write them: `0-14, 20`."""
    runs: list[list[int]] = []
    for i in ids:
        if runs and runs[-1][1] == i - 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def read_slices(value: object, where: str, node: str = "") -> tuple[Slice, ...]:
    """One container's slices from JSON. Raises AnnotationError, which begins with `where`.

    With `node`, its cards get the names that they have in the cluster: what an older agent or allocator wrote may have
    others (see card_names).
    """
    if not isinstance(value, list) or not 0 < len(value) <= MAX_CARDS:
        raise AnnotationError(f"{where}: expected a list of 1 to {MAX_CARDS} slices")
    slices = tuple(_slice(Fields(entry, where), where, node) for entry in value)
    if len({s.card for s in slices}) != len(slices):
        raise AnnotationError(f"{where}: two slices of one card")
    return slices


def _slice(fields: Fields, where: str, node: str) -> Slice:
    raw = fields.items("cores", most=MAX_COMPUTE_UNITS)
    # A leader reads tens of thousands of grants before its first decision: whole lists are checked at once.
    if {*map(type, raw)} != {int} or sorted(set(raw)) != raw or raw[0] < 0 or raw[-1] >= MAX_COMPUTE_UNITS:
        raise AnnotationError(
            f"{where}: cores must be integers, distinct, ascending and from 0 to below {MAX_COMPUTE_UNITS}"
        )
    card = fields.text("card")
    percent = fields.integer("percent", least=1) if fields.has("percent") else 0
    return Slice(unique(card, node) if node else card, fields.integer("memMiB", least=1), tuple(raw), percent)
