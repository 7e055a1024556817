"""`vgpu node`: the node agent. A flag beats an environment variable, which beats the file, which beats the default."""

import argparse
import os

from device_plugin.wiring import settings
from device_plugin.wiring.commands import run_service


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One flag for each setting."""
    settings.add_flags(parser, settings.NodeSettings)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop. Raises SettingsError before anything is started."""
    loaded = settings.load(settings.NodeSettings, vars(args), os.environ)
    settings.require(loaded.node_name, "nodeName")
    from device_plugin.wiring.node import run as serve

    return run_service(lambda stop: serve(loaded, stop))
