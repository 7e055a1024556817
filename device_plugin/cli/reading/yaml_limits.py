"""Bounds what a YAML file can cost: its size as written, its depth, and its size once its aliases are written out.

A file of 300 bytes whose aliases name one another stands for gigabytes ("billion laughs"), or for itself without end.
"""

from collections.abc import Iterable

# Characters of a file, documents of it, and values and characters that a document stands for: more is no manifest that
# anybody wrote.
MOST_CHARACTERS = 4 * 1024 * 1024
MOST_DOCUMENTS = 1000
MOST_EXPANDED = 16 * 1024 * 1024


def cost_problem(documents: Iterable[object]) -> str:
    """Why these documents, as a YAML reader made them, must not be walked through; empty if they may be."""
    number, total = 0, 0
    for document in documents:
        number += 1
        size = _expanded(document, {})
        if size is None:
            return "an alias names a part of which it is itself a part: write that part out"
        total += size
        if total > MOST_EXPANDED:
            return f"its aliases stand for more than {MOST_EXPANDED} characters: write them out"
    return f"it has {number} documents: write at most {MOST_DOCUMENTS}" if number > MOST_DOCUMENTS else ""


def _expanded(value: object, known: dict[int, int | None]) -> int | None:
    """Values and characters of `value` with its aliases written out; None if it is a part of itself.

    `known` has the sizes of lists and mappings by identity, None of those that are being looked at.
    """
    if not isinstance(value, (dict, list)):
        return len(value) + 1 if isinstance(value, (str, bytes)) else 1
    key = id(value)
    if key in known:
        return known[key]
    known[key] = None
    total = 1
    for part in (*value.keys(), *value.values()) if isinstance(value, dict) else value:
        size = _expanded(part, known)
        if size is None:
            return None
        total += size
    known[key] = total
    return total
