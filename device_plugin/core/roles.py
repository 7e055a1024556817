"""Roles: pods of one group go to different nodes, the best nodes to the first roles.

A group is what its namespace's pods say it is, so that a label can only ever move pods of its own namespace. A pod's
role is its label, or what Kubeflow's training operator says of it. Roles go by name, or in the order that the pods'
annotation `vgpu.io/role-order` gives; in both, and among pods of one role, numbers go by value.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice

from device_plugin.core import annotations
from device_plugin.core.pods import Pod

# Numbers of a name by whose value pods are ordered; the rest of it counts as text.
MOST_NUMBERS = 8
_PART = re.compile(r"([^0-9]*)([0-9]+)")
# Characters of a role order: enough for a dozen roles, and what a refusal repeats.
MAX_ORDER = 256
EXAMPLE = "master,ps,worker"
_NUMBER = re.compile(r"[0-9]{1,9}")
# `worker-2` is the third of the role `worker`.
_NUMBERED = re.compile(r"(.*?)[-_.]?[0-9]+")


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
        role = role_of(pod)
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


def role_of(pod: Pod) -> str:
    """The pod's role: its own label, else the type and index of a replica of Kubeflow; empty without either."""
    if role := pod.label(annotations.ROLE):
        return role
    kind, index = pod.label(annotations.REPLICA_TYPE), pod.label(annotations.REPLICA_INDEX)
    return f"{kind}-{index}" if kind and index else kind


def order_of(pod: Pod) -> tuple[str, ...]:
    """The roles in the order that the pod's annotation gives; empty without one. See `order_problem`."""
    return _listed(pod.annotation(annotations.ROLE_ORDER)[:MAX_ORDER])


def order_problem(pod: Pod) -> str:
    """An error text about the pod's role order, or about its role in that order; empty if both are right."""
    text = pod.annotation(annotations.ROLE_ORDER)
    if not text:
        return ""
    if len(text) > MAX_ORDER:
        return f"annotation {annotations.ROLE_ORDER} is too long: write at most {MAX_ORDER} characters"
    order = order_of(pod)
    shown = ", ".join(order)
    if not all(order):
        return f"annotation {annotations.ROLE_ORDER} is {text!r}, with an empty role: write it like {EXAMPLE}"
    if len(set(order)) < len(order):
        double = next(role for role in order if order.count(role) > 1)
        return f"annotation {annotations.ROLE_ORDER} is {text!r}, with {double} twice: name each role once"
    role = role_of(pod)
    if not role:
        return (
            f"the pod has no role: label it {annotations.ROLE} with one of {shown} ({annotations.ROLE_ORDER})"
        )
    if _place(role, order) is None:
        return (
            f"role {role!r} is not in {annotations.ROLE_ORDER}: write one of {shown}, such as {order[-1]}-0"
        )
    return ""


def rank_of(pod: Pod) -> int | None:
    """The rank that its label says; anybody who may change the pod may have written it."""
    text = pod.label(annotations.RANK)
    return int(text) if _NUMBER.fullmatch(text) else None


def _order(pod: Pod) -> tuple[object, ...]:
    """By role and then by name. A pod without a place in a written order comes after those with one."""
    role, order = role_of(pod), order_of(pod)
    place = _place(role, order)
    return len(order) if place is None else place, _natural(role), _natural(pod.name), pod.uid


def _place(role: str, order: Sequence[str]) -> int | None:
    """The place of a role, or of the role whose number it has, in a written order; None if it has none."""
    if role in order:
        return order.index(role)
    match = _NUMBERED.fullmatch(role)
    return order.index(match[1]) if match and match[1] in order else None


@lru_cache(1024)
def _listed(text: str) -> tuple[str, ...]:
    return tuple(role.strip() for role in text.split(",")) if text else ()


# Every pod of a group is compared with all others, again and again.
@lru_cache(4096)
def _natural(text: str) -> tuple[tuple[str, int], ...]:
    parts, end = [], 0
    # A name may have 126 numbers: what is remembered of it has a bounded size.
    for match in islice(_PART.finditer(text), MOST_NUMBERS):
        parts.append((match[1], int(match[2])))
        end = match.end()
    return (*parts, (text[end:], 0))
