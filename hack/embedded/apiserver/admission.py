"""The admission chain: it finds the policies that apply to a write, and lets them change or refuse the write.

Order and wording follow k8s.io/apiserver pkg/admission/plugin/policy.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hack.embedded.apiserver import cel, errors
from hack.embedded.apiserver.cel import Expression
from hack.embedded.apiserver.policies import AdmissionPolicy, Validation
from hack.embedded.apiserver.resources import RequestTarget
from hack.embedded.apiserver.store import Object

# The user with all rights; the authorizer denies all other users.
ADMIN = "system:admin"
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A write that admission decides. `old` is None for a creation; a DELETE has `options` and an empty `new`.

    With `dry`, nothing is stored.
    """

    user: str
    operation: str
    target: RequestTarget
    new: Object
    old: Object | None = None
    options: Object | None = None
    dry: bool = False


class PolicyAdmission:
    """Applies admission policies to writes, as the API server does; `namespace_of` returns a namespace's object."""

    def __init__(self, policies: Sequence[AdmissionPolicy], namespace_of: Callable[[str], Object]) -> None:
        self._namespace_of = namespace_of
        self._mutating = [policy for policy in policies if policy.patches]
        self._validating = [policy for policy in policies if policy.validations]

    def mutate(self, write: AdmissionRequest) -> None:
        """Apply the patches of the matching policies to `write.new`, one after another."""
        for policy in self._mutating:
            with _failure(policy, write):
                names = _Scope(write, self._namespace_of).names_for(policy)
                for expression in policy.patches if names else ():
                    for operation in expression.evaluate(names):
                        _patch(write.new, operation)

    def validate(self, write: AdmissionRequest) -> None:
        """Raise StatusError with the message of the first validation that does not hold, if there is one."""
        scope = _Scope(write, self._namespace_of)
        for policy in self._validating:
            with _failure(policy, write):
                names = scope.names_for(policy)
                for validation in policy.validations if names else ():
                    if not validation.expression.evaluate(names):
                        raise _denied(write, policy, _message(validation, names), validation.reason)


class _Scope:
    """The variables of expressions about one write. Conditions are evaluated once, because policies share them."""

    def __init__(self, write: AdmissionRequest, namespace_of: Callable[[str], Object]) -> None:
        self._write = write
        self._namespace_of = namespace_of
        self._conditions: dict[str, bool] = {}

    def names_for(self, policy: AdmissionPolicy) -> dict[str, Any]:
        """The variables by name, with the policy's own variables; empty if the policy does not apply to the write."""
        if not any(rule.matches(self._write.operation, self._write.target) for rule in policy.rules):
            return {}
        if policy.namespace_labels and not self._in_namespace_with(policy.namespace_labels):
            return {}
        if not all(self._holds(condition) for condition in policy.conditions):
            return {}
        names = self._names.copy()
        names["variables"] = cel.LazyMap(dict(policy.variables), names)  # a variable may name others
        return names

    def _in_namespace_with(self, labels: Mapping[str, str]) -> bool:
        found = self._namespace["metadata"].get("labels") or {}
        return all(found.get(key) == value for key, value in labels.items())

    @cached_property
    def _namespace(self) -> Object:
        return self._namespace_of(self._write.target.namespace)

    @cached_property
    def _names(self) -> dict[str, Any]:
        return {**_names(self._write), "namespaceObject": self._namespace}

    def _holds(self, condition: Expression) -> bool:
        if condition.text not in self._conditions:
            self._conditions[condition.text] = bool(condition.evaluate(self._names))
        return self._conditions[condition.text]


def _message(validation: Validation, names: Mapping[str, Any]) -> str:
    expression = validation.message_expression
    return (validation.message if expression is None else str(expression.evaluate(names))).strip()


@contextmanager
def _failure(policy: AdmissionPolicy, write: AdmissionRequest) -> Iterator[None]:
    """Refuse the write if an expression inside the context cannot be evaluated, unless the policy ignores errors."""
    try:
        yield
    except cel.EvaluationError as error:
        if not policy.ignore_errors:
            raise _denied(write, policy, f"expression failed: {error}", "Invalid") from None


def _names(write: AdmissionRequest) -> dict[str, Any]:
    target = write.target
    where = {"name": target.name, "namespace": target.namespace, "subResource": target.subresource}
    request = {
        "operation": write.operation,
        "dryRun": write.dry,
        "userInfo": _user_info(write.user),
        "resource": {"group": target.resource.group, "resource": target.resource.plural},
        **{key: value for key, value in where.items() if value},  # empty values are absent, as in Kubernetes
        **({} if write.options is None else {"options": write.options}),
    }
    return {
        "request": request,
        "object": None if write.operation == "DELETE" else write.new,
        "oldObject": write.old,
        "authorizer": cel.Authorizer(write.user == ADMIN),
    }


def _user_info(user: str) -> dict[str, Any]:
    """The userInfo of `user`; USER@NODE is a token of a pod on that node (pkg/serviceaccount in Kubernetes)."""
    username, _, node = user.partition("@")
    extra = {"authentication.kubernetes.io/node-name": [node]} if node else {}
    return {"username": username, "groups": [*_groups(username), "system:authenticated"], "extra": extra}


def _groups(username: str) -> list[str]:
    if username.startswith("system:node:"):
        return ["system:nodes"]
    if username.startswith("system:serviceaccount:"):
        return ["system:serviceaccounts", f"system:serviceaccounts:{username.split(':')[2]}"]
    return []


def _denied(
    write: AdmissionRequest, policy: AdmissionPolicy, message: str, reason: str
) -> errors.StatusError:
    plural, name = write.target.resource.qualified, write.target.name
    denial = (
        f"ValidatingAdmissionPolicy '{policy.name}' with binding '{policy.binding}' denied request: {message}"
    )
    details = {"name": name, "kind": write.target.resource.plural, "causes": [{"message": message}]}
    text = f'{plural} "{name}" is forbidden: {denial}'
    return errors.StatusError(_CODES.get(reason, 422), reason, text, details)


def _patch(value: Object, operation: Mapping[str, Any]) -> None:
    """Carry out one `add` of a JSON patch (RFC 6902): to a member of an object, or to the end of a list ("-")."""
    if operation["op"] != "add":
        raise ValueError(f"JSON patch {operation['op']} is not served here: write add")
    steps = str(operation["path"]).lstrip("/").split("/")
    *parents, last = (step.replace("~1", "/").replace("~0", "~") for step in steps)  # RFC 6901
    place: Any = value
    for key in parents:
        place = place[int(key) if isinstance(place, list) else key]
    new = deepcopy(operation["value"])
    if not isinstance(place, list):
        place[last] = new
    elif last == "-":
        place.append(new)
    else:
        raise ValueError(f"JSON patch {operation['path']} is not served here: only the end of a list")
