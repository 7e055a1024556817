"""Kernel checks: read the kernel's figures of the cards every few seconds, and compare them with the slices."""

from device_plugin.node.checks.driver_slices import DriverSlices
from device_plugin.node.checks.idle_pods import IdlePods
from device_plugin.node.checks.kernel_figures import KernelFigures
from device_plugin.node.checks.slice_history import SliceHistory
from device_plugin.node.checks.unaccounted import UnaccountedMemory
from device_plugin.node.checks.unenforced import UnenforcedSlices

# Seconds between two looks: often enough to be sure of something within 30 s, seldom enough to cost nothing.
LOOK_SECONDS = 5.0


class KernelChecks:
    """Reads the kernel's `figures`, then runs the checks that compare them with the slices.

    Call `step` every LOOK_SECONDS, and `sample` at least once a second.
    """

    def __init__(
        self,
        figures: KernelFigures,
        unaccounted: UnaccountedMemory,
        driver: DriverSlices,
        unenforced: UnenforcedSlices,
        history: SliceHistory,
        idle: IdlePods,
    ) -> None:
        self._figures = figures
        self._unaccounted = unaccounted
        self.driver = driver
        self.unenforced = unenforced
        self.history = history
        self.idle = idle

    def step(self) -> None:
        """Read the figures, then run each check; the checks post their events."""
        self._figures.look()
        self._unaccounted.step()
        self.driver.step()
        self.unenforced.step()
        self.history.look()
        self.idle.step()

    def sample(self) -> None:
        """Note in the history which slices compute at this moment."""
        self.history.sample()
