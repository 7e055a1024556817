"""Any text of the contract is read or refused, whichever of its kinds is expected."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.checkpoint import Checkpoint
from device_plugin.core.contract.codec import Reader
from device_plugin.core.contract.cordons import read_notes
from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.resize import Resize
from device_plugin.core.errors import AnnotationError

READERS = [Grant.decode, Inventory.decode, Checkpoint.decode]
BAD = [
    ("", "not JSON"),
    ('{"v":1,"gen":1,', "not JSON"),
    ('{"v":1,"gen":1,"pod":"\ud800"}', "not JSON"),
    ("[null]", "expected object, got array"),
    ("null", "expected object, got null"),
    ("{}", "object missing required field v"),
    ('{"v":true}', "v: expected int, got bool"),
    ('{"v":2}', "version 2, this program reads version 1"),
    ("[" * 50_000, "expected object"),
    ('{"later":' + "[" * 50_000, "not JSON"),
    ("x" * 70_000, "70000 characters long"),
    ('{"v":1' + "9" * 5000 + "}", "out of range"),
    ('{"v":NaN}', "not JSON"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
@pytest.mark.parametrize("reader", READERS)
def test_nothing_readable_is_refused_with_the_cause(
    reader: Callable[[str], object], text: str, message: str
) -> None:
    with pytest.raises(AnnotationError, match=message):
        reader(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for reader in (*READERS, Resize.decode):
        with pytest.raises(AnnotationError):
            reader(text)
    assert not read_notes(text)


def test_of_another_version_not_even_the_form_is_read() -> None:
    with pytest.raises(AnnotationError, match="version 2, this program reads version 1"):
        Grant.decode('{"containers":[],"v":2,"pod":7}')


def test_a_place_is_named_where_characters_are_not_printable() -> None:
    reader = Reader(dict[str, list[str]], "list", versioned=False)
    assert reader.read('{"a":["\\u00fc"]}') == {"a": ["ü"]}
    with pytest.raises(AnnotationError, match=r"list: a\[1\] must have printable characters only"):
        reader.read('{"a":["b","\\u202e"]}')
    with pytest.raises(AnnotationError, match="list: a key must have printable"):
        reader.read('{"\\u202e":[]}')
