"""Label and field selectors: the parts of their grammar that Kubernetes clients use."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from hack.embedded.apiserver import errors
from hack.embedded.apiserver.resources import ApiResource
from hack.embedded.apiserver.store import Stored

Check = Callable[[Mapping[str, str]], bool]

_TERM = re.compile(
    r"(?P<absent>!)?\s*(?P<key>[^\s!=,()]+)"
    r"(?:\s*(?P<equal>==|=|!=)\s*(?P<value>[^\s!=,()]*)|\s+(?P<set>in|notin)\s+\((?P<values>[^()]*)\))?"
)


def selects(resource: ApiResource, namespace: str, labels: str, fields: str) -> Callable[[Stored], bool]:
    """The test that a list or watch applies. Raises StatusError 400 for a selector that it cannot read."""
    label_checks = [_label_check(term.strip()) for term in _terms(labels)]
    field_checks = [_field_check(resource, term.strip()) for term in fields.split(",") if term.strip()]

    def test(stored: Stored) -> bool:
        if namespace and stored.namespace != namespace:
            return False
        if label_checks:
            own: Mapping[str, str] = stored.value["metadata"].get("labels") or {}
            if not all(check(own) for check in label_checks):
                return False
        return all((_field(stored.value, path) == value) is wanted for path, value, wanted in field_checks)

    return test


def _terms(labels: str) -> list[str]:
    # Commas inside parentheses separate values, not terms.
    return [term for term in re.split(r",(?![^(]*\))", labels) if term.strip()]


def _label_check(term: str) -> Check:
    match = _TERM.fullmatch(term)
    if match is None or (match["absent"] and (match["equal"] or match["set"])):
        raise errors.bad_request(f"unable to parse requirement: {term!r}")
    key = match["key"]
    if match["set"]:
        wanted, values = match["set"] == "in", {value.strip() for value in match["values"].split(",")}
    elif match["equal"]:
        wanted, values = match["equal"] != "!=", {match["value"]}
    else:
        present = not match["absent"]
        return lambda labels: (key in labels) is present
    # An absent label counts as a value that no selector names.
    return lambda labels: (labels.get(key) in values) is wanted


def _field_check(resource: ApiResource, term: str) -> tuple[tuple[str, ...], str, bool]:
    match = _TERM.fullmatch(term)
    if match is None or match["absent"] or not match["equal"]:
        raise errors.bad_request(f"invalid selector: {term!r}; can't understand {term!r}")
    key = match["key"]
    if key not in ("metadata.name", "metadata.namespace", *resource.fields):
        raise errors.bad_request(f"field label not supported: {key}")
    return tuple(key.split(".")), match["value"], match["equal"] != "!="


def _field(value: Any, path: tuple[str, ...]) -> str:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
