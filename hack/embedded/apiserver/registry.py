"""The operations on objects: create, read, update, delete, bind, evict.

A write reads the object, prepares the new one, and calls admission. Then it stores the new object, if the old one has
not changed meanwhile; otherwise it starts again, as in Kubernetes. So admission never runs under a lock.
"""

import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hack.embedded.apiserver import errors, pods, priorities, quotas
from hack.embedded.apiserver.admission import AdmissionRequest, PolicyAdmission
from hack.embedded.apiserver.claims import ClaimStrategy, ClaimTemplateStrategy
from hack.embedded.apiserver.jobs import JobStrategy
from hack.embedded.apiserver.pods import PodStrategy
from hack.embedded.apiserver.quotas import QuotaStrategy
from hack.embedded.apiserver.resource_slices import SliceStrategy
from hack.embedded.apiserver.resources import (
    BINDINGS,
    CLAIM_TEMPLATES,
    CLAIMS,
    EVENTS,
    EVICTIONS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    QUOTAS,
    RESOURCE_SLICES,
    WORKLOADS,
    ApiResource,
    RequestTarget,
)
from hack.embedded.apiserver.store import ObjectStore, Stored
from hack.embedded.apiserver.strategies import (
    CustomStrategy,
    EventStrategy,
    NodeStrategy,
    Object,
    Strategy,
    finalizer_causes,
    keep,
)
from hack.embedded.clock import timestamp

# The alphabet of apimachinery's names.SimpleNameGenerator; it has no vowels, so that no words appear.
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 63 - 5
# Not the generator of the process: a property test in another thread may have made that one deterministic.
_CHANCE = random.SystemRandom()
# Metadata that writers cannot set: fields that are removed from a new object, and fields that an update keeps.
_LATER = ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "generation")
_KEPT = ("uid", "creationTimestamp", *_LATER)
# The finalizers that a deletion adds, for the garbage collector. Only Jobs own objects here.
_PROPAGATION = {"Orphan": ["orphan"], "Foreground": ["foregroundDeletion"]}
_STRATEGIES: Mapping[ApiResource, Strategy] = {
    PODS: PodStrategy(), NODES: NodeStrategy(), EVENTS: EventStrategy(), QUOTAS: QuotaStrategy(),
    JOBS: JobStrategy(), CLAIMS: ClaimStrategy(), CLAIM_TEMPLATES: ClaimTemplateStrategy(),
    RESOURCE_SLICES: SliceStrategy(), **dict.fromkeys(WORKLOADS, CustomStrategy()),
}  # fmt: skip
_PLAIN = Strategy()


@dataclass(frozen=True, slots=True)
class Deletion:
    """The DeleteOptions: a grace period in seconds (None: the pod's own), and preconditions (empty: none).

    `propagation` decides about the objects that the object owns: Orphan, Background or Foreground (empty: by its kind).
    """

    grace_seconds: int | None = None
    uid: str = ""
    version: str = ""
    propagation: str = ""


