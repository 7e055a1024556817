"""`vgpu cluster`: run the cluster service, next to its kube-scheduler.

    vgpu cluster --config cluster.yaml
    VGPU_POD_NAME=vgpu-cluster-1 vgpu cluster --reservation-seconds 30

A flag beats an environment variable (VGPU_RESERVATION_SECONDS), which beats the file (reservationSeconds), which
beats the default.
"""

import argparse
import os

from device_plugin.wiring.commands import run_service
from device_plugin.wiring.setting_sources import add_flags, load, require
from device_plugin.wiring.settings import ClusterSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one flag for each setting."""
    parser.usage = "vgpu cluster [--config FILE] [--SETTING VALUE]..."
    add_flags(parser, ClusterSettings)


def run(args: argparse.Namespace) -> int:
    """Run the cluster service until it is stopped. Raises SettingsError before anything is started."""
    loaded = load(ClusterSettings, vars(args), os.environ)
    require(loaded.pod_name, "podName")
    from device_plugin.wiring.cluster import run as serve

    return run_service(lambda stop: serve(loaded, stop))
