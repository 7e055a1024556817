"""Data links: from a value that a board shows to the board of its node, card, pod or namespace.

A link carries the chosen data source and time, so that the other board shows the same moment.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

# The labels by which the choices of each board are made; the more specific boards come first.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "pod": ("namespace", "pod"),
    "card": ("node", "card"),
    "node": ("node",),
    "namespace": ("namespace",),
}
_LABEL = re.compile(r"\{\{(\w+)\}\}")


def of_series(legends: Iterable[str]) -> list[Mapping[str, Any]]:
    """The link of series whose names have labels, such as `{{node}} {{card}}`: to the most specific board that fits.

    There is no link if the series have no labels in common by which a board chooses.
    """
    labels = set.intersection(*({*_LABEL.findall(legend)} for legend in legends))
    board = next((board for board, needed in CHOICES.items() if labels >= {*needed}), None)
    return [_link(board, lambda label: f"${{__field.labels.{label}}}")] if board else []


def of_column(column: str, columns: Collection[str]) -> list[Mapping[str, Any]]:
    """The link of a table's column to the board of the same name, if the row has all labels by which it chooses."""
    if not {*CHOICES.get(column, "?")} <= {*columns}:
        return []
    return [_link(column, lambda label: f"${{__data.fields.{label}}}")]


def _link(board: str, value: Callable[[str], str]) -> Mapping[str, Any]:
    choices = "&".join(f"var-{label}={value(label)}" for label in CHOICES[board])
    url = f"/d/vgpu-{board}?{choices}&var-datasource=${{datasource}}&${{__url_time_range}}"
    return {"title": f"open the board {board}", "url": url}
