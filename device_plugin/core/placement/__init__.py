"""Placement: choose the node and the cards for a request.

`table` holds all cards as arrays, `fit` finds the cards that a request fits, `policies` score them, `cache` keeps the
scores, `workload`, `fill` and `fragmentation` estimate what later pods will need, `place` decides, `refusal` finds the
reasons where a request fits nowhere, `groups` divides these by nodes, and `smaller` finds what would fit.
"""

from device_plugin.core.placement.place import Placer
from device_plugin.core.placement.policies import POLICIES
from device_plugin.core.placement.refusal import Refusal, Refused

__all__ = ["POLICIES", "Placer", "Refusal", "Refused"]
