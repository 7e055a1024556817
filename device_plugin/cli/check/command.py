"""`vgpu check`: is the installation sound? Each problem with its cure.

    vgpu check
    vgpu check -o json
    vgpu check --image registry.example/train:1 -- python train.py

It looks at the services, the versions of Kubernetes, the admission policies, the agents of all nodes, their cards,
other device plugins, memory units, annotations that cannot be read, Leases and clocks, and with the component dra at
the serving of ResourceClaims. It changes nothing. Objects that you may not read are `unknown`. A cordoned card is no
problem, but named.

With --image it checks an image instead: does the library limit its programs? It starts a pod of the image without a
slice, and removes it again. In the pod only the loader of the program after -- runs, not the program. Without a program
it checks python3, python and sh.

The exit code is 1 if there is a problem.
"""

import argparse
import json
import time
from dataclasses import asdict
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller
from device_plugin.cli.access.caller import NAMESPACE
from device_plugin.cli.check import image
from device_plugin.cli.check.checks import findings
from device_plugin.cli.check.installation import (
    CheckState,
    Finding,
    Installation,
    allocator_of,
    name_of,
)
from device_plugin.cli.reading.allocator_deployment import REPLICA_LABELS
from device_plugin.cli.reading.reader import ClusterReader, Scope
from device_plugin.core.contract.claims import GROUP
from device_plugin.core.contract.events import Event
from device_plugin.core.printable import printable
from device_plugin.kube.api import (
    AGENT_LABELS,
    EVENTS,
    EVERYWHERE,
    NODES,
    PODS,
    Kind,
    Object,
    Where,
    git_version,
)
from device_plugin.kube.errors import ForbiddenError, GoneError, RefusedError
from device_plugin.kube.leases import LEASES

OURS = "app.kubernetes.io/name=vgpu"
_ADMISSION = "admissionregistration.k8s.io"


def _json(group: str, plural: str, name: str) -> Kind[dict[str, Any]]:
    return Kind(group, "v1", plural, name, dict)


