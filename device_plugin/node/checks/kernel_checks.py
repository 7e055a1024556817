"""Kernel checks: the kernel's figures of the cards are read every few seconds, and compared with the slices."""

from device_plugin.node.checks.kernel_figures import KernelFigures
from device_plugin.node.checks.unaccounted import UnaccountedMemory
from device_plugin.node.checks.unenforced import UnenforcedSlices

# Seconds between two looks: often enough to be sure of something within 30 s, seldom enough to cost nothing.
LOOK_SECONDS = 5.0


class KernelChecks:
    """Reads `figures`, then has `unaccounted` and `unenforced` compare them. Call `step` every LOOK_SECONDS."""

    def __init__(
        self, figures: KernelFigures, unaccounted: UnaccountedMemory, unenforced: UnenforcedSlices
    ) -> None:
        self._figures = figures
        self._unaccounted = unaccounted
        self.unenforced = unenforced

    def step(self) -> None:
        """Read and compare the figures."""
        self._figures.look()
        self._unaccounted.step()
        self.unenforced.step()
