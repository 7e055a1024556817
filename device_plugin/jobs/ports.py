"""Protocols of the services that the job engine uses besides the API server; `wiring` connects the adapters."""

from collections.abc import Sequence
from typing import Protocol

from device_plugin.core.batch import Job
from device_plugin.core.ledger import Holding, Ledger, Snapshot
from device_plugin.core.node_constraints import NodeIndex


class Holdings(Protocol):
    """Reads the ledger of the cluster: which pods, outliving containers and promises hold slices."""

    def why_not_synced(self) -> str:
        """The kinds of objects that were not listed yet, as text; empty if all were."""

    def snapshot(self) -> Snapshot:
        """A snapshot of the present ledger; the same object until something changes."""

    def nodes(self) -> NodeIndex:
        """The nodes with cards, to compare the constraints of pods with; the same object until something changes."""

    def release_promised(self, job: Job, ledger: Ledger) -> Sequence[Holding]:
        """Release the slices kept for this job or its group, in a copy of the ledger; returns the released holdings."""
