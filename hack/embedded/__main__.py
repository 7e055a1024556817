"""`vgpu` in the one-machine cluster: its node agent uses simulated cards, and process groups in place of cgroups."""

import sys

from device_plugin.wiring.commands import main

if __name__ == "__main__":
    sys.exit(main(more=(("node", "run the node agent of a stand-in's node", "hack.embedded.node"),)))
