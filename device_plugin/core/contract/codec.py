"""Reads and writes the JSON texts of the contract. A struct describes each kind of text.

Any user who may edit a pod or a node can write anything into its annotations. So a reader either returns fully checked
values or raises AnnotationError; it raises no other exception.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from device_plugin.core.contract.annotations import MAX_BYTES, MAX_INT, MAX_TEXT, VERSION
from device_plugin.core.errors import AnnotationError

Kind = TypeVar("Kind")
Value = TypeVar("Value")
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]
"""A name or a uuid."""
Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_INT)]
Amount = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT)]
_WRITER = json.JSONEncoder(separators=(",", ":"))


class Reader(Generic[Kind]):
    """Reads one kind of JSON text. It ignores unknown keys, and refuses strings with unprintable characters.

    `what` is the text's name in errors. If the text is `versioned`, it has the key `v`, which must be our version.
    `required` are keys that a text must have although the struct has defaults for them. A text has at most `longest`
    characters.
    """

    def __init__(
        self, kind: type[Kind], what: str, *, versioned: bool = True, required: Sequence[str] = (),
        longest: int = MAX_BYTES,
    ) -> None:  # fmt: skip
        self._what = what
        self._longest = longest
        self._versioned = versioned
        version = [("v", int)] if versioned else []
        self._required = required
        keys = [(key, msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for key in required]
        # The version is read first, because a text of another version may have any form.
        self._head = msgspec.json.Decoder(msgspec.defstruct("Head", [*version, *keys], gc=False))
        self._decoder = msgspec.json.Decoder(kind)

    def read(self, text: str) -> Kind:
        """The value in `text`. Raises AnnotationError, which says where the text is wrong."""
        if len(text) > self._longest:
            raise AnnotationError(
                f"{self._what}: {len(text)} characters long, at most {self._longest} are read"
            )
        try:
            head: Any = self._head.decode(text)
            if self._versioned and head.v != VERSION:
                raise AnnotationError(f"{self._what}: version {head.v}, this program reads version {VERSION}")
            for key in self._required:
                if getattr(head, key) is msgspec.UNSET:
                    raise AnnotationError(f"{self._what}: object missing required field {key}")
            value = self._decoder.decode(text)
        except msgspec.ValidationError as error:
            raise AnnotationError(f"{self._what}: {_readable(error)}") from None
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise AnnotationError(f"{self._what}: not JSON ({error})") from None
        # The search through all strings is slow. A text that is printable as a whole, as nearly all are, needs none.
        if "\\" in text or not text.isprintable():
            place = next(_unprintable(msgspec.to_builtins(value), ""), None)
            if place is not None:
                raise AnnotationError(f"{self._what}: {place} must have printable characters only")
        return value


def write_object(fields: Mapping[str, object]) -> str:
    """The text of an annotation with these fields: one line of versioned JSON, keys in their order."""
    return _WRITER.encode({"v": VERSION, **fields})


def ascii_text(text: bytes) -> str:
    """The JSON `text` in ASCII: all other characters are escaped, as `write_object` does."""
    return text.decode() if text.isascii() else _WRITER.encode(json.loads(text))


def json_length(value: object) -> int:
    """The number of characters that `value` takes as JSON in an annotation."""
    return len(_WRITER.encode(value))


@lru_cache(4096)
def shared(value: Value) -> Value:
    """An object equal to `value`, the same one for all equal values.

    This saves memory: 80,000 cards and grants have few different models and sizes.
    """
    return value


def _readable(error: msgspec.ValidationError) -> str:
    """The text of a msgspec error, with the place in the JSON first: `cards[0].memMiB: expected int >= 1`."""
    text, _, place = str(error).replace("`", "").partition(" - at ")
    text = text[0].lower() + text[1:]
    return f"{place.replace('$.', '').replace('key in ', 'a key of ')}: {text}" if place else text


def _unprintable(value: object, place: str) -> Iterator[str]:
    """The places in a JSON value where a text or a key has unprintable characters, as texts for an error."""
    if isinstance(value, str):
        if not value.isprintable():
            yield place
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if not key.isprintable():
                yield f"a key of {place}" if place else "a key"
            else:
                yield from _unprintable(inner, f"{place}.{key}" if place else key)
    elif isinstance(value, Iterable):
        for number, inner in enumerate(value):
            yield from _unprintable(inner, f"{place}[{number}]")
