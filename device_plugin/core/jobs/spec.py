"""Checked values for parts of a Job: the order of a split, a goal, and PriorityClasses."""

from dataclasses import dataclass
from enum import Enum

# The roles of a group's Jobs, in the order in which they start.
ROLES = MASTER, PS, TRAINER = ("master", "ps", "trainer")


class Split(Enum):
    """The order in which the sub-tasks of a split (a job in parts) start: by their numbers, or any order."""

    ORDERED = "ordered"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a job whose width is to be found: to process `samples` samples `epochs` times within `seconds`.

    If no allowed width is enough for that, `most_seconds` holds instead. `model` is the name of the machine-learning
    model, by which its rates are found. The width that was found stays, unless the author wrote bounds (`bounded`).
    """

    samples: int
    epochs: int
    seconds: float
    most_seconds: float
    model: str
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """The number of a PriorityClass; `preempts` is false if its preemptionPolicy is Never."""

    value: int = 0
    preempts: bool = True


@dataclass(frozen=True, slots=True)
class NamedPriorityClass:
    """A PriorityClass of the cluster with its name; `default`: pods that name no class get it."""

    name: str
    priority: PriorityClass
    default: bool = False
