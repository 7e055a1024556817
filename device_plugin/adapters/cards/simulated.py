"""Simulated cards: read as real ones are, and brought into the container together with their driver."""

import os
from collections.abc import Sequence
from pathlib import Path

from device_plugin.adapters.cards.kfd import KfdCards
from device_plugin.core.machine import DeviceNode, FoundCard, Mount
from vgpu_runtime.sim import DRIVER, vram

INSIDE = "/opt/vgpu-sim"


class SimulatedCards(KfdCards):
    """The machine in `folder`, made by `vgpu_runtime.sim.build`. Its driver is loaded after our library: below it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._folder = folder

    def used_bytes(self, card: FoundCard) -> int | None:
        """As the kernel would show it, which notices when a process dies."""
        vram.refresh(self._folder)
        return super().used_bytes(card)

    def devices(self, cards: Sequence[FoundCard]) -> Sequence[DeviceNode]:
        """The same paths. Runtimes insist on a device; the driver answers in its place, whichever it is."""
        return [DeviceNode(node.path, os.devnull) for node in super().devices(cards)]

    def extras(self) -> Sequence[Mount]:
        """The machine, which the driver reads, and in it the memory account that all processes share."""
        state = Mount(str(self._folder / "state"), f"{INSIDE}/state", read_only=False)
        return [Mount(str(self._folder), INSIDE), state]

    def preloads(self) -> Sequence[str]:
        """The simulated driver."""
        return (f"{INSIDE}/{DRIVER}",)
