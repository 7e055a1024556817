"""Mounts of a process, as /proc/<pid>/mountinfo lists them (proc_pid_mountinfo(5)), and which of them cover others."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_ESCAPED = re.compile(r"\\([0-7]{3})")
# The text that the kernel appends to the root of a file that was removed after it was mounted.
_REMOVED = "//deleted"


@dataclass(frozen=True, slots=True)
class Mounted:
    """One line of mountinfo: `root`, a path in the filesystem `device` (major:minor), is mounted at `point`.

    `number` is the id of the mount, `parent` the id of the mount below it.
    """

    number: str
    parent: str
    device: str
    root: str
    point: str


Origin = tuple[str, str]
"""A file independent of its mounts: its filesystem (major:minor), and its path in that filesystem."""


def parse(text: str) -> list[Mounted]:
    """All mounts in the order of the text. A malformed line is left out, such as the end of a cut text.

    Only a newline ends a line: the kernel escapes newline, space, tab and backslash. A tenant's subPath may hold other
    characters at which str.splitlines would split.
    """
    found = []
    for line in text.split("\n"):
        words = line.split(" ", 5)
        if len(words) == 6:
            root, point = _path(words[3]).removesuffix(_REMOVED), _path(words[4])
            found.append(Mounted(words[0], words[1], words[2], root, point))
    return found


def origin(mounts: Sequence[Mounted], path: str) -> Origin | None:
    """The origin (filesystem, and path in it) of the file at the absolute `path`; None if no mount shows the file.

    The path must have no symlinks.
    """
    for mount in reversed(mounts):
        if _at_or_above(mount.point, path):
            return mount.device, _join(mount.root, path[len(mount.point.rstrip("/")) :])
    return None


def problem(mounts: Sequence[Mounted], wanted: Iterable[tuple[Origin, str]]) -> str:
    """The reason why a process does not see all files mounted for its container, as text; empty if it sees all.

    `wanted` has origin and path of each file. A file is covered if a later mount lies at or above this path, or at or
    above the path where the file is mounted. The two paths differ where the image has a symlink (/var/run). Linux ≥ 6.8
    lists mounts in the order in which they were made, and not always in the order in which they were put in place. So
    the tree of mounts must lead to the file as well.
    """
    last = {(mount.device, mount.root): number for number, mount in enumerate(mounts)}
    on = {(mount.parent, mount.point): mount for mount in mounts}
    for source, path in wanted:
        number = last.get(source)
        if number is None:
            return f"{path} is not mounted"
        own = mounts[number]
        for later in mounts[number + 1 :]:
            if _at_or_above(later.point, path) or _at_or_above(later.point, own.point):
                return f"{path} is covered by a mount at {later.point[:253]!r}"
        seen = _top(mounts, on, own.point)
        if seen is not None and (seen.device, seen.root) != source:
            return f"{path} is covered by a mount at {seen.point[:253]!r}"
    return ""


def is_of(mounts: Iterable[Mounted], pod: str, container: str) -> bool:
    """True if a process with these mounts is in this container of the pod of this UID.

    The kubelet keeps a folder for each container (/pods/UID/containers/NAME), and mounts a file of this folder into the
    container.
    """
    part = f"/pods/{pod}/containers/{container}/"
    return any(part in mount.root for mount in mounts)


def _top(mounts: Sequence[Mounted], on: Mapping[tuple[str, str], Mounted], path: str) -> Mounted | None:
    """The mount that a program sees at `path`; None if the root of its process is no mount (chroot).

    `on` has each mount by two values: the number of the mount on which it lies, and its own point.
    """
    numbers = {mount.number for mount in mounts}
    seen = next((m for m in mounts if m.point == "/" and m.parent not in numbers - {m.number}), None)
    if seen is None:
        return None
    parts = path.strip("/").split("/")
    for length in range(len(parts) + 1):
        point = "/" + "/".join(parts[:length])
        for _ in mounts:  # each can lie on another at the same point
            upper = on.get((seen.number, point))
            if upper is None or upper is seen:
                break
            seen = upper
    return seen


def _at_or_above(point: str, path: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


def _join(root: str, rest: str) -> str:
    return (root.rstrip("/") + rest) or "/"


def _path(word: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), word)
