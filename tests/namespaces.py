"""Parts of tests that mount: in a child with mounts of its own, where it is root, whoever runs the tests."""

import ctypes
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.requirement import require

_NEWNS, _NEWUSER, _REC, _PRIVATE = 0x00020000, 0x10000000, 0x4000, 1 << 18
_REFUSED = 77


def with_own_mounts(body: Callable[[], None]) -> None:
    """Run `body` in a forked child that may mount what only it sees; its failures fail the test."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        os._exit(_child(body, writer))
    os.close(writer)
    with os.fdopen(reader) as report:
        text = report.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    require(status != _REFUSED, f"needs user namespaces, as make demo does: {text}")
    assert status == 0, text


@contextmanager
def beside(body: Callable[[], None]) -> Iterator[None]:
    """A forked process that runs `body`, and is killed at the end."""
    child = os.fork()
    if not child:
        os.closerange(3, 4096)
        try:
            body()
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _child(body: Callable[[], None], report: int) -> int:
    try:
        _enter()
    except OSError as error:
        os.write(report, str(error).encode())
        return _REFUSED
    try:
        body()
    except BaseException:  # noqa: BLE001 - the parent raises it
        os.write(report, traceback.format_exc().encode()[-60000:])
        return 1
    return 0


def _enter() -> None:
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEWUSER | _NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    if libc.mount(None, b"/", None, ctypes.c_ulong(_REC | _PRIVATE), None):
        raise OSError(ctypes.get_errno(), "mount")
