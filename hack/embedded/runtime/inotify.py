"""Watches one folder with inotify(7), called through libc, because the standard library has no inotify."""

import ctypes
import os
import select
from pathlib import Path

_CLOEXEC = 0o2000000
_NONBLOCK = 0o4000
# IN_CLOSE_WRITE | IN_MOVED_FROM | IN_DELETE, as in CDI's Go library. A file that is moved into the folder is not seen.
_CHANGES = 0x008 | 0x040 | 0x200


class FolderWatch:
    """Waits until files of a folder are written, renamed or removed. `wake` ends a waiting `wait` from outside."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._events = libc.inotify_init1(_CLOEXEC | _NONBLOCK)
        if self._events < 0 or libc.inotify_add_watch(self._events, os.fsencode(folder), _CHANGES) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
        self._waker, self._wake = os.pipe()

    def wait(self) -> None:
        """Wait for a change or for `wake`; all earlier events are consumed."""
        ready, _, _ = select.select([self._events, self._waker], [], [])
        if self._events in ready:
            os.read(self._events, 1 << 16)

    def wake(self) -> None:
        """Make the present and all later calls of `wait` return."""
        os.write(self._wake, b"x")

    def close(self) -> None:
        """Close the descriptors; no thread may be in `wait`."""
        for descriptor in (self._events, self._waker, self._wake):
            os.close(descriptor)
