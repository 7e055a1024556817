"""Reads the trainer's list of steps, and counts its repeated steps and its world sizes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

_LINE = re.compile(r"(\d+) (\d+)\n")


@dataclass(frozen=True)
class Step:
    """One training step; `world` is the number of ranks that did it."""

    number: int
    world: int


def read(text: str) -> list[Step]:
    """The steps in the text of a list, in their order; an incomplete last line is left out."""
    return [Step(int(number), int(world)) for number, world in _LINE.findall(text)]


def read_file(path: Path) -> list[Step]:
    """The steps of the list in this file; empty if the file does not exist yet."""
    return read(path.read_text()) if path.exists() else []


def lost(steps: Sequence[Step]) -> int:
    """The number of steps that were done again, because no checkpoint held their first result."""
    return len(steps) - len({step.number for step in steps})


def worlds(steps: Sequence[Step]) -> list[int]:
    """The world sizes in the order of the steps, one entry per change."""
    return [world for world, _ in groupby(step.world for step in steps)]
