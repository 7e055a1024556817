"""Names of cards: unique in the cluster, and unchanged by a reboot or a new installation of the node.

A driver that knows a card's unique id gives a name that is unique in the world (`GPU-1122334455667788`). A driver that
knows no id gives only the card's PCI address (`GPU-0000:19:00.0`), and cards of other nodes may have the same address.
Then we add the node's name (`GPU-gpu-1-0000:19:00.0`). If such a card moves to another slot, or its node gets another
name, the card gets a new name.
"""

import re
from hashlib import sha256

# PCI domain, bus, device and function.
_ADDRESS_ONLY = re.compile(r"GPU-([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
# Most characters of a node's name in a card's name. A text of the contract may have 253 characters, and a node's name
# alone may have 253. A longer name is cut, and a digest of the whole name is added.
MAX_NODE = 63
DIGEST = 16


def unique(name: str, node: str) -> str:
    """The cluster-wide name of the card that the driver on `node` calls `name`: the node's name is added if needed."""
    match = _ADDRESS_ONLY.fullmatch(name)
    return f"GPU-{_short(node)}-{match[1]}" if match else name


def _short(node: str) -> str:
    if len(node) <= MAX_NODE:
        return node
    return f"{node[: MAX_NODE - DIGEST - 1]}-{sha256(node.encode()).hexdigest()[:DIGEST]}"
