"""Placement: choose the node and the cards for a request.

- `table` holds all cards as arrays, and `fit` finds the cards that a request fits.
- `policies` score these cards, and `cache` keeps the scores.
- `workload`, `fill` and `fragmentation` estimate the needs of later pods.
- `place` decides.
- `refusal` finds the reasons if a request fits nowhere, `groups` divides the refusing nodes by reason, and `smaller`
  finds smaller requests that would fit.

Words of this package:

- The shape of a request is its part that decides where it fits best. (The shape of an array is written as in numpy.)
- Cards of one kind have equal family, model and size. An untouched card or node has no slice held.
- The idle share of a card is the smaller of its free shares of memory and core groups.
- A look is the cost of comparing a request with one card.
- A row of a table is a node; its position is the number of the row. The layout is the assignment of rows to nodes. The
  stamp of a row grows with each change of the row.
"""

from device_plugin.core.placement.place import Placer
from device_plugin.core.placement.policies import POLICIES
from device_plugin.core.placement.refusal import Refusal, Refused

__all__ = ["POLICIES", "Placer", "Refusal", "Refused"]
