"""The ledger: which holder has which slices of every card, and which amounts of every host.

It has transactions, which can be rolled back, and snapshots, which readers use without the lock.
"""

from device_plugin.core.ledger.holdings import (
    Holder,
    Holding,
    PromiseHolder,
    ReportHolder,
    Reservation,
    ReservationStage,
)
from device_plugin.core.ledger.ledger import Ledger, Transaction
from device_plugin.core.ledger.states import CardState, NodeState
from device_plugin.core.ledger.view import CardPart, Conflict, Followed, Snapshot

__all__ = [
    "CardPart",
    "CardState",
    "Conflict",
    "Followed",
    "Holder",
    "Holding",
    "Ledger",
    "NodeState",
    "PromiseHolder",
    "ReportHolder",
    "Reservation",
    "ReservationStage",
    "Snapshot",
    "Transaction",
]  # fmt: skip
