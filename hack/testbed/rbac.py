"""hack/rbac: every permission of our services is used, and every use is permitted.

Run after the end-to-end tests: `hack/rbac` compares the roles in manifests/ with the API server's audit log.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from device_plugin.core.workload_kinds import JOB, WORKLOAD_KINDS
from hack.documents import documents
from hack.testbed import audit, install, layout
from hack.testbed.audit import Call
from hack.testbed.layout import Layout
from hack.testbed.programs import installed

# Permissions that no request names, by group and resource: the API server asks for them within a request to the other
# resource. It asks for resourceclaims/binding when a claim's allocation changes (KEP-5075).
_ASKED_WITHIN = {("resource.k8s.io", "resourceclaims/binding"): "resourceclaims/status"}
_WORKLOADS = frozenset((kind.group, kind.plural) for kind in (JOB, *WORKLOAD_KINDS))


@dataclass(frozen=True, order=True)
class Permission:
    """One verb on one resource (or subresource) for one service; `names` limit it to objects with these names."""

    service: str
    verb: str
    group: str
    resource: str
    names: tuple[str, ...] = ()

    def covers(self, call: Call) -> bool:
        """True if the permission allows the call."""
        asked = _asked(call) == (self.service, self.verb, self.group, self.resource)
        return asked and (not self.names or call.name in self.names)

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.service}: {self.verb} {resource}" + "".join(f" {name}" for name in self.names)


def granted(objects: list[dict[str, Any]]) -> set[Permission]:
    """The permissions that roles and bindings in `objects` give to service accounts."""
    roles = {
        (role["kind"], role["metadata"]["name"]): role["rules"]
        for role in objects
        if role["kind"] in ("Role", "ClusterRole")
    }
    found: set[Permission] = set()
    for binding in objects:
        if binding["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            rules = roles.get((binding["roleRef"]["kind"], binding["roleRef"]["name"]), [])
            for subject in binding["subjects"]:
                found.update(p for rule in rules for p in _permissions(subject["name"], rule))
    return found


def _permissions(service: str, rule: dict[str, Any]) -> Iterator[Permission]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Permission(service, verb, group, resource, tuple(rule.get("resourceNames", ())))


def differences(permissions: set[Permission], calls: list[Call]) -> list[str]:
    """A line for each unused permission, for each call of ours without a permission, and for each refused call."""
    ours = [call for call in calls if call.ours]
    unused = [
        p for p in sorted(permissions) if not any(each.covers(call) for each in _alike(p) for call in calls)
    ]
    uncovered = {
        f"{call.service}: {call.verb} {call.resource} {call.group} ({call.client})"
        for call in ours
        if not any(p.covers(call) for p in permissions)
    }
    # Calls that also succeeded are left out: a call is refused for a moment while the product is removed, or after the
    # start of an API server, which refuses all calls until it has read the roles.
    done = {_attempted(call) for call in calls if call.code < 400}
    refused = {
        f"{call.service}: {call.verb} {call.resource} ({call.client})"
        for call in calls
        if call.code == 403 and _attempted(call) not in done
    }
    return [
        *(f"granted and not used: {p}" for p in unused),
        *(f"used and not granted by us: {line}" for line in sorted(uncovered)),
        *(f"refused: {line}" for line in sorted(refused)),
    ]


def _alike(permission: Permission) -> Sequence[Permission]:
    """The permissions of which one must be used: the same for each kind of workload that the job engine starts.

    One code reads and writes all of them, and it is chance which kind is read again after a conflict. A permission of
    _ASKED_WITHIN is used by the requests in which the API server asks for it.
    """
    if within := _ASKED_WITHIN.get((permission.group, permission.resource)):
        return [replace(permission, resource=within)]
    if (permission.group, permission.resource) not in _WORKLOADS:
        return [permission]
    return [replace(permission, group=group, resource=resource) for group, resource in _WORKLOADS]


def _asked(call: Call) -> tuple[str, str, str, str]:
    return call.service, call.verb, call.group, call.resource


def _attempted(call: Call) -> tuple[str, str, str, str]:
    """The verb and resource of a call; a list by kube-scheduler counts as a watch.

    client-go reads objects with a watch (KEP-3157), and lists them only if the watch is refused.
    """
    service, verb, group, resource = _asked(call)
    return service, "watch" if verb == "list" and not call.ours else verb, group, resource


def check(logs: Sequence[Path]) -> list[str]:
    """The differences between the permissions in manifests/ and the calls in these audit logs."""
    calls = [call for log in logs if log.exists() for call in audit.calls(log)]
    if not calls:
        where = ", ".join(map(str, logs)) or layout.here().root
        return [f"no call of our services in {where}: run the end-to-end tests first (make e2e)"]
    kubectl = installed().kubernetes / "kubectl"
    where = install.overlay(layout.here(), "default", ["jobs", "ui", "dra"])
    rendered = subprocess.run([kubectl, "kustomize", where], capture_output=True, check=True, text=True)
    permissions = granted(documents(rendered.stdout))
    return differences(permissions, calls)


def main() -> int:
    """Print the differences between RBAC and the audit logs; returns 1 if there are any."""
    argparse.ArgumentParser(prog="hack/rbac", description=__doc__).parse_args()
    root = layout.here().root
    found = check([Layout(folder).audit for folder in (root, *root.glob("*"))])
    print("\n".join(found) or "every permission is used, and every use is permitted")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
