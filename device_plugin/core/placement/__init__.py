"""Where a request goes.

`table` has all cards as arrays, `fit` says what fits, `policies` which of it is best, `cache` keeps their scores,
`workload`, `fill` and `fragmentation` what pods to come will need, and `place` decides, or says why not (`refusal`).
"""

from device_plugin.core.placement.place import Placer
from device_plugin.core.placement.policies import POLICIES
from device_plugin.core.placement.refusal import Refusal, Refused

__all__ = ["POLICIES", "Placer", "Refusal", "Refused"]
