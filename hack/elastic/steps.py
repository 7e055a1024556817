"""Reads the trainer's log of steps: steps that were lost or done again, and world sizes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

_LINE = re.compile(r"(\d+) (\d+)\n")


@dataclass(frozen=True)
class Step:
    """One step that was done, by `world` ranks."""

    number: int
    world: int


def read(text: str) -> list[Step]:
    """The steps of the list, in the order in which they were done; a last line that is not whole is left out."""
    return [Step(int(number), int(world)) for number, world in _LINE.findall(text)]


def read_file(path: Path) -> list[Step]:
    """The steps of the list in this file; none if there is no such file yet."""
    return read(path.read_text()) if path.exists() else []


def lost(steps: Sequence[Step]) -> int:
    """The number of steps that were done, lost, and done again."""
    return len(steps) - len({step.number for step in steps})


def worlds(steps: Sequence[Step]) -> list[int]:
    """The world sizes in the order in which they came, one entry for each change."""
    return [world for world, _ in groupby(step.world for step in steps)]
