"""Objects of Kubernetes in a document: their pod templates, and requests for cards in other fields."""

from dataclasses import dataclass, field
from typing import Any

from device_plugin.cli.convert.annotations import Object
from device_plugin.cli.convert.claims import Namespaces
from device_plugin.cli.convert.pods import SCHEDULER, SCHEDULERS, Conversion, Target
from device_plugin.cli.convert.products import is_of_another_product
from device_plugin.core.contract.quantities import parse_quantity

# Fields whose keys are labels, or whose amounts nobody asks for.
_NO_REQUESTS = ("metadata", "status", "nodeSelector", "matchLabels")


@dataclass(frozen=True, slots=True)
class Template:
    """A pod or pod template: an object whose spec has containers.

    `above` are the mappings between the template and its owner.
    """

    pod: Object
    path: str
    above: tuple[Object, ...]


@dataclass(slots=True)
class Owner:
    """An object of Kubernetes, such as a Deployment or a pod, with its templates.

    `strays` are requests to other products in other fields: the resource, and the path of the field. A conversion adds
    `remarks` on differences and fields that stay, and the `problems` for which the object stays as it was.
    """

    value: Object
    kind: str
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
        for template, conversion, copy in [] if self.problems else done:
            if conversion.converted:
                template.pod.clear()
                template.pod.update(copy)
                self._scheduler(template)
            elif not conversion.remarks:
                self.remarks.append(f"{self._place(template)}asks no other product for a card; unchanged")
            self.remarks += (self._place(template) + remark for remark in conversion.remarks)

    def _place(self, template: Template) -> str:
        """The path of one of several templates, as the beginning of a sentence."""
        return f"{template.path}: " if len(self.templates) > 1 else ""

    def _scheduler(self, template: Template) -> None:
        """Convert another product's schedulerName above a template: a Job of Volcano gives its pods this name."""
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


def copied(value: Any) -> Any:
    """A copy of a value, with copies of all mappings and lists in it."""
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()}
    return [copied(part) for part in value] if isinstance(value, list) else value


class _Search:
    """Finds the objects in a document, each with its templates and strays, at any depth of any kind."""

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
        self.found.append(Owner(value, kind))
        return self.found[-1]

    def _mapping(self, value: Object, owner: Owner, path: str, above: tuple[Object, ...]) -> None:
        if "kind" in value and value is not owner.value:
            owner, path, above = self._owner(value, str(value["kind"])), "", ()
        spec = value.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            owner.templates.append(Template(value, path, above))
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
