"""A transaction: changes to a ledger that count from the moment they are made, and are taken back unless committed."""

from types import TracebackType
from typing import TYPE_CHECKING

from device_plugin.core.ledger.holdings import Holding
from device_plugin.core.ledger.states import NodeState

if TYPE_CHECKING:
    from device_plugin.core.ledger.ledger import Ledger


class Transaction:
    """A context manager over all changes to a ledger from here on; `commit` keeps them.

    Transactions nest: what an inner one keeps is taken back with the outer one. `nodes`, `holdings`, `gained` and
    `freed` are what the ledger had of what was changed since.
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
        """Begin."""
        self._ledger.begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Keep what was committed, take back the rest; after an error all is taken back."""
        self._ledger.end(self, keep=self._committed and error is None)
