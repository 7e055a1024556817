"""The value of -o: what is no format is refused with what to write."""

from argparse import ArgumentTypeError

import pytest

from device_plugin.cli.printing.formats import checked, format_of
from device_plugin.cli.printing.jsonpath import cell


@pytest.mark.parametrize(
    "text", ["wide", "json", "yaml", "name", "jsonpath={.cups}", "custom-columns=A:.a,B:.b"]
)
def test_a_format_stays_as_it_was_written(text: str) -> None:
    assert checked(text, "cups") == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jsn", "'jsn' is no format: write wide, json, yaml, name, custom-columns=... or jsonpath=..."),
        ("jsonpath", "jsonpath needs an expression, such as jsonpath='{.cups[*].name}'"),
        ("custom-columns=", "custom-columns needs an expression, such as custom-columns=NAME:.name"),
        ("custom-columns=NAME", "custom-columns: 'NAME' is no column: write TITLE:.path, such as NAME:.name"),
        ("custom-columns=NAME:.name[", "JSONPath: a number, a name in quotes, * or ?(...) is missing"),
        ("custom-columns=" + "A:.a," * 2000, "custom-columns: write at most 4,096 characters"),
        ("jsonpath={.cups", "JSONPath: a } is missing"),
    ],
)
def test_what_is_no_format_is_refused_with_what_to_write(text: str, says: str) -> None:
    with pytest.raises(ArgumentTypeError) as refused:
        checked(text, "cups")
    assert says in str(refused.value)


def test_commas_in_brackets_divide_no_columns() -> None:
    columns = format_of("custom-columns=A:.parts[0,2], B :.name", "cups").columns
    assert [column.title for column in columns] == ["A", "B"]
    assert [cell(column.path, {"name": "a", "parts": [1, 2, 3]}) for column in columns] == ["1,3", "a"]
