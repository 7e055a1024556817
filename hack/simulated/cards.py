"""A machine of simulated cards: read as a real one is, and brought into the container together with its driver."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from device_plugin.adapters.cards.host import HostMachine
from device_plugin.core.machine import DeviceNode, Mount
from vgpu_runtime.sim import DRIVER, vram

INSIDE = "/opt/vgpu-sim"


class SimulatedMachine(HostMachine):
    """The machine in `folder`, made by `vgpu_runtime.sim.build`. Its driver is loaded after our library: below it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._folder = folder

    def text(self, path: str) -> str:
        """The text of a file. The memory in use is updated first: processes that have ended no longer count."""
        if path.endswith("/mem_info_vram_used"):
            vram.refresh(self._folder)
        return super().text(path)

    def device(self, path: str) -> DeviceNode:
        """A runtime insists on a device; the driver answers in its place, whichever it is."""
        return DeviceNode(f"/{path}", os.devnull)

    def host_file(self, path: str) -> Mount | None:
        """A file or folder of the machine in its folder."""
        found = super().host_file(path)
        return found and replace(found, host=f"{self._folder}{path}")

    def mounts(self) -> Sequence[Mount]:
        """The machine, which the driver reads, and in it the memory account that all processes share."""
        state = Mount(str(self._folder / "state"), f"{INSIDE}/state", read_only=False)
        return [Mount(str(self._folder), INSIDE), state]

    def preloads(self) -> Sequence[str]:
        """The path of the simulated driver in containers."""
        return (f"{INSIDE}/{DRIVER}",)
