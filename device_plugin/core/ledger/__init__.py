"""The ledger: which holder has which slices of every card, and amounts of hosts, with transactions and snapshots."""

from device_plugin.core.ledger.holdings import Holding, Reservation, Stage
from device_plugin.core.ledger.ledger import Ledger
from device_plugin.core.ledger.snapshot import Snapshot
from device_plugin.core.ledger.states import CardState, NodeState
from device_plugin.core.ledger.transaction import Transaction
from device_plugin.core.ledger.view import CardPart, Conflict

__all__ = [
    "CardPart",
    "CardState",
    "Conflict",
    "Holding",
    "Ledger",
    "NodeState",
    "Reservation",
    "Snapshot",
    "Stage",
    "Transaction",
]  # fmt: skip
