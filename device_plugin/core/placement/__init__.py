"""Where a request goes: `fit` on a card, an index over all cards, a placement policy, and `Placer.place`."""

from device_plugin.core.placement.place import POLICIES, Placer
from device_plugin.core.placement.refusal import Refusal, Refused

__all__ = ["POLICIES", "Placer", "Refusal", "Refused"]
