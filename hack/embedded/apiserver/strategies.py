"""Strategies: the rules for writes of a kind, which set defaults, validate, and protect fields from a writer.

Model: the strategies in k8s.io/kubernetes pkg/registry, reduced to the kinds and fields in use here.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any

from hack.embedded.apiserver.errors import Cause

Object = dict[str, Any]

# apimachinery pkg/api/validation: the limit on all annotations of one object together.
MAX_ANNOTATION_BYTES = 256 * 1024
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must"
    " start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LONGEST_LABEL = 63
_LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start"
    " and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation"
    r" is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


class Strategy:
    """The rules for writes of kinds without rules of their own (ConfigMap, Lease, Namespace)."""

    def default(self, new: Object) -> None:
        """Set the defaults, before admission. Raises StatusError 400 for a malformed object."""

    def prepare_create(self, new: Object) -> None:
        """Remove the fields that a creator may not set."""

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Restore the fields that a write to this subresource may not change."""

    def validate(self, new: Object) -> list[Cause]:
        """The faults of a new object."""
        return metadata_causes(new["metadata"])

    def validate_update(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002 - kinds override it
        """The faults of an update of `old` to `new`."""
        return self.validate(new)


class NodeStrategy(Strategy):
    """The rules for writes of nodes: a creation and a subresource write their status (pkg/registry/core/node)."""

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Restore the part that only the other route may write: the spec, or the status."""
        keep(new, old, "spec" if subresource else "status")


class CustomStrategy(Strategy):
    """The rules for writes of custom resources with a status of their own (apiextensions-apiserver, customresource)."""

    def prepare_create(self, new: Object) -> None:
        """Leave out the status, which has a route of its own."""
        new.pop("status", None)
        new["metadata"]["generation"] = 1

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Restore the part that only the other route may write; increase the generation if the spec has changed."""
        if subresource:
            for key in [key for key in new if key != "status"]:
                keep(new, old, key)
        else:
            keep(new, old, "status")
            new["metadata"]["generation"] += new.get("spec") != old.get("spec")


class EventStrategy(Strategy):
    """The rules for writes of events: each is in the namespace of its object."""

    def validate(self, new: Object) -> list[Cause]:
        """The faults, also if the namespaces of event and object differ (pkg/apis/core/validation/events.go)."""
        about = (new.get("involvedObject") or {}).get("namespace", "")
        own = new["metadata"]["namespace"]
        if own != (about or "default"):
            return [
                Cause("involvedObject.namespace", f'Invalid value: "{about}": does not match event.namespace')
            ]
        return super().validate(new)


def keep(new: Object, old: Mapping[str, Any], key: str) -> None:
    """Set `new[key]` to its value in `old`; remove it if it is absent there."""
    if key in old:
        new[key] = copy.deepcopy(old[key])
    else:
        new.pop(key, None)


def finalizer_causes(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    """The fault of metadata that adds a finalizer to an object that is being deleted."""
    added = set(new.get("finalizers") or ()) - set(old.get("finalizers") or ())
    if not added or "deletionTimestamp" not in old:
        return []
    listed = ", ".join(f'"{each}"' for each in sorted(added))
    message = (
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers"
        f" []string{{{listed}}}"
    )
    return [Cause("metadata.finalizers", message, "FieldValueForbidden")]


def metadata_causes(metadata: Mapping[str, Any]) -> list[Cause]:
    """The faults of a name, of the labels' values, and of the annotations' total size."""
    causes = []
    name = metadata["name"]
    if len(name) > 253 or not NAME.fullmatch(name):
        causes.append(Cause("metadata.name", f'Invalid value: "{name}": {NAME_RULE}'))
    for value in (metadata.get("labels") or {}).values():
        if len(value) > LONGEST_LABEL:
            message = f'Invalid value: "{value}": must be no more than {LONGEST_LABEL} bytes'
            causes.append(Cause("metadata.labels", message))
        elif not _LABEL.fullmatch(value):
            causes.append(Cause("metadata.labels", f'Invalid value: "{value}": {_LABEL_RULE}'))
    annotations = metadata.get("annotations") or {}
    if (
        sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        > MAX_ANNOTATION_BYTES
    ):
        message = f"Too long: may not be more than {MAX_ANNOTATION_BYTES} bytes"
        causes.append(Cause("metadata.annotations", message, "FieldValueTooLong"))
    return causes
