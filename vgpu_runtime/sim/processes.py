"""The figures of processes that the driver (KFD) shows in sysfs, on a simulated machine, as in Linux's kfd_process.c.

The simulated driver does not write these files: it runs in the container's processes, and does not know their numbers
on the host.
"""

import shutil
from pathlib import Path

from vgpu_runtime.sim.tree import TOPOLOGY

PROCESSES = TOPOLOGY.parent / "proc"


def set_process(
    folder: Path, process: int, uuid: str, mib: int, queues: int = 0, busy_units: int | None = None
) -> None:
    """Write the files that show a process, by its number on the host, as a user of the card with this unique id.

    The process has `mib` MiB of memory, `queues` queues and `busy_units` busy compute units. Raises LookupError where
    no card has the id.
    """
    gpu = _gpu_id(folder, uuid)
    own = folder / PROCESSES / str(process)
    figures = {f"vram_{gpu}": f"{mib << 20}\n", f"sdma_{gpu}": "0\n"}
    figures |= {f"queues/{queue}/gpuid": str(gpu) for queue in range(queues)}
    if busy_units is not None:
        figures[f"stats_{gpu}/cu_occupancy"] = f"{busy_units}\n"
    for name, text in figures.items():
        path = own / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")


def end_process(folder: Path, process: int) -> None:
    """Remove the figures of a process that has ended or closed the driver."""
    shutil.rmtree(folder / PROCESSES / str(process), ignore_errors=True)


def _gpu_id(folder: Path, uuid: str) -> int:
    wanted = int(uuid.rpartition("-")[2], 16)
    for node in sorted((folder / TOPOLOGY / "nodes").iterdir()):
        lines = (node / "properties").read_text(encoding="ascii").splitlines()
        if f"unique_id {wanted}" in lines:
            return int((node / "gpu_id").read_text(encoding="ascii"))
    raise LookupError(f"no simulated card has the unique id {uuid}")
