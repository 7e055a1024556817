"""The kinds of objects that the server has, and their URL paths."""

import re
from dataclasses import dataclass
from typing import Any

from device_plugin.core.workload_kinds import WORKLOAD_KINDS
from hack.embedded.apiserver import errors

_DRA = "resource.k8s.io"


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind of object: its names, and the rules of Kubernetes for a PUT of it.

    `fields` are the field labels that a selector may use in addition to metadata.name and metadata.namespace. Clients
    can only read objects of a kind that is not `writable`. A `custom` kind is that of a CustomResourceDefinition. If
    `returns_deleted` is true, a DELETE is answered with the deleted object instead of a Status.
    """

    plural: str
    kind: str
    group: str = ""
    namespaced: bool = True
    fields: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    create_on_update: bool = False
    unconditional_update: bool = True
    writable: bool = True
    version: str = "v1"
    custom: bool = False
    returns_deleted: bool = False

    @property
    def api_version(self) -> str:
        """The apiVersion, such as `v1` or `coordination.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The plural with its group, for error messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """The kind with its group, for error messages about an invalid object."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def head(self, suffix: str = "") -> bytes:
        """The beginning of an object's JSON, up to its first field; with the suffix "List", of a list's JSON."""
        return f'{{"kind":"{self.kind}{suffix}","apiVersion":"{self.api_version}",'.encode()


PODS = ApiResource(
    "pods", "Pod",
    fields=("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
            "status.phase", "status.podIP", "status.nominatedNodeName"),
    subresources=("status", "binding", "eviction", "ephemeralcontainers"), returns_deleted=True,
)  # fmt: skip
NODES = ApiResource(
    "nodes", "Node", namespaced=False, fields=("spec.unschedulable",), subresources=("status",)
)
NAMESPACES = ApiResource("namespaces", "Namespace", namespaced=False, fields=("status.phase",))
CONFIGMAPS = ApiResource("configmaps", "ConfigMap")
EVENTS = ApiResource(
    "events", "Event",
    fields=("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
            "reason", "reportingComponent", "type"),
    create_on_update=True,
)  # fmt: skip
LEASES = ApiResource(
    "leases", "Lease", group="coordination.k8s.io", create_on_update=True, unconditional_update=False
)
QUOTAS = ApiResource("resourcequotas", "ResourceQuota", subresources=("status",))
PRIORITY_CLASSES = ApiResource(
    "priorityclasses", "PriorityClass", group="scheduling.k8s.io", namespaced=False
)
JOBS = ApiResource("jobs", "Job", group="batch", fields=("status.successful",), subresources=("status",))
# The kinds of dynamic resource allocation. A change of a claim's allocation needs the right to update
# resourceclaims/binding, but no request has that path, so it is no subresource here.
CLAIMS = ApiResource(
    "resourceclaims", "ResourceClaim", group=_DRA, subresources=("status",), returns_deleted=True
)
CLAIM_TEMPLATES = ApiResource(
    "resourceclaimtemplates", "ResourceClaimTemplate", group=_DRA, returns_deleted=True
)
RESOURCE_SLICES = ApiResource(
    "resourceslices", "ResourceSlice", group=_DRA, namespaced=False, fields=("spec.nodeName", "spec.driver"),
    returns_deleted=True,
)  # fmt: skip
DEVICE_CLASSES = ApiResource(
    "deviceclasses", "DeviceClass", group=_DRA, namespaced=False, returns_deleted=True
)
# Workloads without a controller here: they only show which version is installed.
DEPLOYMENTS = ApiResource("deployments", "Deployment", group="apps", subresources=("status",))
DAEMON_SETS = ApiResource("daemonsets", "DaemonSet", group="apps", subresources=("status",))
# The kinds of other projects that the job engine starts, as their CustomResourceDefinitions have them.
WORKLOADS = tuple(
    ApiResource(
        kind.plural, kind.name, group=kind.group, subresources=("status",), unconditional_update=False,
        version=kind.version, custom=True,
    )
    for kind in WORKLOAD_KINDS
)  # fmt: skip
# The policies that admission evaluates.
POLICIES = tuple(
    ApiResource(plural, kind, group="admissionregistration.k8s.io", namespaced=False, writable=False)
    for plural, kind in (
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
        ("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
    )
)
# Never stored: a POST to these asks for the name of the user, or for the user's rights.
SELF_REVIEWS = ApiResource(
    "selfsubjectreviews", "SelfSubjectReview", group="authentication.k8s.io", namespaced=False
)
ACCESS_REVIEWS = ApiResource(
    "selfsubjectaccessreviews", "SelfSubjectAccessReview", group="authorization.k8s.io", namespaced=False
)
# Never stored either: a POST asks about another user's token or rights.
TOKEN_REVIEWS = ApiResource("tokenreviews", "TokenReview", group="authentication.k8s.io", namespaced=False)
SUBJECT_REVIEWS = ApiResource(
    "subjectaccessreviews", "SubjectAccessReview", group="authorization.k8s.io", namespaced=False
)
# Never stored: a POST to it binds a pod.
BINDINGS = ApiResource("bindings", "Binding")
# Never stored either: a POST to a pod's subresource.
EVICTIONS = ApiResource("evictions", "Eviction", group="policy")

RESOURCES = (
    PODS, NODES, NAMESPACES, CONFIGMAPS, EVENTS, LEASES, QUOTAS, PRIORITY_CLASSES, JOBS, DEPLOYMENTS, DAEMON_SETS,
    CLAIMS, CLAIM_TEMPLATES, RESOURCE_SLICES, DEVICE_CLASSES,
    *WORKLOADS, *POLICIES, SELF_REVIEWS, ACCESS_REVIEWS, TOKEN_REVIEWS, SUBJECT_REVIEWS, BINDINGS,
)  # fmt: skip
_BY_PATH = {(resource.group, resource.version, resource.plural): resource for resource in RESOURCES}

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>v[0-9][a-z0-9]*)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?/?"
)


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The object or collection that a path names; absent parts are empty."""

    resource: ApiResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target(path: str) -> RequestTarget:
    """The target of a decoded URL path. Raises StatusError 404 for an unknown path."""
    match = _PATH.fullmatch(path)
    if match is None:
        raise errors.no_such_path()
    group, version, namespace, plural, name, sub = (text or "" for text in match.groups())
    resource = _BY_PATH.get((group, version, plural))
    if resource is None and namespace and not sub:
        # /namespaces/{name}/status looks like a collection in a namespace; the server does not have it.
        raise errors.no_such_path()
    if resource is None or (sub and sub not in resource.subresources):
        raise errors.no_such_path()
    if bool(namespace) != resource.namespaced and (namespace or name):
        raise errors.no_such_path()
    return RequestTarget(resource, namespace, name, sub)


def discovery(path: str) -> dict[str, Any] | None:
    """The groups at the path /apis, or the kinds of one version at /apis/GROUP/VERSION; None for other paths."""
    if path == "/apis":
        served = sorted({each.api_version for each in RESOURCES if each.group})
        groups = [
            {"name": version.partition("/")[0], "versions": [{"groupVersion": version}]} for version in served
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    version = path.removeprefix("/apis/")
    kinds = [each for each in RESOURCES if each.group and each.api_version == version]
    if not path.startswith("/apis/") or not kinds:
        return None
    resources = [{"name": each.plural, "kind": each.kind, "namespaced": each.namespaced} for each in kinds]
    return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
