"""The real machine: its files in /sys and /dev, as the agent reads them."""

import os
from collections.abc import Sequence
from pathlib import Path

from device_plugin.core.machine import DeviceNode, Mount


class HostMachine:
    """Reads the machine's files below `root`, which holds its sys/ and dev/."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def text(self, path: str) -> str:
        """Returns the text of the file at `path`; bytes that are not UTF-8 are escaped. Raises OSError."""
        return (self._root / path).read_text(encoding="utf-8", errors="surrogateescape")

    def matching(self, pattern: str) -> Sequence[str]:
        """Returns the paths that match a shell pattern, in order."""
        return sorted(str(path.relative_to(self._root)) for path in self._root.glob(pattern))

    def names(self, folder: str) -> Sequence[str]:
        """Returns the names in a folder, in any order. Raises OSError."""
        return os.listdir(self._root / folder)  # noqa: PTH208 - half the time of iterdir

    def device(self, path: str) -> DeviceNode:
        """Returns the host's device file at `path`, which has the same path in the container."""
        return DeviceNode(f"/{path}", f"/{path}")

    def host_file(self, path: str) -> Mount | None:
        """Returns a mount of the host's file or folder at its own path; None if it does not exist or is empty.

        An empty folder counts as missing, because the kubelet creates one where the source of an agent's mount is
        missing.
        """
        found = self._root / path.lstrip("/")
        try:
            there = found.is_file() or any(found.iterdir())
        except OSError:
            there = False
        return Mount(path, path) if there else None

    def mounts(self) -> Sequence[Mount]:
        """Returns no mounts: containers see the kernel of the host."""
        return ()

    def preloads(self) -> Sequence[str]:
        """Returns no libraries: on a real machine only ours is loaded."""
        return ()
