"""An immutable view of the ledger at one version, read without the ledger's lock."""

from collections.abc import Mapping
from functools import cached_property

from device_plugin.core.ledger.holdings import Holding
from device_plugin.core.ledger.states import NodeState
from device_plugin.core.ledger.view import LedgerView


class Snapshot(LedgerView):
    """The records of a ledger at one moment. The ledger replaces its records and never changes them."""

    def __init__(self, nodes: Mapping[str, NodeState], unbound: Mapping[str, Holding]) -> None:
        self._nodes = dict(nodes)
        self._unbound = dict(unbound)

    # Built when first read, because copying 40,000 entries takes too long with the lock held.
    @cached_property
    def _holdings(self) -> Mapping[str, Holding]:  # type: ignore[override]
        return {holder: held for node in self._nodes.values() for holder, held in node.holdings.items()}

    def records(self) -> tuple[Mapping[str, NodeState], Mapping[str, Holding]]:
        """All records of nodes, and the holdings that are reservations or expire."""
        return self._nodes, self._unbound
