"""Measured loads of cards, kept until they are stale; after that the ledger alone tells."""

from collections import OrderedDict
from collections.abc import Callable, Mapping

from device_plugin.core.ledger import Ledger
from device_plugin.core.loads import Load, Loads


class Measured:
    """Nodes that were measured within the last `stale` seconds. Callers hold the ledger's lock, but for `age`."""

    def __init__(self, ledger: Ledger, stale: float, clock: Callable[[], float]) -> None:
        self.loads = Loads()
        self._ledger = ledger
        self._stale = stale
        self._clock = clock
        # The oldest first.
        self._at: OrderedDict[str, float] = OrderedDict()

    def put(self, node: str, loads: Mapping[str, Load]) -> None:
        """The node's agent has said this of its cards just now."""
        state = self._ledger.node(node)
        if state is not None:
            self.loads.put(state, loads)
            self._at[node] = self._clock()
            self._at.move_to_end(node)

    def expire(self) -> None:
        """Drop stale loads."""
        now = self._clock()
        while self._at and now - next(iter(self._at.values())) > self._stale:
            self.loads.drop(self._at.popitem(last=False)[0])

    def age(self, node: str) -> float | None:
        """Seconds since the node was measured; None if the ledger alone tells."""
        at = self._at.get(node)
        age = None if at is None else self._clock() - at
        return age if age is not None and age <= self._stale else None
