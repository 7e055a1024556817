"""`vgpu cordon CARD`: the card gets no new slices; pods that hold slices of it keep them.

    vgpu cordon GPU-1122334455000001
    vgpu cordon gpu-1/0000:19:00.0

The cordon is written into the annotation vgpu.io/cordoned of the card's node, so it outlives every restart. `vgpu
uncordon` ends it.
"""

import argparse

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import caller, targets
from device_plugin.cli.targets import NodeCard
from device_plugin.core import annotations
from device_plugin.core.card_names import unique
from device_plugin.core.cards import card_list
from device_plugin.core.errors import VgpuError
from device_plugin.kube.api import NODES, Ref

# Tries: another program may write the annotation between our read and our write.
TRIES = 5


class CordonError(VgpuError):
    """The card cannot be cordoned or drained; the text gives the reason."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `vgpu cordon`."""
    parser.add_argument(
        "card", metavar="[NODE/]CARD",
        help="uuid of the card, as /explain shows it, or its PCI address; with its node if several cards share that",
    )  # fmt: skip
    caller.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Let the card get no new slices. Raises CardError, CordonError, ApiError, EndpointError."""
    with caller.connected(args) as client:
        write(client, found(client, args.card), cordoned=True)
    return 0


def found(client: KubeClient, card: str) -> NodeCard:
    """The card that the command names. Raises CardError, ApiError."""
    return targets.find(client.list(NODES).items, card)


def write(client: KubeClient, target: NodeCard, *, cordoned: bool) -> None:
    """Cordon or uncordon the card, on its own node only, and print the result. Raises CordonError, ApiError."""
    node = target.node
    for _ in range(TRIES):
        if (target.uuid in node.cordons()) == cordoned:
            print(f"{target.uuid} on {node.name} is {'cordoned' if cordoned else 'in service'}")
            return
        others = {each for each in card_list(node.cordoned) if unique(each, node.name) != target.uuid}
        after = others | {target.known_as} if cordoned else others
        value = ",".join(sorted(after)) or None
        client.patch(NODES, Ref(node.name), {"metadata": {"annotations": {annotations.CORDONED: value}}})
        node = client.get(NODES, Ref(node.name))
    raise CordonError(
        f"another program keeps writing annotation {annotations.CORDONED} of node {node.name}: try again"
    )
