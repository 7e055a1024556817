"""Kernel checks: the kernel's figures of the cards are read every few seconds, and compared with the slices."""

import time
from collections.abc import Callable

from device_plugin.node.checks.kernel_figures import KernelFigures
from device_plugin.node.checks.unaccounted import UnaccountedMemory
from device_plugin.node.checks.unenforced import UnenforcedSlices

# Seconds between two looks: often enough to be sure of something within 30 s, seldom enough to cost nothing.
LOOK_SECONDS = 5.0


class KernelChecks:
    """Reads `figures`, then has `unaccounted` and `unenforced` compare them."""

    def __init__(
        self,
        figures: KernelFigures,
        unaccounted: UnaccountedMemory,
        unenforced: UnenforcedSlices,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._figures = figures
        self._unaccounted = unaccounted
        self.unenforced = unenforced
        self._clock = clock
        self._next = clock()

    def step(self) -> None:
        """Read and compare the figures, if LOOK_SECONDS have passed since the last time."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        self._figures.look()
        self._unaccounted.step()
        self.unenforced.step()
