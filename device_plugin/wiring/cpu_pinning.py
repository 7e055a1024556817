"""Pins the service's threads to one CPU.

Python runs one thread at a time, and numpy gives up Python's lock dozens of times in each decision. Handing the lock
to a thread on another CPU costs more than the work in between: on one CPU a /filter and its /bind take about half as
long (`vgpu bench extender`). The kernel chooses the CPU, and chooses again every STAY_SECONDS, when another may be
idle.

The threads get the scheduling policy SCHED_BATCH (sched(7)): a thread that wakes up then does not interrupt the running
thread, which has Python's lock.
"""

import os
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

# Seconds in which the kernel may move the threads, and seconds for which they then stay on one CPU.
CHOOSE_SECONDS, STAY_SECONDS = 0.02, 10.0
_STAT = Path("/proc/thread-self/stat")
# The position of `processor` in proc_pid_stat(5), counted from the field after the name.
_PROCESSOR = 36


class CpuPinning:
    """Pins the threads of this process to one CPU. Call `step` in a loop, in a thread of its own.

    `wait` waits for a number of seconds and returns true if the service ends. Threads with a name in `free` are not
    pinned, nor are their child processes.
    """

    def __init__(self, wait: Callable[[float], bool], free: Collection[str]) -> None:
        self._wait = wait
        self._free = free
        self._allowed = os.sched_getaffinity(0)

    def leave(self) -> None:
        """Undo the pinning: the threads may run on all CPUs, with the usual scheduling policy."""
        _move(self._allowed, self._free, os.SCHED_OTHER)

    def step(self) -> None:
        """Let the kernel choose a CPU, then pin all threads to this CPU for STAY_SECONDS."""
        _move(self._allowed, self._free, os.SCHED_OTHER)
        self._wait(CHOOSE_SECONDS)
        _move({int(_STAT.read_text().rpartition(")")[2].split()[_PROCESSOR])}, self._free, os.SCHED_BATCH)
        self._wait(STAY_SECONDS)


def _move(cpus: Collection[int], free: Collection[str], policy: int) -> None:
    for thread in threading.enumerate():
        if thread.name not in free and thread.native_id is not None:
            # The thread has just ended, or the container may not pin threads and is only slower.
            with suppress(ProcessLookupError, PermissionError):
                os.sched_setaffinity(thread.native_id, cpus)
                os.sched_setscheduler(thread.native_id, policy, os.sched_param(0))
