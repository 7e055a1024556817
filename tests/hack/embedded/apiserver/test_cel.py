"""CEL's values and errors are those of its specification (github.com/google/cel-spec, langdef.md)."""

from typing import Any

import pytest

from hack.embedded.apiserver.cel import Authorizer, EvaluationError, Expression, LazyMap

NAMES: dict[str, Any] = {
    "object": {"spec": {"containers": [{"name": "a"}, {"name": "b", "limits": {"x.y/mem": "4"}}]}, "n": 7},
    "oldObject": None,
    "yes": True,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 == 7", True),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("7.0 / 2.0", 3.5),
        ("'a' + 'b'", "ab"),
        ("[1] + [2]", [1, 2]),
        (r"'\'\u00e9\n'", "'é\n"),
        (r'r"\n"', r"\n"),
        ("true == 1", False),
        ("null == oldObject", True),
        ("object.n > 6 ? 'more' : 'less'", "more"),
        ("!yes || -object.n == -7", True),
        ("object.spec.containers[1].limits['x.y/mem']", "4"),
        ("has(object.spec) && !has(object.status)", True),
        ("'x.y/mem' in object.spec.containers[1].limits", True),
        ("1 in [true]", False),
        ("object.spec.containers.all(c, c.name < 'c')", True),
        ("object.spec.containers.exists(c, has(c.limits))", True),
        ("object.spec.containers.exists_one(c, has(c.limits))", True),
        ("object.spec.containers.filter(c, has(c.limits)).map(c, c.name)", ["b"]),
        ("{'a': 1, 'b': 2}.map(k, k)", ["a", "b"]),
        ("{'a': 1}.a", 1),
        ("JSONPatch{op: 'add', value: [yes]}", {"op": "add", "value": [True]}),
        ("'a,b'.split(',').join('-') + string(1) + string(true)", "a-b1true"),
        ("size('abc') + [1].size()", 4),
        ("'hygon.com/dcu'.matches('^[a-z.]+/dcu$')", True),
        ("'hygon.com/dcu\\n'.matches('^[a-z.]+/dcu$')", False),
        ("quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('2').asInteger() == 2", True),
        ("authorizer.group('').resource('pods').check('get').allowed()", True),
    ],
)
def test_values(text: str, value: object) -> None:
    found = Expression(text).evaluate({**NAMES, "authorizer": Authorizer(allowed=True)})
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("object.status", "no such key: status"),
        ("object['status']", "no such key: status"),
        ("object.spec.containers[2]", "index out of bounds: 2"),
        ("oldObject.spec", "no such overload"),
        ("stranger", "undeclared reference"),
        ("1 + 'a'", "no such overload"),
        ("yes + yes", "no such overload"),
        ("1 < 2.0", "no such overload"),
        ("1 / 0", "no such overload"),
        ("'yes' && yes", "is not a bool"),
        ("1 ? 2 : 3", "is not a bool"),
        ("quantity('many')", "is not a quantity"),
    ],
)
def test_errors(text: str, error: str) -> None:
    with pytest.raises(EvaluationError, match=error):
        Expression(text).evaluate(NAMES)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("object.status || yes", True),
        ("yes || object.status", True),
        ("object.status && !yes", False),
        ("!yes && object.status", False),
        ("[1, 2].exists(n, n == 2 || object.status)", True),
        ("[1, 2].all(n, n == 2 && object.status)", False),
    ],
)
def test_a_side_that_decides_absorbs_the_error_of_the_other_one(text: str, value: bool) -> None:
    assert Expression(text).evaluate(NAMES) is value


@pytest.mark.parametrize(
    "text",
    ["object.status || !yes", "object.status && yes", "[1].exists(n, object.status)", "[1].all(n, object.x)"],
)
def test_an_error_that_nothing_absorbs_is_one(text: str) -> None:
    with pytest.raises(EvaluationError, match="no such key"):
        Expression(text).evaluate(NAMES)


@pytest.mark.parametrize("text", ["a +", "unknown(1)", "'a'.unknown()", "1u", "b'a'"])
def test_what_is_not_served_does_not_compile(text: str) -> None:
    with pytest.raises(ValueError, match=r"does not compile|is not served here"):
        Expression(text)


def test_a_variable_is_evaluated_once_and_only_if_it_is_read() -> None:
    names = dict(NAMES)
    expressions = {
        "one": Expression("[object.n]"),
        "two": Expression("variables.one + [1]"),
        "bad": Expression("x.y"),
    }
    names["variables"] = LazyMap(expressions, names)
    two = Expression("variables.two")
    assert two.evaluate(names) == [7, 1]
    assert two.evaluate(names) is two.evaluate(names)
    assert set(names["variables"]) == {"one", "two"}
    with pytest.raises(EvaluationError, match="undeclared reference to 'x'"):
        Expression("variables.bad").evaluate(names)
    with pytest.raises(EvaluationError, match="no such key: three"):
        Expression("variables.three").evaluate(names)
