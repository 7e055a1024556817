"""An immutable view of a ledger at one version: it is read without the ledger's lock, for as long as one likes."""

from collections.abc import Mapping

from device_plugin.core.ledger.holdings import Holding
from device_plugin.core.ledger.states import NodeState
from device_plugin.core.ledger.view import LedgerView


class Snapshot(LedgerView):
    """The records of a ledger at one moment. The ledger replaces its records and never changes them."""

    def __init__(
        self, nodes: Mapping[str, NodeState], holdings: Mapping[str, Holding], unbound: Mapping[str, Holding]
    ) -> None:
        self._nodes = dict(nodes)
        self._holdings = dict(holdings)
        self._unbound = dict(unbound)
