"""The KFD's figures of processes, as the kernel would write them below a simulated machine."""

from pathlib import Path

from device_plugin.node.discover import LocalCard
from device_plugin.node.vendors.kfd_processes import FOLDER


class KfdTree:
    """Written by the test for the machine at `root`. The driver lists nothing until the tree is made."""

    def __init__(self, root: Path) -> None:
        self.folder = root / FOLDER

    def use(
        self, process: int, card: LocalCard, mib: int = 0, queues: int = 0, busy: int | None = None
    ) -> None:
        """The process has the driver open, and uses the card so much."""
        gpu = card.payload.gpu_id
        self.write(process, f"vram_{gpu}", f"{mib << 20}\n")
        self.write(process, f"sdma_{gpu}", "0\n")
        for queue in range(queues):
            self.write(process, f"queues/{queue}/gpuid", f"{gpu}")
        if busy is not None:
            self.write(process, f"stats_{gpu}/cu_occupancy", f"{busy}\n")

    def write(self, process: int, name: str, text: str) -> None:
        path = self.folder / str(process) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
