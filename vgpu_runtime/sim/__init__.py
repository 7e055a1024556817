"""A machine with simulated cards: `build(load(file), folder)`, then run programs with libsimkfd.so preloaded."""

from vgpu_runtime.sim.cards import PRESETS, SimCard, SpecError, load, number, parse
from vgpu_runtime.sim.drm import set_health
from vgpu_runtime.sim.tree import build

__all__ = ["PRESETS", "SimCard", "SpecError", "build", "load", "number", "parse", "set_health"]
