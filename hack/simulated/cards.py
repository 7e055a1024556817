"""A machine with simulated cards; the agent reads it like a real one, and mounts it and its driver in containers."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from device_plugin.adapters.cards.host import HostMachine
from device_plugin.core.machine import DeviceNode, Mount
from vgpu_runtime.sim import DRIVER, records, vram

INSIDE = "/opt/vgpu-sim"


class SimulatedMachine(HostMachine):
    """The machine in `folder`, made by `vgpu_runtime.sim.build`. Containers load our library first, then its driver."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._folder = folder

    def text(self, path: str) -> str:
        """The text of a file. The file with the memory in use is updated first, without processes that have ended."""
        if path.endswith("/mem_info_vram_used"):
            vram.refresh(self._folder)
        return super().text(path)

    def names(self, folder: str) -> Sequence[str]:
        """The names in a folder. The records of slices are updated first, as the driver keeps them now."""
        if folder == str(records.RECORDS):
            records.refresh(self._folder)
        return super().names(folder)

    def device(self, path: str) -> DeviceNode:
        """A device node for a card: /dev/null, because a runtime needs a device, but the simulated driver answers."""
        return DeviceNode(f"/{path}", os.devnull)

    def host_file(self, path: str) -> Mount | None:
        """The mount of a file or folder of the machine, from its folder."""
        found = super().host_file(path)
        return found and replace(found, host=f"{self._folder}{path}")

    def mounts(self) -> Sequence[Mount]:
        """The mounts of the machine's files, read-only, and of the folder in which the drivers count memory in use."""
        state = Mount(str(self._folder / "state"), f"{INSIDE}/state", read_only=False)
        return [Mount(str(self._folder), INSIDE), state]

    def preloads(self) -> Sequence[str]:
        """The path of the simulated driver in containers."""
        return (f"{INSIDE}/{DRIVER}",)
