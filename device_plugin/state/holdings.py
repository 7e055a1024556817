"""The ledger of the cluster's view as the job engine reads it, and the nodes where constraints let pods go."""

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
    """Reads the ledger of the allocator's view of the cluster, and knows where constraints let pods go."""

    def __init__(self, view: ClusterView, nodes: KnownNodes) -> None:
        self._view = view
        self._nodes = nodes

    def why_not_synced(self) -> str:
        """The kinds of objects that were not listed yet, as text."""
        return self._view.why_not_synced()

    def snapshot(self) -> Snapshot:
        """The ledger as it is now, without what has expired."""
        self._view.expire()
        return self._view.snapshot()

    def nodes(self) -> NodeIndex:
        """The nodes with cards as the constraints of pods see them."""
        return self._nodes.index()

    def release_promised(self, job: Job, ledger: Ledger) -> Sequence[Holding]:
        """Release, in a fork of the ledger, what is promised to this job or its group; returns what was held for it."""
        with self._view.lock:
            return self._view.promises.slices.release(beneficiary(job.queued), ledger)

    def share(self, asked: Request) -> float:
        """The part of a card that a slice takes: the larger of its shares of memory and core groups.

        It is 1 where no card is known that has as much.
        """
        for inventory in self._view.snapshot().inventories().values():
            for card in inventory.cards:
                if card.family == asked.family and (size := size_on(card, asked)) is not None:
                    return max(size.mem_mib / card.mem_mib, size.cores / card.core_groups)
        return 1.0
