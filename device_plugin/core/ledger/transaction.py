"""A transaction: changes to a ledger that take effect at once, and are rolled back at its end unless committed."""

from types import TracebackType
from typing import TYPE_CHECKING

from device_plugin.core.ledger.holdings import Holding
from device_plugin.core.ledger.states import NodeState

if TYPE_CHECKING:
    from device_plugin.core.ledger.ledger import Ledger


class Transaction:
    """A context manager that rolls back all changes to the ledger made inside it, unless `commit` is called.

    Transactions nest: changes that an inner one commits are rolled back with the outer one. `nodes`, `holdings`,
    `gained` and `freed` are the ledger's values from before the changes.
    """

    def __init__(self, ledger: "Ledger") -> None:
        self._ledger = ledger
        self.nodes: dict[str, NodeState | None] = {}
        self.holdings: dict[str, Holding | None] = {}
        self.gained, self.freed = ledger.gained, ledger.freed
        self._committed = False

    def commit(self) -> None:
        """Keep all changes when the transaction ends."""
        self._committed = True

    def __enter__(self) -> "Transaction":
        self._ledger.begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Keep committed changes, roll back others; after an error all are rolled back."""
        self._ledger.end(self, keep=self._committed and error is None)
