"""Names of cards: unique in the cluster, and unchanged by a reboot or a new installation of the node.

A driver that knows a card's unique id gives a name that is unique in the world (`GPU-1122334455667788`). Where it knows
none, its name is only the card's PCI address (`GPU-0000:19:00.0`), which a card of every other node may have as well.
Then the node's name is put into it (`GPU-gpu-1-0000:19:00.0`): a card in another slot, or a node under another name, is
another card.
"""

import re
from hashlib import sha256

# PCI domain, bus, device and function.
_ADDRESS_ONLY = re.compile(r"GPU-([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
# A node's name may have 253 characters, and so may a text of the contract. A name longer than MAX_NODE is replaced by a
# part of it and a digest of the whole.
MAX_NODE = 63
DIGEST = 16


def unique(name: str, node: str) -> str:
    """The name in the cluster of the card that is called `name` on `node`; a unique name stays as it is."""
    match = _ADDRESS_ONLY.fullmatch(name)
    return f"GPU-{_short(node)}-{match[1]}" if match else name


def _short(node: str) -> str:
    if len(node) <= MAX_NODE:
        return node
    return f"{node[: MAX_NODE - DIGEST - 1]}-{sha256(node.encode()).hexdigest()[:DIGEST]}"
