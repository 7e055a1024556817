"""Node constraints: the nodes that a pod's node selector, required node affinity, node name and tolerations allow.

The rules are kube-scheduler's. A NodeIndex evaluates them fast for thousands of different constraints on thousands of
nodes: a set of nodes is an integer with a bit for each node, and each requirement is one look into an index.

A rule that we do not evaluate, such as an operator that Kubernetes adds later, counts as met. If a pod does not meet
the rule, kube-scheduler refuses the pod. If we counted the rule as not met, a pod that meets it would wait for ever.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from operator import or_
from typing import overload
from weakref import WeakKeyDictionary, WeakValueDictionary

# Most characters of constraints in a text for people.
_SHOWN = 200
BARRING = ("NoSchedule", "NoExecute")
"""The effects of taints that keep pods away."""
# kube-scheduler treats a cordoned node as one with this taint.
CORDON = "node.kubernetes.io/unschedulable"
# Beginnings of the taints that Kubernetes sets and removes itself, while a node is ill or not ready.
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


class Operator(Enum):
    """The operators of Kubernetes' node affinity."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


_SIGNS = {Operator.GREATER: ">", Operator.LESS: "<"}


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on a node's label `key`, or with `by_name` on the node's name."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    by_name: bool = False

    @property
    def text(self) -> str:
        """The requirement as people read it: `zone=a`, `disk in (nvme, ssd)`, `no spot`."""
        values = ", ".join(self.values)
        match self.operator:
            case Operator.IN:
                return f"{self.key}={values}" if len(self.values) == 1 else f"{self.key} in ({values})"
            case Operator.NOT_IN:
                return f"{self.key} not in ({values})"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"no {self.key}"
        return f"{self.key} {_SIGNS[self.operator]} {values}"


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node with the effect `NoSchedule` or `NoExecute`, which keeps pods away."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    @property
    def passing(self) -> bool:
        """True for a taint that is only temporary: a cordon, or a taint that Kubernetes sets while a node is ill."""
        return self.key.startswith(_PASSING)


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod: it matches taints, and a node with such a taint may still take the pod.

    An empty `key` matches every key, an empty `effect` every effect, and `any_value` every value.
    """

    key: str = ""
    value: str = ""
    effect: str = ""
    any_value: bool = False

    def covers(self, taint: Taint) -> bool:
        """True if the toleration matches the taint, so that the taint does not keep the pod away."""
        return (
            self.key in ("", taint.key)
            and self.effect in ("", taint.effect)
            and (self.any_value or self.value == taint.value)
        )


@dataclass(frozen=True, slots=True, weakref_slot=True)
class NodeConstraints:
    """A pod's conditions on a node: all of `required`, and all of at least one of `terms` (None: no terms).

    The `tolerations` must match all taints of the node.
    """

    required: tuple[Requirement, ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()

    @property
    def text(self) -> str:
        """The requirements as text for people, cut to a short length; empty if there are none."""
        parts = [_joined(self.required)] if self.required else []
        if self.terms:
            parts.append(" or ".join(_joined(term) or "anything" for term in self.terms))
        text = " and ".join(parts)
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _joined(requirements: Iterable[Requirement]) -> str:
    return ", ".join(each.text for each in requirements)


ANYWHERE = NodeConstraints()
"""The constraints of a pod that names none: every node without a taint."""
UNKNOWN = NodeConstraints(tolerations=(Toleration(any_value=True),))
"""The constraints of a pod whose own cannot be evaluated: they allow every node."""


@dataclass(frozen=True, slots=True)
class NodeTraits:
    """The parts of a node that constraints are compared with: name, labels and taints; a cordon is a taint."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()


class NodeSet(Sequence[str]):
    """An immutable set of node names: the nodes of an index whose bits are set. It is equal only to itself."""

    __slots__ = ("__weakref__", "bits", "node_index")

    def __init__(self, node_index: "NodeIndex", bits: int) -> None:
        self.node_index = node_index
        self.bits = bits

    def __contains__(self, name: object) -> bool:
        position = self.node_index.position.get(name, -1) if isinstance(name, str) else -1
        return position >= 0 and bool(self.bits >> position & 1)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.node_index.names if name in self)

    def __len__(self) -> int:
        return self.bits.bit_count()

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...

    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        return tuple(self)[at]

    def __copy__(self) -> "NodeSet":
        return self


