"""The page's entries as one person may see them.

Entries about objects that the person may not list are left out. Slices of others are reduced to their amounts. Names in
texts, such as those of the pods that will be preempted, are replaced.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from device_plugin.cli.ui.entries import Changes, PageEntries
from device_plugin.cli.ui.spaces import Spaces
from device_plugin.cli.ui.team.rights import Rights
from device_plugin.cli.ui.team.visitor import Person, Sight

# What is left of a slice whose pod may not be seen. A key that is not listed here is left out.
_AMOUNTS = ("mib", "cores", "state")
_NOBODY = {"namespace": "", "pod": "", "container": "", "since": "", "job": ""}
# NAMESPACE/NAME in a text. A domain before the slash, as in hygon.com/dcu, is no name of a namespace.
_NAMED = re.compile(r"(?<![\w./-])([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)/([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)")
HIDDEN = "an object of another namespace"
# Seconds after which the rights of a person are looked at again.
LOOK_SECONDS = 2.0


class PersonalView:
    """The page's entries for one stream to one person's browser. Only the thread of the stream uses it."""

    def __init__(
        self, entries: PageEntries, rights: Rights, person: Person, clock: Callable[[], float]
    ) -> None:
        self._entries = entries
        self._rights = rights
        self._person = person
        self._clock = clock
        self._spaces: Spaces = frozenset()
        self._sight = Sight(everything=False, spaces=frozenset())
        self._looked = -math.inf

    def since(self, version: int, seconds: float) -> Changes:
        """Returns the entries after `version` that the person may see; all entries if the person's rights changed."""
        changes = self._entries.since(version, seconds)
        if self._look_again():
            changes = self._entries.since(0, 0)
        sight = self._sight
        # Each is made when it is sent, so that a stream that is not read keeps no text of its own.
        texts = (
            shown
            for text, spaces in zip(changes.texts, changes.spaces, strict=True)
            if (shown := visible(text, spaces, sight))
        )
        return Changes(changes.version, changes.anew, texts)

    def _look_again(self) -> bool:
        """Look at the person's rights; returns true if they changed for an entry that may have been sent before."""
        spaces, now = self._entries.spaces(), self._clock()
        if spaces is self._spaces and now - self._looked < LOOK_SECONDS:
            return False
        before, known = self._sight, self._spaces
        self._sight = sight = self._rights.sight(self._person, spaces)
        self._spaces, self._looked = spaces, now
        changed = (sight.spaces & known) - before.spaces or (before.spaces & spaces) - sight.spaces
        return bool(changed) or sight.everything != before.everything


def visible(text: str, spaces: Spaces, sight: Sight) -> str:
    """Returns the text of a page's entry as a person may see it; empty if the person may not see it."""
    if sight.everything:
        return text
    reduced = next((reduce for begin, reduce in _REDUCED.items() if text.startswith(begin)), None)
    if reduced is None and not sight.shows(spaces):
        return ""
    kind, key, value = json.loads(text)
    if reduced is not None and value is not None:
        value = reduced(value, sight)
    return json.dumps([kind, key, _scrubbed(value, sight)], separators=(",", ":"))


def _node(value: Mapping[str, Any], sight: Sight) -> Mapping[str, Any]:
    return {**value, "cards": [_card(card, sight) for card in value["cards"]]}


def _offers(value: Mapping[str, Any], sight: Sight) -> Mapping[str, Any]:  # noqa: ARG001
    """Returns the functions that the page offers to this person.

    The use of cards over time is not among them, because it shows the pods of others too.
    """
    return {**value, "use": False}


# By the beginning of the text of an entry, the function that leaves of it what a person may see.
_REDUCED: Mapping[str, Callable[[Mapping[str, Any], Sight], Mapping[str, Any]]] = {
    '["node",': _node, '["about","page",': _offers,
}  # fmt: skip


def _card(card: Mapping[str, Any], sight: Sight) -> Mapping[str, Any]:
    return {**card, "slices": [_slice(each, sight) for each in card["slices"]]}


def _slice(found: Mapping[str, Any], sight: Sight) -> Mapping[str, Any]:
    if sight.pods_of(found["namespace"]):
        return found
    return {**_NOBODY, **{key: found[key] for key in _AMOUNTS if key in found}}


def _scrubbed(value: Any, sight: Sight) -> Any:
    """Returns the value; in its texts HIDDEN replaces the names of objects that the person may not see."""
    match value:
        case str():
            return _NAMED.sub(_replacement(sight), value)
        case list():
            return [_scrubbed(each, sight) for each in value]
        case dict():
            return {key: _scrubbed(each, sight) for key, each in value.items()}
    return value


def _replacement(sight: Sight) -> Callable[[re.Match[str]], str]:
    def replaced(found: re.Match[str]) -> str:
        namespace, name = found[1], found[2]
        amounts = namespace.isdigit() and name.isdigit()
        return found[0] if amounts or sight.names(namespace) else HIDDEN

    return replaced
