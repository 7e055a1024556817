"""The cluster as the caller may read it: nodes, their cards, the pods that hold slices, and the missing rights.

It is made of inventories and grants. Both are annotations, so lists of metadata are enough. A caller with rights in one
namespace only sees no nodes, and only the cards that are in grants of that namespace.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import NamedTuple

from device_plugin.cli.reading import held_use
from device_plugin.cli.reading.held_use import HeldUse, SliceKey, SliceUse
from device_plugin.core import percent
from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import Card, Inventory, ReportedSlice, SliceState
from device_plugin.core.contract.cordons import CordonNote, read_notes
from device_plugin.core.contract.grants import CardSize, Grant, Slice
from device_plugin.core.errors import AnnotationError
from device_plugin.core.pods import Node
from device_plugin.kube.api import Metadata


@dataclass(frozen=True, slots=True)
class MissingRight:
    """A right that the caller lacks: the refused action, the consequence, and an RBAC rule that allows the action."""

    what: str
    unknown: str
    rule: str

    def __str__(self) -> str:
        """Returns the missing right as text for people."""
        return f"you may not {self.what}: {self.unknown}. A rule that allows it: {self.rule}"

    def as_object(self) -> Mapping[str, str]:
        """Returns the missing right as an object for -o json."""
        return {"what": self.what, "unknown": self.unknown, "rule": self.rule}


@dataclass(frozen=True, slots=True)
class AnnotationFault:
    """An annotation that is ignored: `subject` is a node's name, or namespace/name of a pod."""

    subject: str
    text: str


class GrantedPod(NamedTuple):
    """A bound pod that has not ended, with its grant. `running` is true if its phase is Running.

    `created` is the time of creation in RFC 3339; metadata does not have the time of the binding.
    """

    namespace: str
    name: str
    uid: str
    created: str
    deleting: bool
    running: bool
    grant: Grant

    @property
    def node(self) -> str:
        """Returns the node on which the pod holds its slices."""
        return self.grant.node


class CardHolder(NamedTuple):
    """A container that holds a slice of a card. `created` is the pod's time of creation; empty if unknown.

    `state` is the state of the slice that the node's agent reports; None if it reports none. The state OUTLIVING means
    that the pod is gone. `use` is None if the use of the slice is not known.
    """

    namespace: str
    pod: str
    container: str
    uid: str
    slice: Slice
    created: str = ""
    running: bool = True
    deleting: bool = False
    state: SliceState | None = None
    use: SliceUse | None = None

    @property
    def key(self) -> SliceKey:
        """Returns the key (SliceKey) by which the use of the slice is looked up."""
        return self.namespace, self.pod, self.container, self.slice.card


class CardReading(NamedTuple):
    """A card of a node and the containers that hold slices of it, sorted by namespace, pod and container.

    `card` is None if the inventory does not show the card or may not be read. Then `mem_mib` and `max_slices` are from
    a grant, and 0 if no grant has them. `serving` is false while the node's agent serves no Allocate, None if not
    known.
    """

    node: str
    uuid: str
    card: Card | None
    mem_mib: int
    max_slices: int
    holders: tuple[CardHolder, ...]
    serving: bool | None = None
    use: HeldUse = held_use.UNKNOWN

    @property
    def core_groups(self) -> int:
        """Returns the number of core groups of the card; 0 if unknown."""
        return self.card.core_groups if self.card is not None else 0

    @property
    def held_mib(self) -> int:
        """Returns the MiB of all slices of the card."""
        return sum(holder.slice.mem_mib for holder in self.holders)

    @property
    def held_groups(self) -> int:
        """Returns the number of core groups of all slices of the card."""
        if len(self.holders) == 1:
            return len(self.holders[0].slice.cores)
        return len(set[int]().union(*[holder.slice.cores for holder in self.holders]))

    @property
    def free_percent(self) -> int | None:
        """Returns the largest percent of the card that a new slice could have now; None if the card is not known."""
        if self.card is None:
            return None
        if not self.card.open or self.serving is False or len(self.holders) >= self.max_slices:
            return 0
        memory = percent.most(self.mem_mib - self.held_mib, self.mem_mib)
        return min(memory, percent.most(self.core_groups - self.held_groups, self.core_groups))

    def with_use(self, uses: Mapping[SliceKey, SliceUse]) -> "CardReading":
        """Returns the card with the use of its slices, as far as `uses` has it."""
        if not self.holders:
            return self._replace(use=held_use.NOTHING)
        if not uses:
            return self
        holders = tuple([holder._replace(use=uses.get(holder.key)) for holder in self.holders])
        parts = (held_use.of_slice(holder.slice, holder.use) for holder in holders)
        return self._replace(holders=holders, use=held_use.together(parts))

    def whole(self, holder: CardHolder) -> bool:
        """True if the holder's slice is the whole card."""
        return holder.slice.mem_mib >= self.mem_mib > 0 and len(holder.slice.cores) == self.core_groups


