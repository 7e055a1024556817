"""The resource prefixes whose cards a command counts: those of --prefixes, else those of the cluster service.

The cluster service's Deployment names them. A caller who may not read it gets KNOWN.
"""

import argparse
from collections.abc import Sequence
from http import HTTPStatus

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.core.errors import VgpuError
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.kube.api import Kind, Object, Ref
from device_plugin.kube.errors import GoneError, RefusedError

# The families that docs/install.md names.
KNOWN = (*DEFAULT_PREFIXES, "amd.com/gpu", "nvidia.com/gpu")
NAMESPACE, DEPLOYMENT = "vgpu-system", "vgpu-cluster"
# The variable of manifests/base/cluster/deployment.yaml, and most of its prefixes that are read.
VARIABLE, MOST = "FAMILIES", 64


class PrefixError(VgpuError):
    """--prefixes names no resource, or --prefix no cards of the installation."""


def families_of(deployment: Object) -> tuple[str, ...]:
    """The prefixes that a Deployment of the cluster service names; none if it names none."""
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        for variable in container.get("env") or ():
            if variable["name"] == VARIABLE and variable.get("value"):
                return _split(str(variable["value"]))[:MOST]
    return ()


def _split(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


INSTALLED: Kind[tuple[str, ...]] = Kind("apps", "v1", "deployments", "Deployment", tuple, families_of)
"""Deployments, read as the resource prefixes that they name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option --prefixes."""
    parser.add_argument(
        "--prefixes", metavar="P,P",
        help=f"resource prefixes of cards (default: the installation's; where you may not read it, {','.join(KNOWN)})",
    )  # fmt: skip


def of(client: KubeClient, args: argparse.Namespace, namespace: str = NAMESPACE) -> Sequence[str]:
    """The prefixes; `namespace` is that of the cluster service. Raises PrefixError, ApiError."""
    if args.prefixes is not None:
        given = _split(args.prefixes)
        if unnamed := [prefix for prefix in given if not all(prefix.partition("/"))]:
            raise PrefixError(f"--prefixes: {unnamed[0]!r} names no resource: write {DEFAULT_PREFIXES[0]}")
        return given
    return installed(client, namespace) or KNOWN


def installed(client: KubeClient, namespace: str = NAMESPACE) -> Sequence[str]:
    """The prefixes of the installation; none if it names none, or if the caller may not read it. Raises ApiError."""
    try:
        return client.get(INSTALLED, Ref(DEPLOYMENT, namespace))
    except GoneError:
        return ()
    except RefusedError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return ()
