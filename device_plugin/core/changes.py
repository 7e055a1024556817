"""Change logs: the names that changed since the version that a reader last saw."""

from collections.abc import Iterator


class Changes:
    """A log that keeps only the newest change of each name, so that it is never longer than the list of names."""

    def __init__(self) -> None:
        # Newest change last, so that a reader catches up from the end.
        self._changed: dict[str, int] = {}
        self.version = 0
        """Grows with every change."""

    def touch(self, name: str) -> None:
        """Record a change of `name` under a new version."""
        self.version += 1
        self._changed.pop(name, None)
        self._changed[name] = self.version

    def since(self, version: int) -> Iterator[str]:
        """Names that changed after `version`, newest first."""
        for name in reversed(self._changed):
            if self._changed[name] <= version:
                return
            yield name


class Followed:
    """A versioned record of each node; readers ask for the nodes that changed since a version."""

    def __init__(self) -> None:
        self._changes = Changes()

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._changes.version

    def changed_since(self, version: int) -> Iterator[str]:
        """Nodes that changed after `version`, newest first."""
        return self._changes.since(version)
