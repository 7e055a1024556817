"""`vgpu node`: run the node agent.

    vgpu node --config node.yaml
    VGPU_NODE_NAME=gpu-1 vgpu node --mem-unit-mib 512

A flag beats an environment variable (VGPU_MEM_UNIT_MIB), which beats the file (memUnitMiB), which beats the default.
"""

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from device_plugin.wiring.commands import run_service
from device_plugin.wiring.setting_sources import add_flags, load, require
from device_plugin.wiring.settings import NodeSettings

if TYPE_CHECKING:
    from device_plugin.wiring.node import Host


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one flag for each setting."""
    parser.usage = "vgpu node [--config FILE] [--SETTING VALUE]..."
    add_flags(parser, NodeSettings)


def run(args: argparse.Namespace, host: "Callable[[NodeSettings], Host] | None" = None) -> int:
    """Run the node agent until it is stopped; `host` returns its host, by default the real one.

    Raises SettingsError before anything is started.
    """
    loaded = load(NodeSettings, vars(args), os.environ)
    require(loaded.node_name, "nodeName")
    from device_plugin.wiring import node

    return run_service(lambda stop: node.run(loaded, stop, host or node.host))
