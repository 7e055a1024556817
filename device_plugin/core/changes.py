"""A versioned record of each node, of which readers follow the changes."""

from collections.abc import Iterator


class Followed:
    """Logs which nodes changed: readers ask for those that changed since the version that they last saw.

    The log keeps only the newest change of each name, so that it is never longer than the list of names.
    """

    def __init__(self) -> None:
        # Newest change last, so that a reader catches up from the end.
        self._changed: dict[str, int] = {}
        self.version = 0
        """Grows with every change."""

    def changed_since(self, version: int) -> Iterator[str]:
        """Nodes that changed after `version`, newest first."""
        for name in reversed(self._changed):
            if self._changed[name] <= version:
                return
            yield name

    def _touch(self, name: str) -> None:
        """Log a change of a node under a new version."""
        self.version += 1
        self._changed.pop(name, None)
        self._changed[name] = self.version
