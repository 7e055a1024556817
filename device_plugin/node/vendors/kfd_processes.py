"""The kernel's figures of the processes that have /dev/kfd open, below /sys/class/kfd/kfd/proc.

Layout: Linux, drivers/gpu/drm/amd/amdkfd/kfd_process.c. A process has a folder there from its first open of /dev/kfd
until its memory is gone; the folder's name is its process id in the host's namespace, whoever reads it. Figures of one
card carry the card's gpu_id:

    4711/vram_13261                 bytes of card memory that it has allocated through KFD
    4711/stats_13261/cu_occupancy   compute units that run its waves at this moment; not every generation shows them
    4711/queues/3/gpuid             the card of its queue 3

The files vanish with the process, so each of them may be missing at any time.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from device_plugin.node.vendors.port import Machine, ProcessFigures
from vgpu_runtime.config import MAX_MEM_BYTES

FOLDER = "sys/devices/virtual/kfd/kfd/proc"
# Most queues of a process that are read; a framework has some 8, and the kernel allows 1,024.
QUEUES = 64
# More than any card has: a larger number is no figure.
MAX_UNITS = 1 << 16
_NUMBER = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class KfdCard:
    """A card's numbers in the driver (KFD): `gpu_id`, and `render_minor`, the number of its render node.

    Both numbers may change. `xcc` and `paired` are the rules of the card's masks (core/contract/masks.py).
    """

    gpu_id: int
    render_minor: int
    xcc: int
    paired: bool


class KfdProcesses(ProcessFigures[KfdCard]):
    """Reads the KFD's figures of processes. Safe from any thread."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def processes(self) -> Sequence[int] | None:
        """The host's ids of the processes that have /dev/kfd open, lowest first; None if the driver lists none."""
        try:
            names = self._machine.names(FOLDER)
        except OSError:
            return None
        return sorted(int(name) for name in names if _NUMBER.fullmatch(name))

    def memory(self, process: int, card: KfdCard) -> int | None:
        """Bytes of the card's memory that the process has allocated.

        None if the process is gone or has not used the card.
        """
        return self._figure(f"{process}/vram_{card.gpu_id}", MAX_MEM_BYTES)

    def has_queue(self, process: int, card: KfdCard) -> bool:
        """True if one of the process's first QUEUES queues is on the card."""
        try:
            queues = self._machine.names(f"{FOLDER}/{process}/queues")
        except OSError:
            return False
        first = sorted(queues)[:QUEUES]
        return any(self._figure(f"{process}/queues/{queue}/gpuid", 1 << 32) == card.gpu_id for queue in first)

    def busy_units(self, process: int, card: KfdCard) -> int | None:
        """Compute units of the card that run waves of the process now; None if the driver does not say."""
        return self._figure(f"{process}/stats_{card.gpu_id}/cu_occupancy", MAX_UNITS)

    def _figure(self, path: str, most: int) -> int | None:
        try:
            text = self._machine.text(f"{FOLDER}/{path}").strip()
        except OSError:
            return None
        if not _NUMBER.fullmatch(text):
            return None
        number = int(text)
        return number if number <= most else None
