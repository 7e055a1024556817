"""CEL as Kubernetes evaluates it: cel-python, and the library functions that the policies use.

The functions follow k8s.io/apiserver pkg/cel/library (quantity, lists, authz) and cel-go ext (strings).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

import celpy
import lark
from celpy import celtypes
from celpy.adapter import CELJSONEncoder, json_to_cel
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError

from hack.embedded.apiserver import quantities

EvaluationError = CELEvalError


def to_cel(value: Mapping[str, Any]) -> celtypes.MapType:
    """A JSON object as expressions see it."""
    return cast(celtypes.MapType, json_to_cel(cast(Any, value)))


def to_json(value: Any) -> Any:
    """The JSON value of an expression's result, made of strings, lists and maps."""
    return json.loads(CELJSONEncoder().encode(value))


class Quantity(Fraction):
    """A resource amount inside an expression."""


@dataclass(frozen=True, slots=True)
class Authorizer:
    """Answers all authorizer questions of expressions with `allowed`: there is no RBAC here."""

    allowed: bool


def _quantity(text: celtypes.StringType) -> Quantity:
    value = quantities.parse(str(text))
    if value is None:
        raise CELEvalError(f"{text!r} is not a quantity")
    return Quantity(value)


def _split(text: celtypes.StringType, separator: celtypes.StringType) -> celtypes.ListType:
    return celtypes.ListType([celtypes.StringType(part) for part in str(text).split(str(separator))])


_FUNCTIONS: Mapping[str, Any] = {
    "quantity": _quantity,
    "isInteger": lambda amount: celtypes.BoolType(amount.denominator == 1),
    "asInteger": lambda amount: celtypes.IntType(int(amount)),
    "isGreaterThan": lambda amount, other: celtypes.BoolType(amount > other),
    # Built in, but not for the results of "+" on strings.
    "contains": lambda text, part: celtypes.BoolType(part in text),
    "startsWith": lambda text, start: celtypes.BoolType(text.startswith(start)),
    "isLessThan": lambda amount, other: celtypes.BoolType(amount < other),
    "split": _split,
    "substring": lambda text, start, end: celtypes.StringType(text[start:end]),
    "join": lambda parts, separator: celtypes.StringType(str(separator).join(parts)),
    "indexOf": lambda parts, item: celtypes.IntType(parts.index(item) if item in parts else -1),
    "upperAscii": lambda text: celtypes.StringType(text.upper()),
    "lowerAscii": lambda text: celtypes.StringType(text.lower()),
    **dict.fromkeys(("group", "resource", "namespace", "check"), lambda authorizer, _: authorizer),
    "allowed": lambda authorizer: celtypes.BoolType(authorizer.allowed),
}
_LEVELS = ("expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary")
# Kubernetes gives JSON patches a type of their own; here it is any message.
_ENVIRONMENT = celpy.Environment(annotations={"JSONPatch": celtypes.MessageType})


def _flattened(tree: lark.Tree[lark.Token]) -> lark.Tree[lark.Token]:
    """The tree without the levels of precedence that the expression does not use, which take half of the time."""
    tree.children = [_flattened(child) if isinstance(child, lark.Tree) else child for child in tree.children]
    if tree.data == "fieldinits":
        # cel-python expects one level more around a field's value, which a condition lacks: add it.
        tree.children = [
            lark.Tree("expr", [child]) if isinstance(child, lark.Tree) else child for child in tree.children
        ]
    only = tree.children[0] if len(tree.children) == 1 else None
    return only if tree.data in _LEVELS and isinstance(only, lark.Tree) else tree


class LazyMap(celtypes.MapType):
    """A map whose values are evaluated when they are first read, as Kubernetes does with variables."""

    def __init__(self, expressions: "Mapping[str, Expression]", names: Mapping[str, Any]) -> None:
        super().__init__()
        self._expressions = expressions
        self._names = names

    def __getitem__(self, key: Any) -> Any:
        if key not in self:
            self[key] = self._expressions[str(key)].evaluate(self._names)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any | None = None) -> Any:
        """The value of `key`; `default` for an unknown name."""
        return self[key] if str(key) in self._expressions else super().get(key, default)


class Expression:
    """A CEL expression, compiled from `text`. Raises ValueError if it does not compile."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._program = _compiled(text)

    def evaluate(self, names: Mapping[str, Any]) -> Any:
        """The value with these variables (of `to_cel`). Raises EvaluationError."""
        return self._program.evaluate(dict(names))


@lru_cache(maxsize=1024)
def _compiled(text: str) -> celpy.Runner:
    """The program of an expression. Compiling costs milliseconds, and a process of tests starts hundreds of servers."""
    try:
        tree = _ENVIRONMENT.compile(text)
    except CELParseError as error:
        raise ValueError(f"the CEL expression {text!r} does not compile: {error}") from None
    return _ENVIRONMENT.program(_flattened(tree), functions=dict(_FUNCTIONS))
