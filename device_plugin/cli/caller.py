"""Access of commands to the cluster, with the kubeconfig and the rights of the caller."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import context_namespace, from_kubeconfig
from device_plugin.core.pods import Pod
from device_plugin.kube.api import PODS
from device_plugin.kube.errors import GoneError, RefusedError

COMPONENT = "vgpu-cli"
# Seconds for one call: the list of pods of a large cluster takes seconds.
TIMEOUT_SECONDS = 30.0
TOO_MANY_REQUESTS = 429


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option --kubeconfig."""
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, then ~/.kube/config")


def add_namespace(parser: argparse.ArgumentParser) -> None:
    """Add the option --namespace, as kubectl has it."""
    parser.add_argument(
        "-n", "--namespace", metavar="NAMESPACE", help="default: that of the kubeconfig's context"
    )


def kubeconfig(args: argparse.Namespace) -> str:
    """The path of the kubeconfig, or several with colons between them."""
    # os.path.expanduser never fails; a container's user may have no home.
    return args.kubeconfig or os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")  # noqa: PTH111


def namespace(args: argparse.Namespace) -> str:
    """The namespace that the caller means. Raises EndpointError."""
    return args.namespace or context_namespace(kubeconfig(args))


@contextmanager
def connected(args: argparse.Namespace) -> Iterator[KubeClient]:
    """A client for the cluster that the kubeconfig names. Raises EndpointError."""
    client = KubeClient(from_kubeconfig(kubeconfig(args)), COMPONENT, timeout=TIMEOUT_SECONDS)
    try:
        yield client
    finally:
        client.close()


def evicted(client: KubeClient, pod: Pod, *, dry: bool = False) -> str:
    """Evict a pod, or with `dry` only try; returns why it stays, or an empty text if it leaves or is gone.

    Raises ApiError for other refusals.
    """
    try:
        client.evict(pod, dry=dry)
    except GoneError:
        return ""
    except RefusedError as error:
        if error.status != TOO_MANY_REQUESTS:
            raise
        return str(error)
    return ""


def still_there(client: KubeClient, pod: Pod) -> bool:
    """True while the pod may have a container."""
    try:
        now = client.get(PODS, pod)
    except GoneError:
        return False
    return now.uid == pod.uid and not now.ended


def named(pod: Pod) -> str:
    """Namespace and name, `default/notebook`."""
    return f"{pod.namespace}/{pod.name}"
