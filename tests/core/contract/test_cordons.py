"""The notes of cordons as an annotation."""

import pytest

from device_plugin.core.contract.cordons import MAX_REASON, CordonNote, read_notes, write_notes

NOTES = {"GPU-2": CordonNote("", "jane", ""), "GPU-1": CordonNote("Lüfter", "", "2026-11-24T08:00:00Z")}


def test_what_is_written_is_read() -> None:
    text = write_notes(NOTES)
    assert text == (
        '{"v":1,"cards":{"GPU-1":{"reason":"L\\u00fcfter","by":"-","at":"2026-11-24T08:00:00Z"},'
        '"GPU-2":{"reason":"-","by":"jane","at":"-"}}}'
    )
    assert read_notes(text) == NOTES
    assert write_notes({}) == ""
    assert read_notes("") == {}


@pytest.mark.parametrize(
    "note",
    [
        '{"reason":"a","by":"b"}',
        '{"reason":"","by":"b","at":"c"}',
        '{"reason":"a\\nb","by":"b","at":"c"}',
        '{"reason":"a","by":7,"at":"c"}',
        f'{{"reason":"{"a" * (MAX_REASON + 1)}","by":"b","at":"c"}}',
    ],
)
def test_notes_that_cannot_be_shown_are_none(note: str) -> None:
    assert read_notes(f'{{"v":1,"cards":{{"c":{note}}}}}') == {}
