import pytest

from device_plugin.adapters.yaml_text import NotYamlError
from device_plugin.cli.convert import json_text
from device_plugin.cli.convert.nodes import value


@pytest.mark.parametrize(
    "text",
    [
        "{}", ' [1, -2.5e3, {"a" : [], "b":{"c":null}}, true ]',
        '{\n\t"a/\\u00e9\\/\\ud83d\\ude00": "\\n" ,"":[ ]}', '"x"',
    ],
)  # fmt: skip
def test_the_node_of_a_value_has_that_value(text: str) -> None:
    ((start, end, found),) = json_text.values(text)
    node = json_text.node(text, start)
    assert (value(node), node.start, node.end) == (found, start, end)


def test_several_values_follow_one_another() -> None:
    assert [found for _, _, found in json_text.values('{"a": 1}\n{"b": 2} 3')] == [{"a": 1}, {"b": 2}, 3]


def test_a_deep_value_is_refused() -> None:
    assert list(json_text.values("[" * 100 + "]" * 100))
    for depth in (102, 100_000):
        with pytest.raises(NotYamlError, match="nested deeper than 100 levels"):
            list(json_text.values("[" * depth + "]" * depth))
