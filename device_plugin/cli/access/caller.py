"""Access of commands to the cluster, with the kubeconfig and the rights of the caller."""

import argparse
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from getpass import getuser
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import (
    SERVICE_ACCOUNT,
    Endpoint,
    EndpointError,
    context_namespace,
    from_kubeconfig,
    from_settings,
)
from device_plugin.cli.access.names import checked_namespace
from device_plugin.core.pods import Pod
from device_plugin.kube.api import PODS, Kind, Listed, Where
from device_plugin.kube.errors import ApiError, ForbiddenError, GoneError, RefusedError

Item = TypeVar("Item")
COMPONENT = "vgpu-cli"
NAMESPACE = os.environ.get("VGPU_NAMESPACE") or "vgpu-system"
"""The namespace in which vgpu is installed: $VGPU_NAMESPACE, else the namespace that docs/ and manifests/ use."""
WHO_AM_I: Kind[dict[str, Any]] = Kind(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", dict
)
MAY_I: Kind[bool] = Kind(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", bool,
    lambda review: review["status"]["allowed"] is True,
)  # fmt: skip
"""A question to the API server about the caller's rights, decoded to its answer, true or false."""
# Seconds for one call: the list of pods of a large cluster takes seconds.
TIMEOUT_SECONDS = 30.0
# Metadata of a page, as kubectl asks for objects: 2 KiB each, and at most 256 KiB of annotations.
METADATA_ITEMS = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the cluster, and the user in whose name requests are made.

    kubectl does not pass its own options of these names to a plugin.
    """
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, then ~/.kube/config")
    parser.add_argument(
        "--context", metavar="CONTEXT", help="context of the kubeconfig (default: its current one)"
    )
    parser.add_argument("--as", dest="as_user", metavar="USER", help="ask in the name of this user")
    parser.add_argument(
        "--as-group", action="append", metavar="GROUP", help="and of this group; may be written several times"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print details of errors too")


def add_namespace(parser: argparse.ArgumentParser, default: str = "that of the kubeconfig's context") -> None:
    """Add kubectl's option --namespace. The help says that `default` is the namespace used without the option."""
    parser.add_argument("-n", "--namespace", metavar="NAMESPACE", help=f"default: {default}")


def add_namespaces(parser: argparse.ArgumentParser) -> None:
    """Add kubectl's options --namespace and --all-namespaces."""
    add_namespace(parser)
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")


def kubeconfig(args: argparse.Namespace) -> str:
    """Returns the path of the kubeconfig, or several paths with colons between them."""
    # os.path.expanduser never fails; a container's user may have no home.
    return args.kubeconfig or os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")  # noqa: PTH111


def namespace(args: argparse.Namespace) -> str:
    """Returns the namespace that the command works in. Raises ObjectNameError, EndpointError.

    It is the namespace of the option -n. Without -n it is the pod's namespace if the command uses the service account
    of the pod in which it runs, else the namespace of the kubeconfig's context.
    """
    if args.namespace:
        return checked_namespace(args.namespace)
    if _in_pod(args):
        file = SERVICE_ACCOUNT / "namespace"
        try:
            return file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise EndpointError(f"{file}: {error.strerror}: name a namespace with -n") from error
    return context_namespace(kubeconfig(args), args.context or "")


def kubectl_words(args: argparse.Namespace) -> Sequence[str]:
    """Returns the options by which kubectl uses the same context and user as this command.

    No option names the kubeconfig: the caller must set $KUBECONFIG for kubectl.
    """
    words = [f"--context={args.context}"] if args.context else []
    words += [f"--as={args.as_user}"] if args.as_user else []
    return [*words, *(f"--as-group={group}" for group in args.as_group or ())]


def kubectl_line(args: argparse.Namespace, namespace: str, *words: str) -> str:
    """Returns the kubectl command line with `words` in this namespace, as a person types it.

    The line names this command's context and user.
    """
    return shlex.join(["kubectl", *kubectl_words(args), f"--namespace={namespace}", *words])


@contextmanager
def connected(args: argparse.Namespace, timeout: float = TIMEOUT_SECONDS) -> Iterator[KubeClient]:
    """Yields a client for the cluster that the kubeconfig names; closes the client at the end. Raises EndpointError."""
    client = KubeClient(_endpoint(args), COMPONENT, timeout=timeout, metadata_items=METADATA_ITEMS)
    try:
        yield client
    finally:
        client.close()


def _endpoint(args: argparse.Namespace) -> Endpoint:
    inside = _in_pod(args)
    found = from_settings("", "", "", "") if inside else from_kubeconfig(kubeconfig(args), args.context or "")
    return found.impersonating(args.as_user or "", args.as_group or ())


def _in_pod(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> bool:
    """True if no kubeconfig is named or found, and the command runs in a pod with a service account."""
    named = args.kubeconfig or args.context or environ.get("KUBECONFIG")
    return not named and "KUBERNETES_SERVICE_HOST" in environ and not Path(kubeconfig(args)).exists()


def user(client: KubeClient) -> str:
    """Returns the name that the API server has for the caller.

    If the API server gives no name, returns the name of this machine's user, or `unknown` if that has no name.
    """
    with suppress(ApiError, KeyError, TypeError):
        answer = client.create(WHO_AM_I, {"apiVersion": WHO_AM_I.api_version, "kind": WHO_AM_I.name})
        return str(answer["status"]["userInfo"]["username"])
    with suppress(KeyError, OSError):  # a container's user may have no name
        return getuser()
    return "unknown"


def may_follow(client: KubeClient, kind: Kind[Any], namespace: str) -> bool:
    """True if the caller may list and watch objects of a kind in this namespace (empty: in all). Raises ApiError.

    The API server is asked only for the caller's rights, and lists no objects. All authenticated users may ask for
    their own rights (ClusterRole system:basic-user).
    """
    asked = {"group": kind.group, "version": kind.version, "resource": kind.plural, "namespace": namespace}
    head = {"apiVersion": MAY_I.api_version, "kind": MAY_I.name}
    return all(
        client.create(MAY_I, {**head, "spec": {"resourceAttributes": {**asked, "verb": verb}}})
        for verb in ("list", "watch")
    )


def list_unless_forbidden(client: KubeClient, kind: Kind[Item], where: Where) -> Listed[Item] | None:
    """Returns the objects, or None if the caller may not list them. Raises ApiError for other problems."""
    try:
        return client.list(kind, where)
    except ForbiddenError:
        return None


def evict(client: KubeClient, pod: Pod, *, dry: bool = False) -> str:
    """Evict a pod; returns the reason if a PodDisruptionBudget forbids the eviction, else an empty text.

    With `dry` nothing is evicted: the API server only says whether the eviction is allowed. The text is also empty if
    the pod is gone. Raises ApiError for other refusals.
    """
    try:
        client.evict(pod, dry=dry)
    except GoneError:
        return ""
    except RefusedError as error:
        if error.status != HTTPStatus.TOO_MANY_REQUESTS:
            raise
        return str(error)
    return ""


def still_there(client: KubeClient, pod: Pod) -> bool:
    """True while the pod exists and has not ended."""
    try:
        now = client.get(PODS, pod)
    except GoneError:
        return False
    return now.uid == pod.uid and not now.ended


def named(pod: Pod) -> str:
    """Returns namespace and name, such as `default/notebook`."""
    return f"{pod.namespace}/{pod.name}"
