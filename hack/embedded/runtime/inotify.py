"""inotify(7) for one folder, through libc: the standard library has no binding."""

import ctypes
import os
import select
from pathlib import Path

_CLOEXEC = 0o2000000
_NONBLOCK = 0o4000
# IN_CLOSE_WRITE | IN_MOVED_FROM | IN_DELETE: as in CDI's Go library. Files that are moved in are not seen.
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
        """Return after a change or `wake`; all events until then are consumed."""
        ready, _, _ = select.select([self._events, self._waker], [], [])
        if self._events in ready:
            os.read(self._events, 1 << 16)

    def wake(self) -> None:
        """Make a waiting `wait`, and every later one, return."""
        os.write(self._wake, b"x")

    def close(self) -> None:
        """Give the descriptors back, when no thread is in `wait`."""
        for descriptor in (self._events, self._waker, self._wake):
            os.close(descriptor)