class ObjectRegistry:
    """The objects of the API. A method that refuses raises StatusError."""

    def __init__(self, store: ObjectStore, admission: PolicyAdmission) -> None:
        self.store = store
        self._admission = admission

    def get(self, target: RequestTarget) -> Stored:
        """The object that `target` names."""
        return self.store.get(target.resource, target.namespace, target.name)

    def create(self, user: str, target: RequestTarget, new: Object, *, dry: bool = False) -> Stored:
        """Store a new object, unless `dry`; its name may come from `generateName`."""
        resource, rules = target.resource, _STRATEGIES.get(target.resource, _PLAIN)
        metadata = _metadata(resource, new)
        _in_namespace(target, metadata)
        if "name" not in metadata and metadata.get("generateName"):
            letters = "".join(_CHANCE.choices(_SUFFIX_LETTERS, k=5))
            metadata["name"] = metadata["generateName"][:_LONGEST_BASE] + letters
        if not metadata.get("name"):
            cause = errors.Cause(
                "metadata.name", "Required value: name or generateName is required", "FieldValueRequired"
            )
            raise errors.invalid(resource.qualified_kind, "", [cause])
        rules.default(new)
        if resource is PODS:
            priorities.resolve(new, self._beside(PRIORITY_CLASSES, ""))
        target = RequestTarget(resource, target.namespace, metadata["name"])
        write = AdmissionRequest(user, "CREATE", target, new, dry=dry)
        self._admission.mutate(write)
        if resource.namespaced:
            self.store.get(NAMESPACES, "", target.namespace)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = timestamp()
        for key in _LATER:
            metadata.pop(key, None)
        rules.prepare_create(new)
        _check(resource, target.name, rules.validate(new))
        self._admission.validate(write)
        if resource is PODS:
            quotas.check(new, *(self._beside(kind, target.namespace) for kind in (PODS, QUOTAS)))
        return self.store.create(resource, new, dry=dry)

    def _beside(self, resource: ApiResource, namespace: str) -> list[Object]:
        """The objects of a kind in the namespace."""
        _, found = self.store.select(resource, lambda stored: stored.namespace == namespace)
        return [stored.value for stored in found]

    def update(
        self, user: str, target: RequestTarget, change: Callable[[Object], Object], *, patch: bool
    ) -> tuple[Stored, bool]:
        """Replace the object by the result of `change`, which gets a copy, and is called again after a lost race.

        Returns the object, and whether it was created: a PUT creates a missing object of some kinds (Lease, Event).
        """
        while True:
            try:
                old = self.get(target)
            except errors.StatusError:
                if patch or target.subresource or not target.resource.create_on_update:
                    raise
                return self.create(user, target, change({})), True
            new = change(old.copy())
            self._prepare_update(target, new, old, unconditional=patch)
            write = AdmissionRequest(user, "UPDATE", target, new, old.value)
            self._admission.mutate(write)
            if new == old.value:
                return old, False
            rules = _STRATEGIES.get(target.resource, _PLAIN)
            faults = finalizer_causes(new["metadata"], old.value["metadata"])
            _check(target.resource, target.name, [*faults, *rules.validate_update(new, old.value)])
            self._admission.validate(write)
            stored = self._remove_finished(old, new) or self.store.replace(old, new)
            if stored is not None:
                return stored, False

    def bind(self, user: str, target: RequestTarget, binding: Object) -> None:
        """Write a pod's node, with the binding's annotations and labels, in one write."""
        metadata = _metadata(BINDINGS, binding)
        name = target.name or metadata.get("name", "")
        if metadata.get("name") != name:
            raise errors.bad_request("name in URL does not match name in Binding object")
        _in_namespace(target, metadata)
        place = binding.get("target") or {}
        if place.get("kind", "Node") not in ("Node", "") or not place.get("name"):
            raise errors.StatusError(
                500, "InternalError", "target.name: Required value, target.kind: must be Node"
            )
        target = replace(target, name=name)
        write = AdmissionRequest(user, "CREATE", target, binding)
        self._admission.mutate(write)
        self._admission.validate(write)
        while True:
            old = self.store.get(PODS, target.namespace, name)
            if self.store.replace(old, pods.bound(old.copy(), binding)) is not None:
                return

    def evict(
        self, user: str, target: RequestTarget, eviction: Object, options: Deletion, *, dry: bool
    ) -> None:
        """Evict a pod: write a condition into its status and delete it. With `dry`, only check.

        Admission sees the eviction but not the deletion, as in pkg/registry/core/pod/storage. There are no disruption
        budgets.
        """
        if _metadata(EVICTIONS, eviction).get("name", target.name) != target.name:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        pod = replace(target, subresource="")
        self.get(pod)
        self._admission.validate(AdmissionRequest(user, "CREATE", target, eviction, dry=dry))
        while True:
            old = self.get(pod)
            _check_preconditions(pod, options, old.value["metadata"])
            if dry:
                return
            if self.store.replace(old, pods.disrupted(old.copy())) is not None:
                break
        self._remove(pod, replace(options, version=""), lambda _old, _grace: None)

    def delete(self, user: str, target: RequestTarget, options: Deletion) -> Stored:
        """Remove an object and return its last state; a running pod is only marked, for its kubelet to end it."""

        def validate(old: Object, grace: int) -> None:
            given = grace if target.resource is PODS else options.grace_seconds
            asked = {} if given is None else {"gracePeriodSeconds": given}
            self._admission.validate(AdmissionRequest(user, "DELETE", target, {}, old, asked))

        return self._remove(target, options, validate)

    def _remove(
        self, target: RequestTarget, options: Deletion, validate: Callable[[Object, int], None]
    ) -> Stored:
        while True:
            old = self.get(target)
            metadata = old.value["metadata"]
            _check_preconditions(target, options, metadata)
            pending = metadata.get("deletionGracePeriodSeconds")
            is_pod = target.resource is PODS
            grace = pods.grace_seconds(old.value, options.grace_seconds) if is_pod else 0
            if grace == pending and grace:
                return old
            validate(old.value, grace)
            finalizers = _finalizers(target, options, metadata)
            if grace != pending and (is_pod or finalizers):
                marked = self.store.replace(old, _marked(old.copy(), grace, finalizers))
                if marked is None:
                    continue
                if grace:
                    return marked
                old = marked
            if finalizers:
                return old
            removed = self.store.remove(old)
            if removed is not None:
                return removed

    def _prepare_update(
        self, target: RequestTarget, new: Object, old: Stored, *, unconditional: bool
    ) -> None:
        resource, metadata, was = target.resource, _metadata(target.resource, new), old.value["metadata"]
        _in_namespace(target, metadata)
        if metadata.get("name") != target.name:
            raise errors.bad_request(
                f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL"
                f" ({target.name})"
            )
        version = metadata.get("resourceVersion", "")
        if not version and not (unconditional or resource.unconditional_update):
            cause = errors.Cause(
                "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
            )
            raise errors.invalid(resource.qualified, target.name, [cause])
        if version and version != str(old.version):
            why = (
                "the object has been modified; please apply your changes to the latest version and try again"
            )
            raise errors.conflict(resource.qualified, target.name, why)
        if metadata.get("uid", was["uid"]) != was["uid"]:
            if unconditional:  # a patch has no precondition: its uid is an ordinary field
                value = f'Invalid value: "{metadata["uid"]}": field is immutable'
                raise errors.invalid(resource.qualified, target.name, [errors.Cause("metadata.uid", value)])
            raise errors.conflict(
                resource.qualified, target.name, pods.uid_mismatch(metadata["uid"], old.value)
            )
        for key in _KEPT:
            keep(metadata, was, key)
        rules = _STRATEGIES.get(resource, _PLAIN)
        rules.default(new)
        rules.prepare_update(new, old.value, target.subresource)

    def _remove_finished(self, old: Stored, new: Object) -> Stored | None:
        # Remove a deleted object without a grace period when its last finalizer is removed.
        metadata = new["metadata"]
        ends = "deletionTimestamp" in metadata and not metadata.get("deletionGracePeriodSeconds")
        if ends and old.value["metadata"].get("finalizers") and not metadata.get("finalizers"):
            return self.store.remove(old)
        return None


