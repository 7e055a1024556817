from typing import Any

import pytest

from device_plugin.adapters.yaml_text import NotYamlError
from device_plugin.cli.convert.nodes import ListNode, MappingNode, Node, Plain, roots, value


def read(text: str) -> Any:
    (root,) = roots(text)
    return value(root.node)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0", 0), ("-10", -10), ("&n 2", 2), ('"2"', "2"), ("!!str 2", "2"), ("null", None), ("~", None), ("", None),
        ("yes", True), ("off", False), ("- a\n- b: 1", ["a", {"b": 1}]), ("|\n  x\n\n", "x\n"),
    ],
)  # fmt: skip
def test_values(text: str, meant: Any) -> None:
    assert read(f"k: {text}" if not text.startswith("-") or text == "-10" else f"k:\n{text}") == {"k": meant}


@pytest.mark.parametrize("text", ["010", "0x10", "10_000", "1:30", "1.50", "2024-01-01", "!mine x"])
def test_a_value_of_another_notation_stays_a_text(text: str) -> None:
    found = read(text)
    assert isinstance(found, Plain)
    assert str(found) == text.removeprefix("!mine ")


def test_the_first_of_several_merged_mappings_decides_and_own_keys_first_of_all() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {x: 2, y: 2, z: 2}\nc: {y: 3, <<: [*a, *b]}\n"
    assert read(text)["c"] == {"x": 1, "y": 3, "z": 2}


def test_two_aliases_are_two_objects() -> None:
    made = read("a: &a {x: [1]}\nb: *a\n")
    made["b"]["x"].append(2)
    assert made["a"] == {"x": [1]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: the key a is there twice"),
        ("a: 1\nname: {{ .Values.name }}\n", "line 2: a list or mapping is no key"),
        ("a: *b\n", r"line 1: undefined alias \*b"),
        ("a: 1\n<<: 5\n", "line 2: << needs a mapping"),
    ],
)
def test_an_error_names_the_line(text: str, why: str) -> None:
    with pytest.raises(NotYamlError, match=why):
        read(text)


def places(text: str, node: Node | None) -> list[str]:
    """The texts of keys and scalars."""
    if isinstance(node, MappingNode):
        return [each for key, part in node.pairs for each in (text[key.start : key.end], *places(text, part))]
    if isinstance(node, ListNode):
        return [each for item in node.items for each in places(text, item)]
    return [] if node is None else [text[node.start : node.end].replace("\r\n", "\n")]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_each_value_is_at_its_place_without_comments_and_blank_lines_behind_it(newline: str) -> None:
    text = '# c\na: &x {b: "中"} # c\nd: |\n  e\n\n# c\nf:\n- g # c\n- - h\n  - *x\n\ni: |+\n  j\n\nk:\n'
    text = text.replace("\n", newline)
    found = places(text, next(roots(text)).node)
    assert found == ["a", "b", '"中"', "d", "|\n  e", "f", "g", "h", "*x", "i", "|+\n  j\n", "k", ""]
