"""`vgpu` in the image for simulated cards: the product's commands, with `node` for simulated cards, and `simulate`."""

import sys

from device_plugin.wiring.commands import main

SIMULATE = ("simulate", "cards for a node that has none, for trying and testing", "hack.simulated.command")
COMMANDS = (("node", "run the node agent on simulated cards", "hack.simulated.node"), SIMULATE)

if __name__ == "__main__":
    sys.exit(main(more=COMMANDS))
