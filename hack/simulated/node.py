"""`vgpu node` for simulated cards; the setting `root` is a folder made by `vgpu simulate build`."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from device_plugin.wiring import node_command

if TYPE_CHECKING:
    from device_plugin.wiring.node import Host
    from device_plugin.wiring.settings import NodeSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each setting."""
    node_command.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the agent until it is stopped. Raises SettingsError before anything is started."""
    return node_command.run(args, host)


def host(settings: "NodeSettings") -> "Host":
    """The product's host interface, with the simulated machine below `root` in place of the real one."""
    from device_plugin.wiring.node import host as real
    from hack.simulated.cards import SimulatedMachine

    return replace(real(settings), machine=SimulatedMachine(Path(settings.root)))
