"""Finds the one card that CARD or NODE/CARD names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from device_plugin.core.contract.cards import Card
from device_plugin.core.counted import few_of
from device_plugin.core.errors import AnnotationError, VgpuError
from device_plugin.core.pods import Node

# Most candidates that an error names.
SHOWN = 8


class CardError(VgpuError):
    """The name fits no card, or several.

    Cure: take a name from `vgpu cards` or `vgpu nodes`.
    """


@dataclass(frozen=True, slots=True)
class NodeCard:
    """A card, given by its uuid, with its node."""

    node: Node
    uuid: str

    def __str__(self) -> str:
        """Returns the name as a person writes it: `gpu-1/GPU-1122334455000001`."""
        return f"{self.node.name}/{self.uuid}"


def find(nodes: Sequence[Node], text: str) -> NodeCard:
    """Returns the card that `text` names by uuid or PCI address, or by NODE/ and one of these. Raises CardError.

    NODE is needed if several cards fit. A cordoned card that its node no longer shows is found by its uuid.
    """
    wanted, _, name = text.rpartition("/")
    if not name:
        raise CardError(f"{text!r} names no card: write CARD or NODE/CARD")
    among = [node for node in nodes if node.name == wanted] if wanted else nodes
    if not among:
        raise CardError(f"there is no node {wanted}")
    # The old node of a card that was moved may still list its cordon: the name means the card on its present node.
    found = [*_shown(among, name)] or [*_listed(among, name)]
    if not found:
        where = f"node {wanted} has" if wanted else "no node has"
        lack = "no card" if wanted else "a card"
        raise CardError(f"{where} {lack} {name}: see `vgpu cards` for the uuids")
    if len(found) > 1:
        raise CardError(
            f"{len(found)} cards have the name {name}: write one of {few_of([*map(str, found)], SHOWN)}"
        )
    return found[0]


def _shown(nodes: Sequence[Node], name: str) -> Iterator[NodeCard]:
    for node in nodes:
        for card in _cards(node):
            if name in (card.uuid, card.pci):
                yield NodeCard(node, card.uuid)


def _listed(nodes: Sequence[Node], name: str) -> Iterator[NodeCard]:
    for node in nodes:
        if name in node.cordons():
            yield NodeCard(node, name)


def _cards(node: Node) -> Sequence[Card]:
    try:
        inventory = node.shared()
    except AnnotationError:
        return ()
    return inventory.cards if inventory is not None else ()
