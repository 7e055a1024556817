"""Roles: pods of one group go to different nodes, the best nodes to the first roles.

A group is what its namespace's pods say it is, so that a label can only ever move pods of its own namespace.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
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
    """Where `pod` stands among the others as they are now."""
    return standings((pod,), mates)[pod.uid]


def standings(pods: Collection[Pod], mates: Iterable[Mate]) -> Mapping[str, Standing]:
    """Where each of `pods`, by uid, stands among the rest of them and the others, `mates`, as they are now.

    A rank is the number of those before; where somebody has that rank already, the lowest that nobody has.
    """
    mates = list(mates)
    avoid = frozenset(mate.node for mate in mates if mate.node is not None)
    everybody = sorted((*map(Mate, pods), *mates), key=lambda mate: _order(mate.pod))
    placing, taken = {pod.uid for pod in pods}, {mate.rank for mate in mates}
    free = (rank for rank in count() if rank not in taken)
    waiting, found = 0, {}
    for before, mate in enumerate(everybody):
        if mate.pod.uid in placing:
            rank = before if before not in taken else next(free)
            taken.add(rank)
            found[mate.pod.uid] = Standing(rank, avoid, waiting)
        waiting += mate.node is None
    return found


def rank_of(pod: Pod) -> int | None:
    """The rank that its label says; anybody who may change the pod may have written it."""
    text = pod.label(annotations.RANK)
    return int(text) if _NUMBER.fullmatch(text) else None


def _order(pod: Pod) -> tuple[object, ...]:
    """By role and then by name, numbers in them by value."""
    return _natural(pod.label(annotations.ROLE)), _natural(pod.name), pod.uid


# Every pod of a group is compared with all others, again and again.
@lru_cache(8192)
def _natural(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((words, int(digits or 0)) for words, digits in re.findall(r"([^0-9]*)([0-9]*)", text))
