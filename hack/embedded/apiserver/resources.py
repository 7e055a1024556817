"""The kinds that are served, and the paths at which they are."""

import re
from dataclasses import dataclass

from hack.embedded.apiserver import errors


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind of object: its names, and the effects that Kubernetes gives to a PUT of it.

    `fields` are the field labels that a selector may use in addition to metadata.name and metadata.namespace. Objects
    of kinds that are not `writable` are there from the beginning.
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

    @property
    def api_version(self) -> str:
        """The apiVersion, such as `v1` or `coordination.k8s.io/v1`."""
        return f"{self.group}/v1" if self.group else "v1"

    @property
    def qualified(self) -> str:
        """The plural with its group, as error messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """The kind with its group, as complaints about an object name it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def head(self, suffix: str = "") -> bytes:
        """The beginning of the JSON of an object, up to its first field; with "List", of a list."""
        return f'{{"kind":"{self.kind}{suffix}","apiVersion":"{self.api_version}",'.encode()


PODS = ApiResource(
    "pods", "Pod",
    fields=("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
            "status.phase", "status.podIP", "status.nominatedNodeName"),
    subresources=("status", "binding", "eviction", "ephemeralcontainers"),
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
# Workloads: no controller runs them here, they show what is installed.
DEPLOYMENTS = ApiResource("deployments", "Deployment", group="apps", subresources=("status",))
DAEMON_SETS = ApiResource("daemonsets", "DaemonSet", group="apps", subresources=("status",))
# The policies that admission evaluates, as they stand in their files.
POLICIES = tuple(
    ApiResource(plural, kind, group="admissionregistration.k8s.io", namespaced=False, writable=False)
    for plural, kind in (
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
        ("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
    )
)
# Never stored: a POST to it asks who asks, or what the asker may do.
SELF_REVIEWS = ApiResource(
    "selfsubjectreviews", "SelfSubjectReview", group="authentication.k8s.io", namespaced=False
)
ACCESS_REVIEWS = ApiResource(
    "selfsubjectaccessreviews", "SelfSubjectAccessReview", group="authorization.k8s.io", namespaced=False
)
# Never stored: a POST to it binds a pod.
BINDINGS = ApiResource("bindings", "Binding")
# Never stored either: a POST to a pod's subresource.
EVICTIONS = ApiResource("evictions", "Eviction", group="policy")

RESOURCES = (
    PODS, NODES, NAMESPACES, CONFIGMAPS, EVENTS, LEASES, QUOTAS, PRIORITY_CLASSES, JOBS, DEPLOYMENTS, DAEMON_SETS,
    *POLICIES, SELF_REVIEWS, ACCESS_REVIEWS, BINDINGS,
)  # fmt: skip
_BY_PATH = {(resource.group, resource.plural): resource for resource in RESOURCES}

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/v1"
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
    """The target of a decoded URL path. Raises StatusError 404 if nothing is served there."""
    match = _PATH.fullmatch(path)
    if match is None:
        raise errors.no_such_path()
    group, namespace, plural, name, sub = (text or "" for text in match.groups())
    resource = _BY_PATH.get((group, plural))
    if resource is None and namespace and not sub:
        # /namespaces/{name}/status has the form of a namespaced collection, and is not served.
        raise errors.no_such_path()
    if resource is None or (sub and sub not in resource.subresources):
        raise errors.no_such_path()
    if bool(namespace) != resource.namespaced and (namespace or name):
        raise errors.no_such_path()
    return RequestTarget(resource, namespace, name, sub)
