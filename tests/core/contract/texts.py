"""Texts that are no annotation of ours, texts that are changed in one place, and any JSON."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from device_plugin.core.contract.annotations import MAX_INT
from device_plugin.core.errors import AnnotationError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_SCALARS = ["0", "1", "-1", "61", "1.5", "1.0", "1e0", "NaN", "true", "false", "null", str(2**40), str(2**41)]
_LISTS = ["[]", "[1,0]", "[1,1]", "[1024]", "{}"]
_TEXTS = [
    '"x"', '""', '"\\u202e"', '"\ud800"', '"\\ud800"', '"GPU-1"', '"\x01"', '"' + "x" * 64 + '"', f'"{"x" * 254}"',
]  # fmt: skip


def changed(original: str, path: list[Any], value: object) -> str:
    """The text with another value at the path; without it where the value is `...`."""
    body = json.loads(original)
    inner = body
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(body)


def randomly_changed(whole: str, count: int) -> Iterator[str]:
    """Copies of a text, each with another word in one place."""
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(count):
        words = whole.replace(",", "|,|").replace(":", "|:|").split("|")
        words[rng.randrange(len(words))] = rng.choice([*_SCALARS, *_LISTS, *_TEXTS])
        yield "".join(words)


def read(decode: Callable[[str], object], text: str) -> object:
    """The value in the text; None if the reader refuses it."""
    try:
        return decode(text)
    except AnnotationError:
        return None


def loaded(text: str) -> Any:
    """The JSON object in the text, by Python's own reader; an empty one if there is none."""
    try:
        found = json.loads(text, parse_constant=lambda _: ...)
        json.dumps(found, ensure_ascii=False, default=str).encode()  # raises where a surrogate is alone
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def is_text(value: object, most: int = 253) -> bool:
    return isinstance(value, str) and 0 < len(value) <= most and value.isprintable()


def is_int(value: object, least: int = 1, most: int = MAX_INT) -> bool:
    return type(value) is int and least <= value <= most


def is_cores(value: object) -> bool:
    return isinstance(value, list) and all(is_int(core, 0, 1023) for core in value) and _ascending(value)


def _ascending(value: list[int]) -> bool:
    return bool(value) and sorted(set(value)) == value
