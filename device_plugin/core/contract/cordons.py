"""Notes about cordoned cards (why, when and by whom), as the Node annotation `vgpu.io/cordon-notes` carries them.

Only people read the notes; the annotation `vgpu.io/cordoned` decides which cards are cordoned.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from device_plugin.core.contract.annotations import MAX_CARDS
from device_plugin.core.contract.codec import Reader, write_object
from device_plugin.core.errors import AnnotationError

# Most characters of a reason.
MAX_REASON = 200
_UNKNOWN = "-"
_Part = Annotated[str, Meta(min_length=1, max_length=MAX_REASON)]


class CordonNote(msgspec.Struct, frozen=True, gc=False):
    """The author, the time (RFC 3339) and the reason of a cordon; a text is empty if it is unknown."""

    reason: _Part
    by: _Part
    at: _Part

    def __str__(self) -> str:
        """The reason and the author as one text: `repair of a fan, by jane`."""
        return ", ".join(filter(None, (self.reason, f"by {self.by}" if self.by else "")))


class _Notes(msgspec.Struct, gc=False):
    cards: Annotated[Mapping[str, CordonNote], Meta(max_length=MAX_CARDS)]


_READER = Reader(_Notes, "cordon notes")


def read_notes(text: str) -> Mapping[str, CordonNote]:
    """The notes in an annotation's text, by the card's uuid; none if the text cannot be read."""
    try:
        notes = _READER.read(text).cards if text else {}
    except AnnotationError:
        return {}
    return {uuid: CordonNote(*map(_known, (note.reason, note.by, note.at))) for uuid, note in notes.items()}


def write_notes(notes: Mapping[str, CordonNote]) -> str:
    """The notes as text for the annotation; empty if there are no notes."""
    if not notes:
        return ""
    cards = {
        uuid: {"reason": note.reason or _UNKNOWN, "by": note.by or _UNKNOWN, "at": note.at or _UNKNOWN}
        for uuid, note in sorted(notes.items())
    }
    return write_object({"cards": cards})


def _known(text: str) -> str:
    return "" if text == _UNKNOWN else text
