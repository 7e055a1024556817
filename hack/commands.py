"""The commands that a development install adds to `vgpu`; hack/pyproject.toml declares them."""

from hack.simulated.__main__ import SIMULATE

COMMANDS = (
    ("demo", "a cluster on this machine, with simulated cards", "hack.demo.command"),
    ("bench", "measure placement", "hack.bench.command"),
    SIMULATE,
)
