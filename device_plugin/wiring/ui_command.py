"""`vgpu ui-server`: serve the page for a team.

    vgpu ui-server --config ui.yaml
    VGPU_PUBLIC_URL=https://vgpu.example.com vgpu ui-server

A flag beats an environment variable (VGPU_PUBLIC_URL), which beats the file (publicUrl), which beats the default.
"""

import argparse
import os

from device_plugin.wiring.commands import run_service
from device_plugin.wiring.setting_sources import add_flags, load
from device_plugin.wiring.settings import UiSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one flag for each setting."""
    parser.usage = "vgpu ui-server [--config FILE] [--SETTING VALUE]..."
    add_flags(parser, UiSettings)


def run(args: argparse.Namespace) -> int:
    """Serve the page until the service is stopped. Raises SettingsError before anything is started."""
    loaded = load(UiSettings, vars(args), os.environ)
    from device_plugin.wiring.ui import run as serve

    return run_service(lambda stop: serve(loaded, stop))
