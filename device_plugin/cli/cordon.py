"""`vgpu cordon CARD`: the card gets no new slices; pods that hold slices of it keep them.

    vgpu cordon GPU-1122334455000001
    vgpu cordon gpu-1/0000:19:00.0 --reason 'fan is replaced on Monday'

The cordon is written into the annotation vgpu.io/cordoned of the card's node, so it outlives every restart. `vgpu
uncordon` ends it. `vgpu cards` shows why, when and by whom a card was cordoned.
"""

import argparse
from datetime import UTC, datetime

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller
from device_plugin.cli.reading import targets
from device_plugin.cli.reading.targets import NodeCard
from device_plugin.core.contract import annotations
from device_plugin.core.contract.cordons import MAX_REASON, CordonNote, read_notes, write_notes
from device_plugin.core.errors import VgpuError
from device_plugin.core.pods import Node
from device_plugin.kube.api import NODES, Metadata, Ref, Where
from device_plugin.kube.errors import ConflictError

# Most tries: another program may write the node between our read and our write.
TRIES = 5


class CordonError(VgpuError):
    """The card cannot be cordoned or drained; the text gives the reason.

    Cure: give the command again once the reason is gone; the steps that were done stay done.
    """


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu cordon`."""
    add_card(parser)
    add_reason(parser)


def add_card(parser: argparse.ArgumentParser) -> None:
    """Add to the parser the argument that names the card, and the options that say how the API server is reached."""
    parser.add_argument(
        "card", metavar="[NODE/]CARD",
        help="uuid of the card, as `vgpu cards` shows it, or PCI address; with its node if several cards share that",
    )  # fmt: skip
    caller.add_arguments(parser)


def add_reason(parser: argparse.ArgumentParser) -> None:
    """Add the option --reason, the text that says why the card is cordoned."""
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="the reason, which `vgpu cards` shows to others"
    )


def note(client: KubeClient, args: argparse.Namespace) -> CordonNote:
    """Returns the note about a cordon: the text of --reason, the caller's name and the present time.

    Raises CordonError for a malformed --reason.
    """
    return note_of(client, args.reason)


def note_of(client: KubeClient, reason: str) -> CordonNote:
    """Returns the note about a cordon: its reason, the caller's name and the present time.

    Raises CordonError for a malformed reason.
    """
    if len(reason) > MAX_REASON or not (reason or "-").isprintable():
        raise CordonError(f"--reason: write at most {MAX_REASON} printable characters")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return CordonNote(reason, caller.user(client)[:MAX_REASON], now)


def run(args: argparse.Namespace) -> int:
    """Cordon the card, and print the result; returns 0. Raises CardError, CordonError, ApiError, EndpointError."""
    with caller.connected(args) as client:
        print(write(client, found(client, args.card), note(client, args)))
    return 0


def found(client: KubeClient, card: str) -> NodeCard:
    """Returns the card that the text `card` names by uuid or PCI address, such as `gpu-1/0000:19:00.0`.

    The card is looked up in the annotations of the nodes. Raises CardError, ApiError.
    """
    name = card.rpartition("/")[0]
    where = Where(fields=f"metadata.name={name}" if name else "")
    return targets.find([_node(each) for each in client.list(NODES.metadata, where).items], card)


def _node(metadata: Metadata) -> Node:
    """Returns the node with its inventory, its cordons and its version."""
    inventory, cordoned, notes = (
        metadata.annotations.get(key, "")
        for key in (annotations.CARDS, annotations.CORDONED, annotations.CORDON_NOTES)
    )
    version = int(metadata.version) if metadata.version.isdecimal() else 0
    return Node(metadata.name, inventory, cordoned=cordoned, cordon_notes=notes, version=version)


def write(client: KubeClient, target: NodeCard, why: CordonNote | None) -> str:
    """Cordon the card if `why` is a note, uncordon it if `why` is None; returns the result as text.

    A card that is cordoned already keeps its note unless `why` has a reason. If another program changes the node
    meanwhile, the node is read and written again, so that the other program's cordons stay. Raises CordonError after
    TRIES such changes; ApiError.
    """
    node, cordoned = target.node, why is not None
    state = "cordoned" if cordoned else "in service"
    for _ in range(TRIES):
        renewed = why is not None and why.reason
        if (target.uuid in node.cordons()) == cordoned and not renewed:
            return f"{target.uuid} on {node.name} is already {state}"
        card = {target.uuid}
        after = node.cordons() | card if cordoned else node.cordons() - card
        notes = {uuid: each for uuid, each in read_notes(node.cordon_notes).items() if uuid in after}
        notes |= {target.uuid: why} if why is not None else {}
        kept = {
            annotations.CORDONED: ",".join(sorted(after)) or None,
            annotations.CORDON_NOTES: write_notes(notes) or None,
        }
        change = {"metadata": {"annotations": kept, "resourceVersion": str(node.version)}}
        try:
            client.patch(NODES, Ref(node.name), change)
        except ConflictError:
            node = client.get(NODES, Ref(node.name))
            continue
        return f"{target.uuid} on {node.name} is {state}"
    raise CordonError(f"other programs keep writing node {node.name}: try again")
