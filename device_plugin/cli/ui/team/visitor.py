"""The person whom the API server or a proxy named, and what that person may see now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from device_plugin.cli.ui.spaces import Space, Spaces

# Most characters of a name, and most groups, that are taken from anybody.
MOST_NAME, MOST_GROUPS = 256, 200
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the cluster, as TokenReview describes one; equal persons have equal rights.

    `extra` holds pairs of a key and its values.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def read(cls, user: Mapping[str, Any]) -> "Person":
        """Returns the person in the status of a TokenReview. Raises ValueError, TypeError, AttributeError."""
        groups = tuple(sorted(str(group) for group in user.get("groups") or ()))
        extra = tuple(
            sorted((str(key), tuple(map(str, values))) for key, values in (user.get("extra") or {}).items())
        )
        return cls(named(str(user.get("username") or "")), str(user.get("uid") or ""), groups, extra)

    @property
    def owner(self) -> str:
        """The name under which sessions are counted; service accounts are counted under their namespace.

        A person who may create service accounts in a namespace can use any number of their names.
        """
        namespace = self.name.removeprefix(_ACCOUNT).partition(":")[0]
        return f"{_ACCOUNT}{namespace}" if self.name.startswith(_ACCOUNT) else self.name


def named(name: str) -> str:
    """Returns the name of a user or group unchanged. Raises ValueError if it is empty, too long, or not printable."""
    if not name or len(name) > MOST_NAME or not name.isprintable():
        raise ValueError("this is no name of a user")
    return name


@dataclass(frozen=True, slots=True)
class Sight:
    """The rights of a person: which entries of the page the person may see.

    If `everything` is true, the person may see all entries, else the entries about `spaces` (pods or Jobs of
    namespaces).
    """

    everything: bool
    spaces: Spaces

    def shows(self, spaces: Spaces) -> bool:
        """True if the person may see an entry of the page that is about all of these spaces."""
        return self.everything or spaces <= self.spaces

    def pods_of(self, namespace: str) -> bool:
        """True if the person may see the pods of a namespace."""
        return self.everything or Space("pods", namespace) in self.spaces

    def names(self, namespace: str) -> bool:
        """True if the person may see names of objects of a namespace."""
        return self.pods_of(namespace) or Space("jobs", namespace) in self.spaces


def groups_of(texts: Sequence[str]) -> tuple[str, ...]:
    """Returns the groups in the values of a header. Raises ValueError.

    A value may have several groups, with commas between them.
    """
    found = [each.strip() for text in texts for each in text.split(",") if each.strip()]
    if len(found) > MOST_GROUPS:
        raise ValueError(f"there are more than {MOST_GROUPS} groups")
    return tuple(sorted({named(each) for each in found}))
