"""`vgpu job-engine`: run the job engine.

    vgpu job-engine --config jobs.yaml
    VGPU_POD_NAME=vgpu-jobs-1 vgpu job-engine --lease-namespace vgpu-system

A flag beats an environment variable (VGPU_LEASE_NAMESPACE), which beats the file (leaseNamespace), which beats the
default.
"""

import argparse
import os

from device_plugin.wiring.commands import run_service
from device_plugin.wiring.setting_sources import add_flags, load, require
from device_plugin.wiring.settings import JobsSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one flag for each setting."""
    parser.usage = "vgpu job-engine [--config FILE] [--SETTING VALUE]..."
    add_flags(parser, JobsSettings)


def run(args: argparse.Namespace) -> int:
    """Run the job engine until it is stopped. Raises SettingsError before anything is started."""
    loaded = load(JobsSettings, vars(args), os.environ)
    require(loaded.pod_name, "podName")
    from device_plugin.wiring.jobs import run as serve

    return run_service(lambda stop: serve(loaded, stop))
