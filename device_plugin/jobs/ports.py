"""Protocols of the services that the job engine uses besides the API server; `wiring` connects the adapters."""

from collections.abc import Sequence
from typing import Protocol

from device_plugin.core.batch import Job
from device_plugin.core.ledger import Holding, Ledger, Snapshot
from device_plugin.core.node_constraints import NodeIndex


class Holdings(Protocol):
    """Reads the ledger: what pods that have not ended, containers that outlive their pods, and promises hold."""

    def why_not_synced(self) -> str:
        """The kinds of objects that were not listed yet, as text; empty if all were."""

    def snapshot(self) -> Snapshot:
        """The ledger as it is now; the same object as long as nothing has changed."""

    def nodes(self) -> NodeIndex:
        """The nodes with cards as the constraints of pods see them; the same object as long as nothing has changed."""

    def release_promised(self, job: Job, ledger: Ledger) -> Sequence[Holding]:
        """Release, in a fork of the ledger, what is promised to this job or its group; returns what was held for it."""