@dataclass(frozen=True, slots=True)
class NodeReading:
    """A node with cards. `serving` is false while its agent serves no Allocate, None if that is not known.

    `notes` has the author and the reason of each cordon, by the card's uuid.
    """

    name: str
    serving: bool | None
    cards: tuple[CardReading, ...]
    fault: str = ""
    notes: Mapping[str, CordonNote] = field(default_factory=dict)
    use: HeldUse = held_use.UNKNOWN

    def with_use(self, uses: Mapping[SliceKey, SliceUse]) -> "NodeReading":
        """Returns the node with the use of the slices of its cards, as far as `uses` has it."""
        cards = tuple([card.with_use(uses) for card in self.cards])
        return replace(self, cards=cards, use=held_use.together(card.use for card in cards))


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """The cluster as the caller could read it at one time; nodes without cards are left out.

    `namespace` is the namespace whose pods were read; empty: of all. `missing` has the rights that the caller lacks;
    without them slices of other namespaces, or free cards, are not known.
    """

    nodes: Mapping[str, NodeReading]
    pods: Sequence[GrantedPod]
    faults: tuple[AnnotationFault, ...] = ()
    missing: tuple[MissingRight, ...] = ()
    namespace: str = ""

    def with_use(self, uses: Mapping[SliceKey, SliceUse]) -> "ClusterReading":
        """Returns this reading of the cluster with the use of slices, as far as `uses` has it."""
        return replace(self, nodes={name: node.with_use(uses) for name, node in self.nodes.items()})

    def cards(self) -> Iterator[CardReading]:
        """Yields all cards, node after node."""
        for node in self.nodes.values():
            yield from node.cards


@dataclass(frozen=True, slots=True)
class _NodeCards:
    """A node and its inventory.

    The inventory is None if there is none, or if it cannot be read for the reason `fault`.
    """

    name: str
    inventory: Inventory | None = None
    fault: str = ""
    notes: Mapping[str, CordonNote] = field(default_factory=dict)


