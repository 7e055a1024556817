"""The spaces that a person must be allowed to list to see an entry of the page, for each kind of entries.

A space is one kind of objects, pods or Jobs, in one namespace.

`vgpu ui` shows all entries to the person who started it. The page for a team shows each person only some of them.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Space(NamedTuple):
    """A kind of objects in a namespace: `pods` or `jobs`."""

    resource: str
    namespace: str


Spaces = frozenset[Space]
"""The spaces (namespaces' pods or Jobs) that an entry is about. An entry that is about none is for everybody."""

PUBLIC: Spaces = frozenset()
# An entry of a kind that is not listed here is shown to nobody but a person who may list everything.
UNKNOWN: Spaces = frozenset({Space("", "")})


def spaces_of(kind: str, key: str, value: object) -> Spaces:
    """Returns the spaces (namespaces' pods or Jobs) that an entry is about; `value` is not None."""
    read = _KINDS.get(kind)
    return UNKNOWN if read is None else read(key, value)


def _public(key: str, value: Any) -> Spaces:  # noqa: ARG001 - one signature for all kinds
    return PUBLIC


def _holders(key: str, node: Any) -> Spaces:  # noqa: ARG001
    """Returns a space, the pods of a namespace, for each namespace whose pods hold slices of a node."""
    cards = node.get("cards", ()) if isinstance(node, Mapping) else ()
    return frozenset(Space("pods", each["namespace"]) for card in cards for each in card["slices"])


def _users(key: str, use: Any) -> Spaces:  # noqa: ARG001
    """Returns the space of an entry whose key is NODE NAMESPACE: the pods of that namespace."""
    return frozenset({Space("pods", key.rpartition(" ")[2])})


def _of(resource: str) -> Callable[[str, Any], Spaces]:
    def spaces(key: str, value: Any) -> Spaces:  # noqa: ARG001
        namespace = value.get("namespace") if isinstance(value, Mapping) else None
        return frozenset({Space(resource, namespace)}) if namespace else UNKNOWN

    return spaces


def _subject(key: str, value: Any) -> Spaces:  # noqa: ARG001
    """Returns the space (a namespace's pods or Jobs) of a fault; PUBLIC for a fault of a node.

    The fault's key is its kind and its subject: a node, or NAMESPACE/NAME.
    """
    kind, _, subject = key.partition(" ")
    namespace, slash, _ = subject.partition("/")
    return frozenset({Space("jobs" if kind == "resize" else "pods", namespace)}) if slash else PUBLIC


_KINDS: Mapping[str, Callable[[str, Any], Spaces]] = {
    "about": _public, "notice": _public, "day": _public, "node": _holders, "waiting": _of("pods"), "gang": _of("pods"),
    "use": _users, "owner": _of("pods"), "job": _of("jobs"), "times": _of("jobs"), "fault": _subject,
}  # fmt: skip
