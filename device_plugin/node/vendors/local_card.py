"""Local cards: the cards of this machine that the agent shares, each with its vendor."""

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from device_plugin.core.contract.cards import Card
from device_plugin.core.enforcement import Enforcement
from device_plugin.node.vendors.port import Vendor


@dataclass(frozen=True, slots=True)
class LocalCard:
    """A card that the agent shares: its `card` in the inventory, its vendor, and the vendor's own `payload`.

    `fault` is the reason why it is unhealthy, empty if it is not. `enforcement` is the mode of its family. An
    `excluded` card gets no new slices, and is shared only until its last slice ends.
    """

    card: Card
    vendor: Vendor[Any]
    payload: Any
    fault: str = ""
    enforcement: Enforcement = Enforcement.OBSERVE
    excluded: bool = False

    def unhealthy(self, fault: str) -> "LocalCard":
        """A copy of the card that is unhealthy because of `fault`."""
        return replace(self, card=msgspec.structs.replace(self.card, healthy=False), fault=fault)
