"""Objects of Kubernetes in a document: their pods, and requests for cards in other fields.

Most kinds have pod templates, which are found at any depth. A TrainJob, an InferenceService with a model and a Workflow
describe their pods in fields of their own: these pods are made as their controllers make them, and share the mappings
of these fields, so that a conversion of the pod changes the object.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from device_plugin.cli.convert.annotations import Object
from device_plugin.cli.convert.claims import Namespaces
from device_plugin.cli.convert.pods import SCHEDULER, SCHEDULERS, Conversion, Target, mappings
from device_plugin.cli.convert.products import is_of_another_product
from device_plugin.core.contract.quantities import parse_quantity
from device_plugin.core.pod_sets import at, pod_sets

Described = dict[int, tuple[int, Object]]
"""Pods that an object describes, each with the number of its set of pods, by the ids of the pods' resources."""
# Fields whose keys are labels, or whose amounts nobody asks for.
_NO_REQUESTS = ("metadata", "status", "nodeSelector", "matchLabels")


@dataclass(frozen=True, slots=True)
class Template:
    """A pod or pod template of an owner: an object whose spec has containers.

    `path` is its place in the owner, and `above` are the mappings around it, from the owner on. Some owners describe
    their pods in fields of their own: then `number` counts this pod among the owner's sets of pods, and `path` is the
    place of the pod's first resources.
    """

    pod: Object
    path: str
    above: tuple[Object, ...]
    number: int | None = None


