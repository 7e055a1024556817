"""`vgpu node` in the one-machine cluster: it uses simulated cards, and process groups in place of cgroups."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from device_plugin.wiring import node_command
from hack.simulated import node as simulated

if TYPE_CHECKING:
    from device_plugin.wiring.node import Host
    from device_plugin.wiring.settings import NodeSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each setting, and one for the folder of the kubelet stand-in's process groups."""
    node_command.add_arguments(parser)
    parser.add_argument("--process-groups", type=Path, required=True, metavar="DIR")


def run(args: argparse.Namespace) -> int:
    """Run the agent until it is stopped. Raises SettingsError before anything is started."""
    return node_command.run(args, lambda settings: host(settings, args.process_groups))


def host(settings: "NodeSettings", process_groups: Path) -> "Host":
    """The host interface of an agent on a node of the kubelet stand-in."""
    from hack.embedded.runtime.process_groups import LiveGroups

    # The stand-in's containers have no cgroup of a pod, so the host's /proc is not needed.
    return replace(simulated.host(settings), pods=LiveGroups(process_groups), problems=list)
