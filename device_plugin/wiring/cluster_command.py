"""`vgpu cluster`: the cluster service. A flag beats an environment variable, then comes the file, then the default."""

import argparse
import os

from device_plugin.wiring import settings
from device_plugin.wiring.commands import run_service


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One flag for each setting."""
    settings.add_flags(parser, settings.ClusterSettings)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop. Raises SettingsError before anything is started."""
    loaded = settings.load(settings.ClusterSettings, vars(args), os.environ)
    settings.require(loaded.pod_name, "podName")
    from device_plugin.wiring.cluster import run as serve

    return run_service(lambda stop: serve(loaded, stop))
