"""The measured loads of cards. Stale loads are removed; then placement counts only the grants on the card."""

from collections import OrderedDict
from collections.abc import Callable, Mapping

from device_plugin.core.ledger import Ledger
from device_plugin.core.loads import Load, Loads


class MeasuredLoads:
    """Holds the loads that nodes reported in the last `stale` seconds.

    Callers hold the cluster view's lock; only `age` needs none.
    """

    def __init__(self, ledger: Ledger, stale: float, clock: Callable[[], float]) -> None:
        self.loads = Loads()
        self._ledger = ledger
        self._stale = stale
        self._clock = clock
        # By node: the time of its last measurement, the oldest first.
        self._at: OrderedDict[str, float] = OrderedDict()

    def put(self, node: str, loads: Mapping[str, Load]) -> None:
        """Store the loads, by card, that a node's agent has just reported; ignored if the node has no inventory."""
        state = self._ledger.node(node)
        if state is not None:
            self.loads.put(state, loads)
            self._at[node] = self._clock()
            self._at.move_to_end(node)

    def expire(self) -> None:
        """Remove the loads of nodes that were measured more than `stale` seconds ago."""
        now = self._clock()
        while self._at and now - next(iter(self._at.values())) > self._stale:
            self.loads.drop(self._at.popitem(last=False)[0])

    def age(self, node: str) -> float | None:
        """Seconds since the node was measured; None without a recent measurement."""
        at = self._at.get(node)
        age = None if at is None else self._clock() - at
        return age if age is not None and age <= self._stale else None
