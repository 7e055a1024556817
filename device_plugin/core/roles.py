"""Roles: pods of one group go to different nodes, the best nodes to the first roles.

Labels of a namespace's pods define its groups, so a label can only affect pods of its own namespace. A pod's role is
its label `vgpu.io/role`, or else the labels of Kubeflow's training operator. Roles are sorted by name, or in the order
of the pods' annotation `vgpu.io/role-order`; numbers in names are compared by value.
"""

import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from device_plugin.core.contract import annotations
from device_plugin.core.pods import Pod

# The first numbers in a name, this many, are compared by value; further ones are compared as text.
MOST_NUMBERS = 8
_DIGITS = re.compile(r"([0-9]+)")
# Most characters of a role order: enough for a dozen roles, and short enough to repeat in a refusal.
MAX_ORDER = 256
EXAMPLE = "master,ps,worker"
_NUMBER = re.compile(r"[0-9]{1,9}")

_T = TypeVar("_T")
Key = tuple[object, ...]
"""The sort key of a group's pods; it ends with the UID, so that no two keys are equal."""


@dataclass(frozen=True, slots=True)
class Rank:
    """A pod's number in its group, and two bounds on the choice of its node.

    The pod avoids the nodes in `avoid`, and leaves the `leave` best nodes to pods of earlier roles.
    """

    number: int | None = None
    avoid: frozenset[str] = frozenset()
    leave: int = 0

    def labels(self, pod: Pod) -> Mapping[str, str]:
        """The labels (role and number) that the pod gets when it is bound; empty for a pod without a group."""
        if self.number is None:
            return {}
        role = role_of(pod)
        return {**({annotations.ROLE: role} if role else {}), annotations.RANK: str(self.number)}


ALONE = Rank()


@dataclass(frozen=True, slots=True)
class Held:
    """The node, and the rank (number in the group), of an unbound pod's reservation."""

    node: str
    rank: int | None = None


class Ranking:
    """The pods of one group that have not ended, kept in the order of their roles.

    It keeps sorted lists, because a tenant may cause a decision about each of two thousand pods at every event.
    """

    def __init__(self) -> None:
        self._pods: dict[str, tuple[Key, Pod]] = {}
        self._unbound: dict[str, Key] = {}
        # Pods that are being deleted count only while they have a node.
        self._sorted: list[Key] = []
        self._wanting: list[Key] = []
        self._nodes: Counter[str] = Counter()
        self._numbers: Counter[int | None] = Counter()

    def __len__(self) -> int:
        """Number of pods of the group that have not ended."""
        return len(self._pods)

    @property
    def unbound(self) -> Set[str]:
        """The UIDs of the pods that are not bound."""
        return self._unbound.keys()

    def see(self, pod: Pod) -> None:
        """Record the present state of a pod of the group; a pod that has ended is removed."""
        self.forget_pod(pod.uid)
        if pod.ended:
            return
        key = _key(pod)
        self._pods[pod.uid] = key, pod
        for keys in self._lists_of(pod):
            insort(keys, key)
        if pod.node:
            self._nodes[pod.node] += 1
            self._numbers[rank_of(pod)] += 1
        else:
            self._unbound[pod.uid] = key

    def forget_pod(self, uid: str) -> None:
        """Remove a pod that is gone, or that is now in another group."""
        key, pod = self._pods.pop(uid, ((), None))
        if pod is None:
            return
        for keys in self._lists_of(pod):
            del keys[bisect_left(keys, key)]
        if pod.node:
            subtract(self._nodes, pod.node)
            subtract(self._numbers, rank_of(pod))
        else:
            del self._unbound[uid]

    def _lists_of(self, pod: Pod) -> Sequence[list[Key]]:
        """The sorted lists of this ranking that contain the pod."""
        if pod.node:
            return (self._sorted,)
        return () if pod.deleting else (self._sorted, self._wanting)

    def ranks(self, pods: Collection[Pod], held: Mapping[str, Held]) -> Mapping[str, Rank]:
        """The ranks, by UID, of the unbound `pods` in their group.

        `held` are the reservations of unbound pods, by UID. A pod's number is the count of the pods before it; if
        another pod has that number already, the pod gets the lowest free number.
        """
        placing = {pod.uid for pod in pods}
        others = {uid: found for uid, found in held.items() if uid in self._unbound and uid not in placing}
        avoid = frozenset(self._nodes.keys() | {found.node for found in others.values()})
        taken = {*self._numbers, *(found.rank for found in others.values())}
        free = (number for number in count() if number not in taken)
        asking = sorted((_key(pod), pod.uid) for pod in pods)
        known = sorted(self._unbound[uid] for uid in placing if self._counts(uid))
        leaving = sorted(self._unbound[uid] for uid in others if not self._counts(uid))
        served = sorted(self._unbound[uid] for uid in others if self._counts(uid))
        found = {}
        for place, (key, uid) in enumerate(asking):
            earlier = place - bisect_left(known, key)
            before = bisect_left(self._sorted, key) + bisect_left(leaving, key) + earlier
            number = before if before not in taken else next(free)
            taken.add(number)
            waiting = bisect_left(self._wanting, key) - bisect_left(served, key) + earlier
            found[uid] = Rank(number, avoid, waiting)
        return found

    def _counts(self, uid: str) -> bool:
        """True if the pod is unbound and is not being deleted."""
        return uid in self._unbound and not self._pods[uid][1].deleting


