"""The report of a benchmark: its figures as JSON for programs, and a text, mostly a table, for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from device_plugin.core.errors import VgpuError


class BenchError(VgpuError):
    """The benchmark cannot be run with these arguments, or the measured program has failed; the text says why."""


@dataclass(frozen=True)
class Report:
    """The figures of a benchmark, and the text that it prints without --json."""

    figures: Mapping[str, object]
    text: str


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as text: the first column is aligned to the left, the others to the right."""
    lines = [titles, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines
    )


def mean(values: Sequence[float]) -> float:
    """The mean, rounded for a report."""
    return round(float(np.mean(values)), 2)
