"""Keep our threads on one CPU at a time, and out of each other's way there.

Python runs one of them at a time, and numpy lets others have their turn dozens of times in each decision: handed over
between CPUs, those turns cost more than what is done in them. On one CPU a /filter and its /bind take about half as
long (`vgpu bench extender`). Which CPU that is the kernel chooses, again and again: another one may be idle by now.

A thread that wakes there would interrupt the one that runs, only to wait for Python's lock; threads of SCHED_BATCH wait
for their turn instead (sched(7)).
"""

import os
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

# How long we may go where the kernel wants us, and how long we then stay.
CHOOSE_SECONDS, STAY_SECONDS = 0.02, 10.0
_STAT = Path("/proc/thread-self/stat")
# Where proc_pid_stat(5) says `processor`, counted from the field after the name.
_PROCESSOR = 36


class OneCpu:
    """Call `step` in a thread of its own; `wait` says after so many seconds whether the service ends.

    Threads whose names are among `free` go where they like, and so do their children.
    """

    def __init__(self, wait: Callable[[float], bool], free: Collection[str]) -> None:
        self._wait = wait
        self._free = free
        self._allowed = os.sched_getaffinity(0)

    def leave(self) -> None:
        """Stay together no longer."""
        _move(self._allowed, self._free, os.SCHED_OTHER)

    def step(self) -> None:
        """Let the kernel choose a CPU, go there, and stay a while."""
        _move(self._allowed, self._free, os.SCHED_OTHER)
        self._wait(CHOOSE_SECONDS)
        _move({int(_STAT.read_text().rpartition(")")[2].split()[_PROCESSOR])}, self._free, os.SCHED_BATCH)
        self._wait(STAY_SECONDS)


def _move(cpus: Collection[int], free: Collection[str], manners: int) -> None:
    for thread in threading.enumerate():
        if thread.name not in free and thread.native_id is not None:
            # It has just ended; or the container may not do this, and is only slower.
            with suppress(ProcessLookupError, PermissionError):
                os.sched_setaffinity(thread.native_id, cpus)
                os.sched_setscheduler(thread.native_id, manners, os.sched_param(0))
