"""Answers in parts, as one paragraph and as JSON."""

from device_plugin.core.answers import Answer, sentence


def test_a_paragraph_has_all_parts_and_none_that_is_empty() -> None:
    whole = Answer("a fits nowhere", ("1 node is full",), ("Wait",), "From a list")
    assert whole.as_paragraph() == "a fits nowhere. 1 node is full. Wait. From a list"
    assert Answer("a runs").as_paragraph() == "a runs"
    assert whole.as_object() == {"answer": "a fits nowhere", "reasons": ["1 node is full"], "help": ["Wait"]}


def test_a_sentence_begins_with_a_capital_letter() -> None:
    assert [sentence(text) for text in ("wait for N", "2 nodes", "")] == ["Wait for N", "2 nodes", ""]
