"""Faults: annotations that are malformed or cannot be trusted; each is ignored, logged once, and counted."""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fault:
    """An annotation that is ignored. `subject` is the name of the node, or namespace/name of the object.

    `kind` is `inventory`, `grant` or `resize`.
    """

    kind: str
    subject: str
    text: str


class Faults:
    """The present faults, by kind and by the key of their object. Callers hold the cluster view's lock."""

    def __init__(self) -> None:
        self._standing: dict[tuple[str, str], Fault] = {}

    def put(self, key: str, fault: Fault) -> None:
        """Record a fault of the object `key` (a node's name, or a UID), and log the fault if it is new."""
        if self._standing.get((fault.kind, key)) != fault:
            self._standing[(fault.kind, key)] = fault
            log.warning("ignoring the %s of %s: %s", fault.kind, fault.subject, fault.text)

    def clear(self, kind: str, key: str) -> None:
        """Remove the fault of an object that is sound now, or gone."""
        self._standing.pop((kind, key), None)

    def keys(self, kind: str) -> set[str]:
        """The keys of the objects that have a fault of this kind."""
        return {key for standing, key in self._standing if standing == kind}

    def standing(self) -> tuple[Fault, ...]:
        """All present faults, in a fixed order."""
        return tuple(fault for _, fault in sorted(self._standing.items()))

    def counts(self) -> Mapping[str, int]:
        """The number of present faults of each kind; a kind without faults has 0."""
        return {
            "inventory": 0,
            "grant": 0,
            "resize": 0,
            **Counter(fault.kind for fault in self._standing.values()),
        }
