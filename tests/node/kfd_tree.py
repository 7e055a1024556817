"""The KFD's figures of processes of the machine at `root`. The driver lists none until the test writes one."""

from pathlib import Path

from device_plugin.node.vendors.local_card import LocalCard
from vgpu_runtime import sim
from vgpu_runtime.sim.processes import PROCESSES


class KfdTree:
    """Written by the test."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.folder = root / PROCESSES

    def use(
        self, process: int, card: LocalCard, mib: int = 0, queues: int = 0, busy: int | None = None
    ) -> None:
        """Write that the process has the driver open, and uses the card."""
        sim.set_process(self._root, process, card.card.uuid, mib, queues, busy)
