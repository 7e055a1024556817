"""The ledger as the job engine reads it, and the nodes on which pods with cards may run."""

from collections.abc import Sequence

from device_plugin.core.batch import Job
from device_plugin.core.ledger import Holding, Ledger, Snapshot
from device_plugin.core.node_constraints import NodeIndex
from device_plugin.core.placement.fit import size_on
from device_plugin.core.requests import Request
from device_plugin.state.nodes import KnownNodes
from device_plugin.state.records import beneficiary
from device_plugin.state.view import ClusterView


class ViewedHoldings:
    """Gives the job engine the cluster's ledger, and the nodes on which pods with cards may run."""

    def __init__(self, view: ClusterView, nodes: KnownNodes) -> None:
        self._view = view
        self._nodes = nodes

    def why_not_synced(self) -> str:
        """The kinds of objects that were not listed yet, as text; empty if all were."""
        return self._view.why_not_synced()

    def snapshot(self) -> Snapshot:
        """A snapshot of the present ledger; promises (slices kept for jobs) whose time is over are ended first."""
        self._view.expire()
        return self._view.snapshot()

    def nodes(self) -> NodeIndex:
        """The nodes with cards, to be matched with the constraints of pods."""
        return self._nodes.index()

    def release_promised(self, job: Job, ledger: Ledger) -> Sequence[Holding]:
        """Release the slices kept for this job or its group, in a copy of the ledger; returns the released holdings."""
        with self._view.lock:
            return self._view.promises.slices.release(beneficiary(job), ledger)

    def share(self, asked: Request) -> float:
        """The share of a card that a slice takes, 0 to 1: the larger of its shares of memory and core groups.

        It is computed for the first known card that is large enough for the slice; 1 if there is none.
        """
        for inventory in self._view.snapshot().inventories().values():
            for card in inventory.cards:
                if card.family == asked.family and (size := size_on(card, asked)) is not None:
                    return max(size.mem_mib / card.mem_mib, size.cores / card.core_groups)
        return 1.0