# The kind and the selection of each list.
_LISTS: dict[str, tuple[Kind[Any], Where]] = {
    "nodes": (NODES, EVERYWHERE),
    "agents": (PODS.json, Where(NAMESPACE, AGENT_LABELS)),
    "replicas": (PODS.json, Where(NAMESPACE, REPLICA_LABELS)),
    "policies": (_json(_ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy"), EVERYWHERE),
    "bindings": (
        _json(_ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"), EVERYWHERE,
    ),
    "mutating": (_json(_ADMISSION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy"), EVERYWHERE),
    "mutating_bindings": (
        _json(_ADMISSION, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"), EVERYWHERE,
    ),
    "node_leases": (LEASES.json, Where("kube-node-lease")),
    "refusals": (EVENTS, Where(NAMESPACE, fields="reason=FailedCreate")),
    "notices": (EVENTS, Where("default", fields=f"reason={Event.PREFLIGHT}")),
}  # fmt: skip
# Lists that are read where ResourceClaims are served.
_CLAIM_LISTS: dict[str, Kind[Any]] = {
    "classes": _json(GROUP, "deviceclasses", "DeviceClass"),
    "resource_slices": _json(GROUP, "resourceslices", "ResourceSlice"),
}
_INSTALLED = ("agents", "replicas", "refusals")
"""Lists of the namespace where vgpu is installed."""
_NEWER = ("mutating", "mutating_bindings")
_WORKLOADS = (_json("apps", "deployments", "Deployment"), _json("apps", "daemonsets", "DaemonSet"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu check`."""
    parser.add_argument(
        "--vgpu-namespace",
        metavar="NAMESPACE",
        default=NAMESPACE,
        help=f"where vgpu is installed (default: {NAMESPACE})",
    )
    parser.add_argument("-o", "--output", choices=("json",), help="the findings as JSON")
    parser.add_argument("--image", metavar="IMAGE", help="check this image, named as in a pod")
    parser.add_argument(
        "--vgpu-image", metavar="IMAGE", help="vgpu's own image in that pod (default: the node agents')"
    )
    parser.set_defaults(program=())
    caller.add_namespace(parser, "for the pod of --image: the kubeconfig's context")
    caller.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings; returns 1 if one is a problem, else 0.

    Raises ImageCheckError, ObjectNameError, ApiError, EndpointError.
    """
    if args.program and not args.image:
        raise image.ImageCheckError("a program after -- is checked in an image: write --image IMAGE too")
    with caller.connected(args) as client:
        found = (
            image.findings(client, _image_check(client, args))
            if args.image
            else findings(read_installation(client, args.vgpu_namespace))
        )
    if args.output:
        told = [{**asdict(each), "state": each.state.value} for each in found]
        print(json.dumps({"findings": told}, indent=2))
    else:
        for each in found:
            print(printable(_line(each)))
    return int(any(each.state is CheckState.PROBLEM for each in found))


def _image_check(client: KubeClient, args: argparse.Namespace) -> image.ImageCheck:
    """Returns the check of an image that the arguments ask for.

    The option --vgpu-image names the product's image, from which the library is copied; without this option it is the
    image of the node agents. Raises ImageCheckError, ObjectNameError, ApiError, EndpointError.
    """
    ours = args.vgpu_image
    if not ours:
        listed = [
            _listed(client, "workloads", kind, Where(args.vgpu_namespace, OURS), {}) for kind in _WORKLOADS
        ]
        ours = image.image_of([each for found in listed for each in found or ()])
    return image.ImageCheck(args.image, args.program[:1], caller.namespace(args), ours)


def _line(finding: Finding) -> str:
    cure = f": {finding.cure}" if finding.cure else ""
    return f"{finding.state.value:8} {finding.check:12} {finding.text}{cure}"


def read_installation(client: KubeClient, namespace: str) -> Installation:
    """Returns the installation as far as the caller may read it. Raises ApiError for other problems."""
    read: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, (kind, where) in _LISTS.items():
        here = Where(namespace, where.labels, where.fields) if name in _INSTALLED else where
        read[name] = _listed(client, name, kind, here, missing)
        if name == "node_leases":
            read["node_leases_at"] = time.time()
    workloads = [_listed(client, "workloads", kind, Where(namespace, OURS), missing) for kind in _WORKLOADS]
    read["workloads"] = None if None in workloads else [each for listed in workloads for each in listed or ()]
    service = allocator_of(read["workloads"], namespace)
    read["leases"] = _listed(client, "leases", LEASES.json, Where(service.lease.namespace), missing)
    read["leases_at"] = time.time()
    for name, kind in _CLAIM_LISTS.items() if service.claims else ():
        read[name] = _listed(client, name, kind, EVERYWHERE, missing)
    mutating = read["mutating"] is not None or "mutating" in missing
    return Installation(
        ClusterReader(client, Scope()).read(), has_mutating=mutating, missing=missing, namespace=namespace,
        server=_server(client, missing), **read,
    )  # fmt: skip


def _listed(
    client: KubeClient, name: str, kind: Kind[Any], where: Where, missing: dict[str, str]
) -> list[Object] | None:
    """Returns the objects. If they cannot be read, returns None and writes the reason into `missing` under `name`.

    No reason is written if the API server has no mutating policies, because older API servers have none.
    """
    try:
        return [
            each for each in client.list(kind, where).items if not isinstance(each, dict) or name_of(each)
        ]
    except GoneError:
        if name not in _NEWER:
            missing[name] = f"the API server has no {kind.plural} of {kind.api_version}"
        return None
    except ForbiddenError:
        of = f" of namespace {where.namespace}" if where.namespace else ""
        missing[name] = (
            f"you may not list {kind.plural}{of}. A rule that allows it: apiGroups: [{kind.group or chr(34) * 2}],"
            f" resources: [{kind.plural}], verbs: [list]"
        )
        return None


def _server(client: KubeClient, missing: dict[str, str]) -> str:
    """Returns the version of the API server; an empty text if it cannot be read.

    Then the reason is stored in `missing`, under the key `server`.
    """
    try:
        return git_version(client.text)
    except (RefusedError, GoneError, ValueError, LookupError, TypeError) as error:
        missing["server"] = f"the API server does not say its version: {error}"
        return ""