class NodeIndex:
    """Finds the nodes that meet constraints, among the nodes of one moment.

    After a change of a node a new index is made. The values of a label are indexed at the first question about them. An
    answer is kept only while the Job with these constraints exists, because tenants may create and delete any number of
    Jobs. Any thread may call it.
    """

    def __init__(self, nodes: Iterable[NodeTraits] = ()) -> None:
        self._nodes = sorted(nodes, key=lambda node: node.name)
        self.names = tuple(node.name for node in self._nodes)
        self.position: Mapping[str, int] = {name: number for number, name in enumerate(self.names)}
        self._all = (1 << len(self.names)) - 1
        self._having = dict[str, int]()
        for number, node in enumerate(self._nodes):
            for key in node.labels:
                self._having[key] = self._having.get(key, 0) | 1 << number
        self._values: dict[str, Mapping[str, int]] = {}
        self._numbers: dict[str, tuple[Sequence[int], Sequence[int]]] = {}
        self._tainted = dict[Taint, int]()
        for number, node in enumerate(self._nodes):
            for taint in node.taints:
                self._tainted[taint] = self._tainted.get(taint, 0) | 1 << number
        self._known = WeakKeyDictionary[NodeConstraints, NodeSet | None]()
        self._sets = WeakValueDictionary[int, NodeSet]()

    def allowed(self, constraints: NodeConstraints) -> NodeSet | None:
        """The nodes where a pod with these constraints may go now; None if all of them."""
        try:
            return self._known[constraints]
        except KeyError:
            bits = self._selected(constraints) & ~self._barred(constraints)
            found = self._known[constraints] = None if bits == self._all else self._set(bits)
            return found

    def allowed_later(self, constraints: NodeConstraints) -> NodeSet | None:
        """The nodes where a pod with these constraints may go once no node is cordoned or ill; None if all of them."""
        bits = self._selected(constraints) & ~self._barred(constraints, later=True)
        return None if bits == self._all else self._set(bits)

    def passing(self, name: str, constraints: NodeConstraints) -> str:
        """A text with the temporary taints that keep a pod with these constraints from the node `name`; else empty.

        Temporary taints are a cordon, and taints that Kubernetes sets while a node is ill.
        """
        position = self.position.get(name)
        taints = () if position is None else self._nodes[position].taints
        keys = [taint.key for taint in taints if taint.passing and not _tolerated(taint, constraints)]
        return "cordoned" if CORDON in keys else f"tainted {', '.join(keys)}" if keys else ""

    def values_of(self, key: str) -> Mapping[str, str]:
        """The value of the label `key` of each node that has this label."""
        return {node.name: node.labels[key] for node in self._nodes if key in node.labels}

    def limits(self, constraints: NodeConstraints, *, of_pod: bool = False) -> str:
        """A sentence for people that says what keeps pods from some of the nodes; empty if nothing does.

        The sentence is about the pods of a job (`its pods go only to ...`), or with `of_pod` about one pod (`it goes
        only to ...`).
        """
        goes, does = ("it goes", "it does") if of_pod else ("its pods go", "its pods do")
        selected, parts = self._selected(constraints), list[str]()
        count = selected.bit_count()
        if text := constraints.text:
            parts.append(f"{goes} only to nodes with {text} ({count} of {len(self.names)} nodes)")
        if barred := (selected & self._barred(constraints)).bit_count():
            parts.append(f"{barred} of {count} nodes are cordoned or have a taint that {does} not tolerate")
        return "; ".join(parts)

    def _set(self, bits: int) -> NodeSet:
        """The NodeSet of these bits; equal bits give one object, so that caches find their values by the object."""
        found = self._sets.get(bits)
        if found is None:
            found = self._sets[bits] = NodeSet(self, bits)
        return found

    def _barred(self, constraints: NodeConstraints, *, later: bool = False) -> int:
        """The nodes, as bits, with a taint that is not tolerated.

        With `later`, a temporary taint (of a cordon or an ill node) does not count.
        """
        bits = 0
        for taint, tainted in self._tainted.items():
            if not (later and taint.passing) and not _tolerated(taint, constraints):
                bits |= tainted
        return bits

    def _selected(self, constraints: NodeConstraints) -> int:
        """The bits of the nodes that meet the requirements; taints are not compared."""
        bits = self._meeting(constraints.required)
        if constraints.terms is None:
            return bits
        found = 0
        for term in constraints.terms:
            found |= self._meeting(term)
        return bits & found

    def _meeting(self, requirements: Collection[Requirement]) -> int:
        bits = self._all
        for requirement in requirements:
            bits &= self._with(requirement)
        return bits

    def _with(self, requirement: Requirement) -> int:
        """The bits of the nodes that meet one requirement."""
        if requirement.by_name:
            positions = (self.position.get(name) for name in requirement.values)
            bits = sum(1 << position for position in set(positions) if position is not None)
            return bits if requirement.operator is Operator.IN else self._all & ~bits
        having, values = self._having.get(requirement.key, 0), self._by_value(requirement.key)
        match requirement.operator:
            case Operator.IN:
                return _union(values.get(value, 0) for value in requirement.values)
            case Operator.NOT_IN:
                return self._all & ~_union(values.get(value, 0) for value in requirement.values)
            case Operator.EXISTS:
                return having
            case Operator.DOES_NOT_EXIST:
                return self._all & ~having
        return self._compared(requirement)

    def _by_value(self, key: str) -> Mapping[str, int]:
        """The bits of the nodes with each value of a label."""
        if key not in self._having:
            return {}
        if key not in self._values:
            found: dict[str, int] = {}
            for number, node in enumerate(self._nodes):
                if key in node.labels:
                    value = node.labels[key]
                    found[value] = found.get(value, 0) | 1 << number
            self._values[key] = found
        return self._values[key]

    def _compared(self, requirement: Requirement) -> int:
        """The bits of the nodes whose label is a number greater (`Gt`) or less (`Lt`) than the requirement's number."""
        bound = _number(requirement.values[0]) if len(requirement.values) == 1 else None
        if bound is None or requirement.key not in self._having:
            return 0
        if requirement.key not in self._numbers:
            by_number: dict[int, int] = {}
            for value, bits in self._by_value(requirement.key).items():
                if (number := _number(value)) is not None:
                    by_number[number] = by_number.get(number, 0) | bits
            ascending = sorted(by_number)
            upwards = accumulate((by_number[number] for number in ascending), or_, initial=0)
            self._numbers[requirement.key] = ascending, list(upwards)
        numbers, up_to = self._numbers[requirement.key]
        if requirement.operator is Operator.LESS:
            return up_to[bisect_left(numbers, bound)]
        return up_to[-1] & ~up_to[bisect_right(numbers, bound)]


def _tolerated(taint: Taint, constraints: NodeConstraints) -> bool:
    return any(toleration.covers(taint) for toleration in constraints.tolerations)


def _union(sets: Iterable[int]) -> int:
    bits = 0
    for each in sets:
        bits |= each
    return bits


def _number(text: str) -> int | None:
    """The value of a text that Go parses as a 64-bit integer; None for any other text."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 19):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
