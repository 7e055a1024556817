"""The resource prefixes whose cards a command counts: from --prefixes, else from the cluster service's Deployment.

A caller who may not read the Deployment gets KNOWN.
"""

import argparse
from collections.abc import Sequence

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access.caller import NAMESPACE
from device_plugin.cli.reading.allocator_deployment import comma_list, read_allocator
from device_plugin.core.errors import VgpuError
from device_plugin.core.requests import DEFAULT_PREFIXES

# The families that docs/install.md names.
KNOWN = (*DEFAULT_PREFIXES, "amd.com/gpu", "nvidia.com/gpu")


class PrefixError(VgpuError):
    """--prefixes names no resource, or --prefix no cards of the installation."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option --prefixes."""
    parser.add_argument(
        "--prefixes", metavar="P,P",
        help=f"resource prefixes of cards (default: the installation's; where you may not read it, {','.join(KNOWN)})",
    )  # fmt: skip


def of(client: KubeClient, args: argparse.Namespace, namespace: str = NAMESPACE) -> Sequence[str]:
    """Returns the prefixes of --prefixes, else those of the cluster service in `namespace`, else KNOWN.

    Raises PrefixError, ApiError.
    """
    if args.prefixes is not None:
        given = comma_list(args.prefixes)
        if unnamed := [prefix for prefix in given if not all(prefix.partition("/"))]:
            raise PrefixError(f"--prefixes: {unnamed[0]!r} names no resource: write {DEFAULT_PREFIXES[0]}")
        return given
    return read_allocator(client, namespace).prefixes or KNOWN
