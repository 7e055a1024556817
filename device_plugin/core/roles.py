"""Roles: pods of one group go to different nodes, the best nodes to the first roles.

A group is what its namespace's pods say it is, so that a label can only ever move pods of its own namespace.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count

from device_plugin.core import annotations
from device_plugin.core.pods import Pod

_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Mate:
    """Another pod of the group, the node where it is or has a reservation, and its rank; None where it has none."""

    pod: Pod
    node: str | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A pod within its group: its rank, the nodes of the others, and how many better nodes it leaves to others."""

    rank: int | None = None
    avoid: frozenset[str] = frozenset()
    leave: int = 0

    def labels(self, pod: Pod) -> Mapping[str, str]:
        """What the pod is labelled with when it is bound; nothing without a group."""
        if self.rank is None:
            return {}
        role = pod.label(annotations.ROLE)
        return {**({annotations.ROLE: role} if role else {}), annotations.RANK: str(self.rank)}


ALONE = Standing()


def standing(pod: Pod, mates: Iterable[Mate]) -> Standing:
    """Where `pod` stands among the others as they are now.

    Its rank is the number of those before it; where another has that rank already, the lowest that nobody has.
    """
    mates = list(mates)
    before = [mate for mate in mates if _order(mate.pod) < _order(pod)]
    taken = {mate.rank for mate in mates}
    rank = len(before) if len(before) not in taken else next(n for n in count() if n not in taken)
    avoid = frozenset(mate.node for mate in mates if mate.node is not None)
    return Standing(rank, avoid, sum(1 for mate in before if mate.node is None))


def rank_of(pod: Pod) -> int | None:
    """The rank that its label says; anybody who may change the pod may have written it."""
    text = pod.label(annotations.RANK)
    return int(text) if _NUMBER.fullmatch(text) else None


def _order(pod: Pod) -> tuple[object, ...]:
    """By role and then by name, numbers in them by value."""
    return _natural(pod.label(annotations.ROLE)), _natural(pod.name), pod.uid


def _natural(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((words, int(digits or 0)) for words, digits in re.findall(r"([^0-9]*)([0-9]*)", text))
