"""A machine with simulated cards: `build(load(file), folder)` makes it; programs run with its driver preloaded."""

from vgpu_runtime.sim.cards import PRESETS, SimCard, SpecError, load, number, parse
from vgpu_runtime.sim.drm import set_busy, set_health
from vgpu_runtime.sim.processes import end_process, set_process
from vgpu_runtime.sim.save_area import Kernel
from vgpu_runtime.sim.tree import CONF_VERSION, DRIVER, add_driver, build

__all__ = [
    "CONF_VERSION",
    "DRIVER",
    "PRESETS",
    "Kernel",
    "SimCard",
    "SpecError",
    "add_driver",
    "build",
    "end_process",
    "load",
    "number",
    "parse",
    "set_busy",
    "set_health",
    "set_process",
]
