"""JSONPath as kubectl writes it: each form of a path, templates with ranges, and errors that say where they are."""

from typing import Any

import pytest

from device_plugin.cli.printing import jsonpath
from device_plugin.cli.printing.jsonpath import JsonPathError, Template, cell, path_of

CUPS: dict[str, Any] = {
    "cups": [
        {"name": "a", "filled": 2, "labels": {"x.io/size": "s"}, "parts": [1, 2, 3], "owner": None},
        {"name": "b", "filled": 10, "labels": {}, "parts": [], "chipped": True},
        {
            "name": "c\x1b[2J",
            "filled": 0.5,
            "labels": {"x.io/size": "l"},
            "parts": [4],
            "spare": {"name": "d"},
        },
    ],
    "missing": [],
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.cups[*].name}", "a b c\ufffd[2J"),
        ("{.items[*].filled}", "2 10 0.5"),
        ("{$.items[0].name}", "a"),
        ("{.cups[0].name}", "a"),
        ("{.cups[-1].filled}", "0.5"),
        ("{.cups[0,1].name}", "a b"),
        ("{.cups[7].name}", ""),
        ("{.cups[1:].filled}", "10 0.5"),
        ("{.cups[::2].filled}", "2 0.5"),
        ("{.cups[0]['name','filled']}", "a 2"),
        ('{.cups[0]["name"]}', "a"),
        (r"{.cups[*].labels.x\.io/size}", "s l"),
        ("{.cups[*].labels['x.io/size']}", "s l"),
        ("{.cups[0].parts}", "[1, 2, 3]"),
        ("{.cups[0].parts[*]}", "1 2 3"),
        ("{.cups[0].labels.*}", "s"),
        ("{.cups[0].owner}", "null"),
        ("{.cups[*].chipped}", "true"),
        ("{.cups[*].absent.name}", ""),
        ("{.cups.name}", ""),
        ("{..name}", "a b c\ufffd[2J d"),
        ("{.cups[2]..*}", '{"name": "c\\u001b[2J", "filled": 0.5, "labels": {"x.io/size": "l"}, "parts": [4], '
                          '"spare": {"name": "d"}} c\ufffd[2J 0.5 {"x.io/size": "l"} l [4] 4 {"name": "d"} d'),
        ('{.cups[?(@.name=="b")].filled}', "10"),
        ('{.cups[?(@.name != "b")].filled}', "2 0.5"),
        ("{.cups[?(@.filled>=2)].name}", "a b"),
        ("{.cups[?(@.filled<2)].filled}", "0.5"),
        ("{.cups[?(@.name>2)].name}", ""),
        ("{.cups[?(@.chipped)].name}", "b"),
        ("{.cups[?(@.chipped==true)].name}", "b"),
        ("{.cups[0].parts[?(@>1)]}", "2 3"),
        ('{.cups[?(@.labels.x\\.io/size=="s")].name}', "a"),
        (".cups[*].filled", "2 10 0.5"),
        ("cups: {.cups[0].name}!", "cups: a!"),
        ('{range .cups[*]}{.filled}{"\\t"}{.parts[0]}{"\\n"}{end}', "2\t1\n10\t\n0.5\t4\n"),
        ("{range .items[*]}{range .parts[*]}{@},{end};{end}.", "1,2,3,;;4,;."),
        ("{range .cups[*]}{$.items[0].name}{end}", "aaa"),
        ("{ .cups[0].name }", "a"),
        ("{.missing}", "[]"),
    ],
)  # fmt: skip
def test_a_template_is_the_text_of_the_values(template: str, text: str) -> None:
    assert Template.of(template, "cups").text(CUPS) == text


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{.cups[*}", "a ] is missing, before '}' of '{.cups[*}'"),
        ("{.cups", "a } is missing, at the end of '{.cups'"),
        ("{}", "a path is missing, such as .name"),
        ("{.cups[x]}", "a number, a name in quotes, * or ?(...) is missing"),
        ("{.cups[?(.a==)]}", "a number, a text in quotes, true, false or null is missing"),
        ("{.cups[?(.a==1]}", "a ) is missing"),
        ("{..}", "a name after .. is missing"),
        ("{end}", "{end} without a {range ...}"),
        ("{range .cups[*]}{.name}", "a {range ...} has no {end}"),
        ("{range .a}" * 9 + "{end}" * 9, "more than 8 ranges inside each other"),
        ("{.a" + "[?(@.a" * 300 + ")]" * 300 + "}", "more than 8 filters inside each other"),
        ("{.a .b}", "a } is missing, before '.b}'"),
        ("{.a}" * 2000, "write at most 4,096 characters"),
    ],
)
def test_a_malformed_template_is_refused_with_the_place(template: str, says: str) -> None:
    with pytest.raises(JsonPathError) as refused:
        Template.of(template, "cups")
    assert says in str(refused.value)


def test_a_path_with_too_many_values_is_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonpath, "MOST_VALUES", 100)
    template = Template.of("{" + "..*" * 30 + "}", "cups")
    with pytest.raises(JsonPathError, match="more than 100 values"):
        template.text(CUPS)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".name", "a"), ("name", "a"), ("{.name}", "a"), (".parts[*]", "1,2,3"), (".owner", ""), (".absent", ""),
        (".parts", "[1, 2, 3]"), (".", str(CUPS["cups"][0]).replace("'", '"').replace("None", "null")),
    ],
)  # fmt: skip
def test_a_cell_has_the_values_with_commas(path: str, text: str) -> None:
    assert cell(path_of(path), CUPS["cups"][0]) == text


@pytest.mark.parametrize("path", [".name}", ".name.", "{.name", ".a b"])
def test_a_column_has_one_whole_path(path: str) -> None:
    if path == ".name.":
        assert cell(path_of(path), CUPS["cups"][0]) == "a"
        return
    with pytest.raises(JsonPathError):
        path_of(path)
