"""`vgpu cordon CARD`: it gets no new slices, and who holds slices of it keeps them.

    vgpu cordon GPU-1122334455000001

It stands in the annotation vgpu.io/cordoned of the card's node, so it outlives every restart.
"""

import argparse
from collections.abc import Sequence

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import caller
from device_plugin.core import annotations
from device_plugin.core.cards import Inventory, card_list
from device_plugin.core.errors import AnnotationError, VgpuError
from device_plugin.core.pods import Node

# Somebody else may write the same annotation between our read and our write.
TRIES = 5


class CordonError(VgpuError):
    """It cannot be done as asked."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words that follow `vgpu cordon`."""
    parser.add_argument("card", metavar="CARD", help="uuid of the card, as /explain shows it")
    caller.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Let the card get no new slices. Raises CordonError, KubeError, EndpointError."""
    with caller.connected(args) as client:
        write(client, args.card, cordoned=True)
    return 0


def write(client: KubeClient, card: str, *, cordoned: bool) -> None:
    """Cordon the card or not, and say so. Raises CordonError, KubeError."""
    for _ in range(TRIES):
        node = _node(client.list_nodes(), card)
        before = card_list(node.cordoned)
        after = before | {card} if cordoned else before - {card}
        if after == before:
            print(f"{card} on {node.name} is {'cordoned' if cordoned else 'in service'}")
            return
        client.annotate_node(node.name, {annotations.CORDONED: ",".join(sorted(after)) or None})
    raise CordonError(f"somebody else keeps writing {annotations.CORDONED} of node {node.name}: try again")


def _node(nodes: Sequence[Node], card: str) -> Node:
    for node in nodes:
        try:
            cards = Inventory.decode(node.inventory).cards if node.inventory else ()
        except AnnotationError:
            cards = ()
        # A card that its node shows no more can still be taken off the list.
        if card in {known.uuid for known in cards} | card_list(node.cordoned):
            return node
    raise CordonError(f"no node has a card {card}: see `/explain` for the uuids")