def _check(resource: ApiResource, name: str, causes: list[errors.Cause]) -> None:
    if causes:
        raise errors.invalid(resource.qualified_kind, name, causes)


def _metadata(resource: ApiResource, value: Object) -> dict[str, Any]:
    """The object's metadata, without nulls and empty maps. Raises StatusError 400 for the wrong kind or form."""
    kind, version = value.pop("kind", resource.kind), value.pop("apiVersion", resource.api_version)
    if (kind, version) != (resource.kind, resource.api_version):
        raise errors.bad_request(
            f"{kind} in version {version} cannot be handled as a {resource.kind} in version {resource.api_version}"
        )
    metadata = value.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise errors.bad_request("metadata is not an object")
    for key in [key for key, item in metadata.items() if item is None or item == {}]:
        del metadata[key]
    for key in ("annotations", "labels"):
        held = metadata.get(key, {})
        if not isinstance(held, dict) or not all(isinstance(item, str) for item in held.values()):
            raise errors.bad_request(f"metadata.{key} must map texts to texts")
    return metadata


def _in_namespace(target: RequestTarget, metadata: dict[str, Any]) -> None:
    if not target.namespace:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", target.namespace) != target.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _finalizers(target: RequestTarget, options: Deletion, metadata: Mapping[str, Any]) -> list[str]:
    """The finalizers that keep a deleted object. By default the pods of a deleted Job stay, as in batch/v1."""
    own = list(metadata.get("finalizers") or [])
    if target.resource is not JOBS or "deletionTimestamp" in metadata:
        return own
    return own + _PROPAGATION.get(options.propagation or "Orphan", [])


def _marked(value: Object, grace: int, finalizers: Sequence[str] = ()) -> Object:
    metadata = value["metadata"]
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    metadata["deletionTimestamp"] = timestamp(grace)
    metadata["deletionGracePeriodSeconds"] = grace
    if "generation" in metadata:
        metadata["generation"] += 1
    return value


def _check_preconditions(target: RequestTarget, options: Deletion, metadata: Mapping[str, Any]) -> None:
    """Raise StatusError if a precondition fails; the text is from k8s.io/apiserver pkg/registry/rest/delete.go."""
    wanted = (
        ("UID", options.uid, metadata["uid"], "deleted and then recreated"),
        ("ResourceVersion", options.version, metadata["resourceVersion"], "modified"),
    )
    for field, asked, found, event in wanted:
        if asked and asked != found:
            why = (
                f"the {field} in the precondition ({asked}) does not match the {field} in record ({found})."
                f" The object might have been {event}"
            )
            raise errors.conflict(target.resource.kind, target.name, why)
