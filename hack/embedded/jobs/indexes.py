"""Completion indexes in the format of a Job's status: `0,2-4,7`."""

from collections.abc import Collection


def read(text: str, completions: int) -> set[int]:
    """The indexes in `text` that are below `completions`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first) + 1, completions)))
    return found


def write(indexes: Collection[int]) -> str:
    """The text of `indexes`; three or more successive indexes are written as a range."""
    rows: list[list[int]] = []
    for index in sorted(indexes):
        if rows and rows[-1][-1] == index - 1:
            rows[-1].append(index)
        else:
            rows.append([index])
    return ",".join(_row(row) for row in rows)


def _row(row: list[int]) -> str:
    if len(row) == 1:
        return str(row[0])
    return f"{row[0]}{',' if len(row) == 2 else '-'}{row[-1]}"
