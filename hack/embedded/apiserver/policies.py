"""Reads admission policies from their files (admissionregistration.k8s.io/v1), and compiles them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hack.documents import documents
from hack.embedded.apiserver.cel import Expression
from hack.embedded.apiserver.resources import RequestTarget

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """A resource rule of a policy: the writes to which the policy applies."""

    groups: frozenset[str]
    operations: frozenset[str]
    resources: frozenset[str]

    def matches(self, operation: str, target: RequestTarget) -> bool:
        """True if the rule covers this operation on `target`; `pods/*` covers every subresource of pods."""
        resource, sub = target.resource, target.subresource
        name = f"{resource.plural}/{sub}" if sub else resource.plural
        any_sub = {"*/*", f"{resource.plural}/*"} if sub else {"*", "*/*"}
        return (
            bool(self.groups & {"*", resource.group})
            and bool(self.operations & {"*", operation})
            and bool(self.resources & {name, *any_sub})
        )


@dataclass(frozen=True, slots=True)
class Validation:
    """An expression that must be true, and the message if it is not."""

    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """A policy together with its binding; a validating policy has `validations`, a mutating policy `patches`.

    It applies in namespaces that have all of `namespace_labels`.
    """

    name: str
    binding: str
    rules: tuple[Rule, ...]
    conditions: tuple[Expression, ...]
    variables: tuple[tuple[str, Expression], ...]
    validations: tuple[Validation, ...] = ()
    patches: tuple[Expression, ...] = ()
    ignore_errors: bool = False
    namespace_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Manifests:
    """The content of manifest files: compiled policies, and all objects, which must exist in the cluster."""

    policies: list[AdmissionPolicy] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)


def load(paths: Iterable[Path]) -> Manifests:
    """Read and compile the files. Raises ValueError for a kind that is no policy, binding, Namespace or ConfigMap."""
    manifests = Manifests()
    policies: dict[tuple[str, str], Document] = {}
    bindings: list[Document] = []
    for document in (each for path in paths for each in documents(path.read_text())):
        kind = document["kind"]
        manifests.objects.append(document)
        if kind in ("Namespace", "ConfigMap"):
            continue
        if kind in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"):
            policies[kind, document["metadata"]["name"]] = document["spec"]
        elif kind in ("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"):
            bindings.append(document)
        else:
            raise ValueError(f"{kind} is no kind of admission manifest")
    # A policy that only warns refuses nothing; warnings are not served here.
    for binding in (each for each in bindings if "Warn" not in each["spec"].get("validationActions", ())):
        kind = binding["kind"].removesuffix("Binding")
        name = binding["spec"]["policyName"]
        manifests.policies.append(_policy(name, policies[kind, name], binding))
    return manifests


def _policy(name: str, spec: Document, binding: Document) -> AdmissionPolicy:
    if "paramKind" in spec:
        raise ValueError(f"{name} has parameters, which are not served here")
    constraints = spec["matchConstraints"]
    selector = constraints.get("namespaceSelector", {})
    if selector.keys() - {"matchLabels"}:
        raise ValueError(f"{name} has a namespaceSelector that is not served here: write matchLabels")
    return AdmissionPolicy(
        name,
        binding["metadata"]["name"],
        tuple(_rule(rule) for rule in constraints["resourceRules"]),
        tuple(Expression(item["expression"]) for item in spec.get("matchConditions", ())),
        tuple((item["name"], Expression(item["expression"])) for item in spec.get("variables", ())),
        tuple(_validation(item) for item in spec.get("validations", ())),
        tuple(_patches(spec.get("mutations", ()))),
        spec.get("failurePolicy", "Fail") == "Ignore",
        selector.get("matchLabels", {}),
    )


def _rule(rule: Document) -> Rule:
    return Rule(frozenset(rule["apiGroups"]), frozenset(rule["operations"]), frozenset(rule["resources"]))


def _validation(item: Document) -> Validation:
    text = item.get("messageExpression")
    return Validation(
        Expression(item["expression"]),
        item.get("message", f"failed expression: {item['expression'].strip()}"),
        None if text is None else Expression(text),
        item.get("reason", "Invalid"),
    )


def _patches(mutations: Sequence[Document]) -> Iterator[Expression]:
    for mutation in mutations:
        if mutation["patchType"] != "JSONPatch":
            raise ValueError(f"patchType {mutation['patchType']} is not served here: write a JSONPatch")
        yield Expression(mutation["jsonPatch"]["expression"])
