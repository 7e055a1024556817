"""Pods: defaults, validation, changeable fields, binding, graceful deletion.

Model: k8s.io/kubernetes pkg/registry/core/pod (strategy, storage) and pkg/apis/core (v1 defaults, validation).
"""

import copy
from collections.abc import Iterator
from typing import Any

from hack.embedded.apiserver import errors, quantities
from hack.embedded.apiserver.errors import Cause
from hack.embedded.apiserver.strategies import Object, Strategy, keep
from hack.embedded.clock import timestamp

# Beginnings of resource names that are not extended resources; nor are names without a domain, or with kubernetes.io.
_NATIVE = ("requests.", "hugepages-")


class PodStrategy(Strategy):
    """The rules for writes of pods. A pod has three routes: the object, its status, its ephemeral containers."""

    def default(self, new: Object) -> None:
        """Set the API server's defaults, and normalise quantities. Raises StatusError 400 for a malformed quantity."""
        spec = new.setdefault("spec", {})
        default_spec(spec)
        spec.setdefault("enableServiceLinks", True)

    def prepare_create(self, new: Object) -> None:
        """Reset generation and status: only the kubelet writes a pod's status."""
        new["metadata"]["generation"] = 1
        new["status"] = {"phase": "Pending"}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Restore the parts that this route may not change; increase the generation if the spec has changed."""
        if subresource == "status":
            keep(new, old, "spec")
            keep(new["metadata"], old["metadata"], "ownerReferences")
            return
        keep(new, old, "status")
        if subresource == "ephemeralcontainers":
            added = (new.get("spec") or {}).get("ephemeralContainers")
            keep(new, old, "spec")
            keep(new["metadata"], old["metadata"], "annotations")
            keep(new["metadata"], old["metadata"], "labels")
            if added:
                new["spec"]["ephemeralContainers"] = added
        if new["spec"] != old["spec"]:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate(self, new: Object) -> list[Cause]:
        """The faults of the metadata, and of the containers' names, amounts and volumes."""
        return [*super().validate(new), *spec_causes(new["spec"], "spec")]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """The faults of an update: only a few fields of a pod's spec may change."""
        causes = self.validate(new)
        if _fixed(new["spec"]) != _fixed(old["spec"]):
            message = (
                "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
                "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to"
                " existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was"
                " previously negative)"
            )
            causes.append(Cause("spec", message, "FieldValueForbidden"))
        return causes


def default_spec(spec: Object) -> None:
    """Set the defaults of a pod's spec, also in a template. Raises StatusError 400 for a malformed spec."""
    if not isinstance(spec, dict):
        raise errors.bad_request('Pod in version "v1" cannot be handled as a Pod: spec is not an object')
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    for _, container in containers(spec):
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("imagePullPolicy", "IfNotPresent")
        _default_resources(container.setdefault("resources", {}))


def spec_causes(spec: Object, where: str) -> Iterator[Cause]:
    """The faults of a pod's spec; `where` is the path of the spec in its object."""
    if not spec.get("containers"):
        yield Cause(f"{where}.containers", "Required value", "FieldValueRequired")
    seen: set[str] = set()
    for path, container in containers(spec, where):
        name = container.get("name", "")
        if not name:
            yield Cause(f"{path}.name", "Required value", "FieldValueRequired")
        elif name in seen:
            yield Cause(f"{path}.name", f'Duplicate value: "{name}"', "FieldValueDuplicate")
        seen.add(name)
        yield from _resource_causes(f"{path}.resources", container["resources"])
    yield from _host_path_causes(spec, where)


def containers(spec: Object, where: str = "spec") -> Iterator[tuple[str, Object]]:
    """Every init container and container, each with its path. Raises StatusError 400 for malformed lists."""
    for kind in ("initContainers", "containers"):
        listed = spec.get(kind) or []
        if not isinstance(listed, list) or not all(isinstance(container, dict) for container in listed):
            raise errors.bad_request(
                f'Pod in version "v1" cannot be handled as a Pod: spec.{kind} is malformed'
            )
        yield from ((f"{where}.{kind}[{index}]", container) for index, container in enumerate(listed))