@dataclass(slots=True)
class Owner:
    """An object of Kubernetes, such as a Deployment or a pod, with its templates.

    `strays` are requests to other products in fields outside the templates: each has the resource, and the path of the
    field. A conversion adds `remarks` on differences and on fields that stay. It adds `problems` if the object cannot
    be converted and stays as it was.
    """

    value: Object
    kind: str
    described: Described = field(default_factory=dict)
    templates: list[Template] = field(default_factory=list)
    strays: list[tuple[str, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Kind and name, such as `Deployment web`."""
        metadata = self.value.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        return f"{self.kind} {metadata.get('name') or metadata.get('generateName') or '?'}"

    def convert(self, target: Target, claims: Namespaces) -> None:
        """Convert all templates in place, or none if one has a problem; adds to `remarks` and `problems`."""
        for resource, path in self.strays:
            self.remarks.append(f"{resource} ({path}) is not in a pod template; it stays")
        namespace = str((self.value.get("metadata") or {}).get("namespace") or "")
        done: list[tuple[Template, Conversion, Object]] = []
        for template in self.templates:
            copy = copied(template.pod)
            conversion = Conversion(target, claims.claims(namespace))
            conversion.run(copy)
            done.append((template, conversion, copy))
            self.problems += (self._place(template) + problem for problem in conversion.problems)
        if not self.problems:
            self._write([(template, copy) for template, conversion, copy in done if conversion.converted])
        for template, conversion, _ in [] if self.problems else done:
            if not (conversion.converted or conversion.remarks):
                self.remarks.append(f"{self._place(template)}asks no other product for a card; unchanged")
            self.remarks += (self._place(template) + remark for remark in conversion.remarks)

    def _write(self, converted: Sequence[tuple[Template, Object]]) -> None:
        """Write converted pods into the object.

        If the object's fields cannot describe one of the pods, adds a problem and leaves the object as it was.
        """
        described = [(template, pod) for template, pod in converted if template.number is not None]
        before = copied(self.value) if described else {}
        for template, pod in described:
            _describe(template, pod)
        made: dict[int | None, Any] = {
            number: each.template for number, each in enumerate(pod_sets(self.value))
        }
        for template, pod in described:
            if made.get(template.number) != pod:
                needed = ", ".join(at(pod, "metadata", "annotations") or ()) or "none"
                self.problems.append(
                    f"{self._place(template)}its pods need other annotations ({needed}): convert it by hand"
                )
        if self.problems:
            _make_equal(self.value, before)
            return
        for template, pod in converted:
            if template.number is None:
                template.pod.clear()
                template.pod.update(pod)
                self._scheduler(template)

    def _place(self, template: Template) -> str:
        """Returns the template's path as the beginning of a sentence; empty if the object has no other template."""
        return f"{template.path}: " if len(self.templates) > 1 else ""

    def _scheduler(self, template: Template) -> None:
        """Convert another product's schedulerName in the mappings above a template, such as a Job of Volcano.

        All pods of this Job get its schedulerName.
        """
        for above in template.above:
            if above.get("schedulerName") in SCHEDULERS:
                self.remarks.append(
                    f"schedulerName {above['schedulerName']} of all its pods is now {SCHEDULER}"
                )
                above["schedulerName"] = SCHEDULER


def owners(document: Any, prefix: str) -> list[Owner]:
    """The objects in a document that have pods, or ask other products than ours for cards.

    `prefix` is the prefix of our own resources.
    """
    search = _Search(prefix)
    search.document(document)
    return [owner for owner in search.found if owner.templates or owner.strays]


def _describe(template: Template, pod: Object) -> None:
    """Change the fields by which an owner describes a pod, so that they describe the converted `pod`.

    The template shares these fields with its owner. A schedulerName above the template that equals the pod's old one
    changes too.
    """
    before, after = (at(each, "spec", "schedulerName") for each in (template.pod, pod))
    _make_equal(template.pod, pod)
    for above in template.above:
        if before != after and above.get("schedulerName") == before:
            above["schedulerName"] = after


def _make_equal(value: Object, wanted: Object) -> None:
    """Change a mapping, and the mappings in it, in place until it equals another one."""
    for key in [key for key in value if key not in wanted]:
        del value[key]
    for key, part in wanted.items():
        value[key] = _equal(value.get(key), part)


def _equal(value: Any, wanted: Any) -> Any:
    """Returns a value that equals `wanted`; a mapping or list in `value` is changed in place where both have one."""
    if isinstance(value, dict) and isinstance(wanted, dict):
        _make_equal(value, wanted)
        return value
    if isinstance(value, list) and isinstance(wanted, list) and len(value) == len(wanted):
        value[:] = map(_equal, value, wanted)
        return value
    return wanted


def copied(value: Any) -> Any:
    """A copy of a value, with copies of all mappings and lists in it."""
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()}
    return [copied(part) for part in value] if isinstance(value, list) else value


def _described(value: Object) -> Described:
    """Returns the pods that an object of a known kind describes in its fields, each with the number of its set of pods.

    The key is Python's `id()` of the resources of one of the pod's containers.
    """
    found: Described = {}
    for number, each in enumerate(pod_sets(value)):
        pod = dict(each.template)
        for container in mappings(pod["spec"]["containers"]):
            if isinstance(container.get("resources"), dict):
                found[id(container["resources"])] = number, pod
    return found


class _Search:
    """Finds the objects in a document at any depth, each with its templates and strays (requests in other fields)."""

    def __init__(self, prefix: str) -> None:
        self.found: list[Owner] = []
        self._prefix = prefix

    def document(self, value: Any, listed: str = "") -> None:
        """Search an object, or a list of objects; `listed` is the kind of a list's items."""
        if isinstance(value, list):
            for item in value:
                self.document(item)
        elif isinstance(value, dict):
            kind = str(value.get("kind") or listed or "object")
            if isinstance(value.get("items"), list):
                for item in value["items"]:
                    self.document(item, kind.removesuffix("List"))
            else:
                self._mapping(value, self._owner(value, kind), "", ())

    def _owner(self, value: Object, kind: str) -> Owner:
        self.found.append(Owner(value, kind, _described(value)))
        return self.found[-1]

    def _mapping(self, value: Object, owner: Owner, path: str, above: tuple[Object, ...]) -> None:
        if "kind" in value and value is not owner.value:
            owner, path, above = self._owner(value, str(value["kind"])), "", ()
        spec = value.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            owner.templates.append(Template(value, path, above))
            return
        if id(value) in owner.described:
            number, pod = owner.described[id(value)]
            if all(each.number != number for each in owner.templates):
                owner.templates.append(Template(pod, path, above, number))
            return
        for key, part in value.items():
            if key in _NO_REQUESTS:
                continue
            if isinstance(part, dict | list):
                self._part(part, owner, f"{path}.{key}".lstrip("."), (*above, value))
            elif is_of_another_product(str(key), self._prefix) and parse_quantity(str(part)) is not None:
                owner.strays.append((str(key), path))

    def _part(self, value: Any, owner: Owner, path: str, above: tuple[Object, ...]) -> None:
        if isinstance(value, dict):
            self._mapping(value, owner, path, above)
        elif isinstance(value, list):
            for number, part in enumerate(value):
                self._part(part, owner, f"{path}[{number}]", above)