def role_of(pod: Pod) -> str:
    """The pod's role: its role label, or else Kubeflow's labels for the type and index of a replica; may be empty."""
    if role := pod.label(annotations.ROLE):
        return role
    kind, index = pod.label(annotations.REPLICA_TYPE), pod.label(annotations.REPLICA_INDEX)
    return f"{kind}-{index}" if kind and index else kind


def order_of(pod: Pod) -> tuple[str, ...]:
    """The roles in the order that the pod's annotation gives; empty without the annotation.

    The list may be wrong: `order_problem` checks it.
    """
    text = pod.annotation(annotations.ROLE_ORDER)[:MAX_ORDER]
    return tuple(role.strip() for role in text.split(",")) if text else ()


def order_problem(pod: Pod) -> str:
    """An error text about the pod's annotation `vgpu.io/role-order` or about its role; empty if both are right."""
    text = pod.annotation(annotations.ROLE_ORDER)
    if not text:
        return ""
    if len(text) > MAX_ORDER:
        return f"annotation {annotations.ROLE_ORDER} is too long: write at most {MAX_ORDER} characters"
    order = order_of(pod)
    shown = ", ".join(order)
    if not all(order):
        return f"annotation {annotations.ROLE_ORDER} is {text!r}, with an empty role: write a list such as {EXAMPLE}"
    if len(set(order)) < len(order):
        double = next(role for role in order if order.count(role) > 1)
        return f"annotation {annotations.ROLE_ORDER} is {text!r}, with {double} twice: write each role once"
    role = role_of(pod)
    if not role:
        return (
            f"the pod has no role, which annotation {annotations.ROLE_ORDER} requires: add the label {annotations.ROLE}"
            f" with one of {shown}, such as {order[-1]}-0"
        )
    if _place(role, order) is None:
        return (
            f"role {role!r} is not in annotation {annotations.ROLE_ORDER}: write one of {shown}, such as {order[-1]}-0,"
            " or add the role to the annotation"
        )
    return ""


def rank_of(pod: Pod) -> int | None:
    """The number in the pod's rank label (`vgpu.io/rank`); None if it has no valid one.

    A tenant may have written the label.
    """
    text = pod.label(annotations.RANK)
    return int(text) if _NUMBER.fullmatch(text) else None


def _key(pod: Pod) -> Key:
    """The sort key of a pod in its group: its role, then its name.

    Roles that a written order does not list come last.
    """
    role, order = role_of(pod), order_of(pod)
    place = _place(role, order)
    return len(order) if place is None else place, _natural(role), _natural(pod.name), pod.uid


def _place(role: str, order: Sequence[str]) -> int | None:
    """The position of a role in a written order, where `worker-2` counts as `worker`; None if the order lacks it."""
    if role in order:
        return order.index(role)
    # `worker-2` is the third of the role `worker`.
    stem = role.rstrip("0123456789")
    if stem == role:
        return None
    stem = stem[:-1] if stem.endswith(("-", "_", ".")) else stem
    return order.index(stem) if stem in order else None


def _natural(text: str) -> tuple[tuple[str, int], ...]:
    """The text as a sort key of words and numbers, so that numbers are compared by value."""
    # One pattern for words and numbers would be slow: it reads the rest of a long name once for each character.
    parts = _DIGITS.split(text, MOST_NUMBERS)
    return (*zip(parts[:-1:2], map(int, parts[1::2]), strict=True), (parts[-1], 0))


def subtract(counts: Counter[_T], key: _T) -> None:
    """Count one less of `key`, and remove the key if its count is 0."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