def bound(old: Object, binding: Object) -> Object:
    """The pod `old` after `binding`; it may share parts with both. Raises StatusError 409 if it cannot be bound."""
    name, wanted = old["metadata"]["name"], binding["metadata"]
    if wanted.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
        raise errors.conflict("pods", name, uid_mismatch(wanted["uid"], old))
    why = ""
    if "deletionTimestamp" in old["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif old["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{old["spec"]["nodeName"]}"'
    elif old["spec"].get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise errors.conflict("pods/binding", name, why)
    metadata = dict(old["metadata"])
    for key in ("annotations", "labels"):
        if wanted.get(key):
            metadata[key] = {**(metadata.get(key) or {}), **wanted[key]}
    return {
        **old,
        "metadata": metadata,
        "spec": {**old["spec"], "nodeName": binding["target"]["name"]},
        "status": _with_condition(old["status"], "PodScheduled"),
    }


def disrupted(old: Object) -> Object:
    """The pod `old` with the condition DisruptionTarget of an eviction; it may share parts with `old`."""
    why = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
    return {**old, "status": _with_condition(old["status"], "DisruptionTarget", **why)}


def _with_condition(status: Object, kind: str, **more: str) -> Object:
    others = [item for item in status.get("conditions", []) if item["type"] != kind]
    made = {"type": kind, "status": "True", "lastTransitionTime": timestamp(), **more}
    return {**status, "conditions": [*others, made]}


def uid_mismatch(uid: str, old: Object) -> str:
    """The message of a failed precondition on the UID."""
    return f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"


def grace_seconds(pod: Object, asked: int | None) -> int:
    """The grace period in seconds after a DELETE that asks for `asked` (None: nothing).

    0 removes the pod now; unbound and ended pods always get 0.
    """
    pending: int | None = pod["metadata"].get("deletionGracePeriodSeconds")
    if pending is not None:
        # A second DELETE may only shorten the grace period.
        return pending if asked is None else min(asked, pending)
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    period = pod["spec"]["terminationGracePeriodSeconds"] if asked is None else asked
    return period if period >= 0 else 1


def _default_resources(resources: Object) -> None:
    for side in ("limits", "requests"):
        quantities.normalise("Pod", resources.get(side) or {})
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _resource_causes(path: str, resources: Object) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            amount = quantities.parse(text)
            where = f"{path}.{side}[{name}]"
            if amount is not None and amount < 0:
                yield Cause(where, f'Invalid value: "{text}": must be greater than or equal to 0')
            if amount is not None and _is_extended(name) and amount.denominator != 1:
                yield Cause(where, f'Invalid value: "{text}": must be an integer')
    for name, text in requests.items():
        if not _is_extended(name):
            continue
        if name not in limits:
            message = "Required value: Limit must be set for non overcommitable resources"
            yield Cause(f"{path}.limits", message, "FieldValueRequired")
        elif quantities.parse(text) != quantities.parse(limits[name]):
            message = f'Invalid value: "{text}": must be equal to {name} limit of {limits[name]}'
            yield Cause(f"{path}.requests", message)


def _host_path_causes(spec: Object, where: str) -> Iterator[Cause]:
    for index, volume in enumerate(spec.get("volumes") or []):
        path = (volume.get("hostPath") or {}).get("path", "")
        if ".." in path.split("/"):
            message = f"Invalid value: \"{path}\": must not contain '..'"
            yield Cause(f"{where}.volumes[{index}].hostPath.path", message)


def _is_extended(name: str) -> bool:
    domain, slash, _ = name.partition("/")
    return bool(slash) and not domain.endswith("kubernetes.io") and not name.startswith(_NATIVE)


def _fixed(spec: Object) -> dict[str, Any]:
    fixed = copy.deepcopy(spec)
    changeable = ("activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers")
    for key in changeable:
        fixed.pop(key, None)
    for _, container in containers(fixed):
        container.pop("image", None)
    return fixed
