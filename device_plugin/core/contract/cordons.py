"""Why, when and by whom cards were cordoned, as the Node annotation `vgpu.io/cordon-notes` carries it.

Only people read it: whether a card is cordoned stands in `vgpu.io/cordoned`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from device_plugin.core.contract import annotations
from device_plugin.core.contract.annotations import MAX_CARDS, Fields
from device_plugin.core.errors import AnnotationError

# Most characters of a reason.
MAX_REASON = 200
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class CordonNote:
    """The author, time (RFC 3339) and reason of a cordon; empty texts where they are not known."""

    reason: str = ""
    by: str = ""
    at: str = ""

    def __str__(self) -> str:
        """`repair of a fan, by jane`."""
        return ", ".join(filter(None, (self.reason, f"by {self.by}" if self.by else "")))


def read_notes(text: str) -> Mapping[str, CordonNote]:
    """The notes in an annotation's text, by the name of the card; none if the text cannot be read."""
    try:
        fields = annotations.read_object(text, "cordon notes") if text else None
        cards = fields.mapping("cards", most=MAX_CARDS) if fields is not None else {}
        return {uuid: _note(Fields(entry, "cordon note")) for uuid, entry in cards.items()}
    except AnnotationError:
        return {}


def write_notes(notes: Mapping[str, CordonNote]) -> str:
    """The text of the annotation; empty without notes."""
    if not notes:
        return ""
    cards = {
        uuid: {"reason": note.reason or _UNKNOWN, "by": note.by or _UNKNOWN, "at": note.at or _UNKNOWN}
        for uuid, note in sorted(notes.items())
    }
    return annotations.write_object({"cards": cards})


def _note(fields: Fields) -> CordonNote:
    texts = (fields.text(key, max_length=MAX_REASON) for key in ("reason", "by", "at"))
    return CordonNote(*("" if text == _UNKNOWN else text for text in texts))