class KnownCluster:
    """Holds the nodes, and the pods with slices, that lists and watches have shown so far; makes readings of them.

    Running pods and other bound pods come from two watches. A parameter `running` is true for the watch of running
    pods, and false for the other watch. A pod that begins to run leaves one watch and enters the other, in any order;
    it counts as running while it is in the watch of running pods. A reading of all nodes is computed in full each time;
    a reading of one node costs little.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, _NodeCards] = {}
        # Running pods (True) and the others (False), by uid.
        self._pods: dict[bool, dict[str, GrantedPod]] = {True: {}, False: {}}
        self._on_node: dict[str, dict[str, GrantedPod]] = {}
        # By kind and uid of a pod, or by kind and name of a node.
        self._faults: dict[tuple[str, str], AnnotationFault] = {}

    def see_node(self, metadata: Metadata) -> None:
        """Record the present state of a node; a node without an inventory is forgotten."""
        made = self._node_cards(metadata)
        self.forget_node(metadata.name)
        if made.fault:
            self._faults["node", made.name] = AnnotationFault(made.name, made.fault)
        if made.inventory is not None or made.fault:
            self._nodes[made.name] = made

    def forget_node(self, name: str) -> None:
        """Remove a node that is gone."""
        self._nodes.pop(name, None)
        self._faults.pop(("node", name), None)

    def see_pod(self, metadata: Metadata, *, running: bool) -> str:
        """Record the present state of a pod; returns the node on which it holds or held slices, empty if none.

        `running` is true if the pod is from the watch of running pods, and false if it is from the watch of other bound
        pods.
        """
        uid = metadata.uid
        before = self.forget_pod(uid, running=running) if uid in self._pods[running] or self._faults else ""
        if not (text := metadata.annotations.get(annotations.GRANT)):
            return before
        try:
            grant = Grant.decode(text)
            if grant.pod != uid:
                raise AnnotationError(f"grant: written for pod {grant.pod[:63]}: void")
        except AnnotationError as error:
            subject = f"{metadata.namespace}/{metadata.name}"
            self._faults["pod", uid] = AnnotationFault(subject, str(error))
            return before
        pod = GrantedPod(
            metadata.namespace, metadata.name, uid, metadata.created, metadata.deleting, running, grant
        )  # fmt: skip
        self._pods[running][uid] = pod
        self._place(uid, grant.node)
        return grant.node

    def forget_pod(self, uid: str, *, running: bool) -> str:
        """Remove a pod that left its watch; returns its node, or an empty text.

        `running` is true for the watch of running pods, and false for the watch of other bound pods.
        """
        self._faults.pop(("pod", uid), None)
        pod = self._pods[running].pop(uid, None)
        if pod is None:
            return ""
        self._place(uid, pod.node)
        return pod.node

    def uids(self, *, running: bool) -> set[str]:
        """Returns the UIDs of the pods in one watch.

        `running` is true for the watch of running pods, and false for the watch of other bound pods.
        """
        return set(self._pods[running])

    def node_names(self) -> set[str]:
        """Returns the names of the nodes that have an inventory, also of those with an unreadable one."""
        return set(self._nodes)

    def node(self, name: str) -> NodeReading | None:
        """Returns the node with its cards; None if neither an inventory nor a grant shows a card.

        A node whose inventory cannot be read is returned with the fault.
        """
        known = self._nodes.get(name) or _NodeCards(name)
        held = _held(self._on_node.get(name, {}).values())
        sizes = _sizes(self._on_node.get(name, {}).values()) if known.inventory is None else {}
        if known.inventory is not None and known.inventory.slices:
            _report(held, known.inventory.slices)
        serving = known.inventory.serving if known.inventory is not None else None
        cards = [
            CardReading(
                name,
                card.uuid,
                card,
                card.mem_mib,
                card.max_slices,
                _ordered(held.pop(card.uuid, ())),
                serving,
            )
            for card in (known.inventory.cards if known.inventory is not None else ())
        ]
        # Slices are also held on cards that the inventory does not show, or no longer shows.
        for uuid, slices in sorted(held.items()):
            size = sizes.get(uuid, CardSize(0, 0))
            cards.append(CardReading(name, uuid, None, size.mem_mib, size.max_slices, _ordered(slices)))
        if not cards and not known.fault:
            return None
        return NodeReading(name, serving, tuple(cards), known.fault, known.notes)

    def reading(
        self, missing: Iterable[MissingRight] = (), namespace: str = "", *, selected: bool = False
    ) -> ClusterReading:
        """Returns a reading of all that is known.

        `missing` (the rights that the caller lacks) and `namespace` become fields of the reading. If nodes were
        `selected`, other nodes are left out, even if pods hold slices there.
        """
        names = sorted(self._nodes if selected else self._nodes.keys() | self._on_node.keys())
        read = {name: node for name in names if (node := self.node(name)) is not None}
        pods = [pod for on_node in self._on_node.values() for pod in on_node.values()]
        faults = tuple(sorted(self._faults.values(), key=lambda fault: fault.subject))
        return ClusterReading(read, pods, faults, tuple(missing), namespace)

    def _node_cards(self, metadata: Metadata) -> _NodeCards:
        kept, name = metadata.annotations, metadata.name
        if not (text := kept.get(annotations.CARDS)):
            return _NodeCards(name)
        node = Node(name, cordoned=kept.get(annotations.CORDONED, ""))
        notes = read_notes(kept.get(annotations.CORDON_NOTES, ""))
        try:
            inventory = Inventory.decode(text).cordon(node.cordons())
        except AnnotationError as error:
            return _NodeCards(name, fault=str(error))
        return _NodeCards(name, inventory, notes=notes)

    def _place(self, uid: str, node: str) -> None:
        """Record the pod on its node as the watches show the pod now, or remove the pod if no watch shows it."""
        pod = self._pods[True].get(uid) or self._pods[False].get(uid)
        if pod is not None:
            self._on_node.setdefault(node, {})[uid] = pod
        elif (on_node := self._on_node.get(node)) is not None:
            on_node.pop(uid, None)
            if not on_node:
                del self._on_node[node]


_NAME = itemgetter(0, 1, 2)
_Held = dict[str, list[CardHolder]]
"""Holders of slices, by uuid of the card."""


def _held(pods: Iterable[GrantedPod]) -> _Held:
    found: _Held = {}
    for pod in pods:
        for container, slices in pod.grant.containers.items():
            for part in slices:
                holder = CardHolder(
                    pod.namespace, pod.name, container, pod.uid, part, pod.created, pod.running, pod.deleting
                )
                found.setdefault(part.card, []).append(holder)
    return found


def _sizes(pods: Iterable[GrantedPod]) -> Mapping[str, CardSize]:
    """Returns the sizes of cards by uuid, from the pods' grants."""
    return {uuid: size for pod in pods for uuid, size in pod.grant.cards.items()}


def _report(held: _Held, reports: Iterable[ReportedSlice]) -> None:
    """Set on each holder the state that the node's agent reports, and add holders whose pods are gone (OUTLIVING)."""
    for report in reports:
        for part in report.slices:
            found = held.setdefault(part.card, [])
            for index, holder in enumerate(found):
                if (holder.uid, holder.container) == (report.pod, report.container):
                    found[index] = holder._replace(state=report.state)
                    break
            else:
                if report.state is SliceState.OUTLIVING:
                    found.append(
                        CardHolder(
                            report.namespace, report.pod_name, report.container, report.pod, part,
                            running=False, state=report.state,
                        )
                    )  # fmt: skip


def _ordered(holders: Sequence[CardHolder]) -> tuple[CardHolder, ...]:
    return tuple(sorted(holders, key=_NAME) if len(holders) > 1 else holders)
