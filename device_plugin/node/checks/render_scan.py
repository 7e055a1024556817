"""Render scan: reads the kernel's figures of the render nodes that pods with slices have open, some at each `look`.

A render node is the device file by which a process uses a card. A tenant can keep 256 open files in each of 128
processes, and the kernel takes some 13 microseconds to describe one. So each call of `look` reads for READ_SECONDS, and
the next call goes on from there: the pods take turns, a process at a time. A pod with many files does not delay others,
and every process is read in the end.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from device_plugin.node.checks.render_files import RenderFile, render_file
from device_plugin.node.ports import HostProcesses

# Seconds that a look takes at most, and one process more.
READ_SECONDS = 0.025
# Most processes of a container that are read: its library can account for this number (vgpu_region.h).
CONTAINER_PROCESSES = 128


@dataclass(slots=True)
class _Round:
    """One pass over the processes of a pod, which reads the figures of their open render nodes.

    `left` are the processes that are not read yet. `fresh` has, by process, the figures read in this pass, and `before`
    the figures read in the pass before.
    """

    left: list[int] = field(default_factory=list)
    fresh: dict[int, Sequence[RenderFile]] = field(default_factory=dict)
    before: Mapping[int, Sequence[RenderFile]] = field(default_factory=dict)


class RenderScan:
    """Reads the figures of the render nodes that processes of pods have open, a part at each `look`.

    Call `look` every few seconds, from one thread. `clock` is monotonic, in seconds.
    """

    def __init__(self, processes: HostProcesses, clock: Callable[[], float] = time.monotonic) -> None:
        self._processes = processes
        self._clock = clock
        # By pod UID, those first that have waited longest.
        self._rounds: dict[str, _Round] = {}

    def look(self, pods: Collection[str]) -> Mapping[int, Sequence[RenderFile]]:
        """Read further processes of `pods` for READ_SECONDS, and forget all other pods.

        Returns the figures of each process as they were last read, one for each open file of a render node; processes
        without such a file are left out.
        """
        end = self._clock() + READ_SECONDS
        kept = {pod: each for pod, each in self._rounds.items() if pod in pods}
        rounds = {**kept, **{pod: _Round() for pod in pods if pod not in kept}}
        for pod, each in rounds.items():
            if not each.left:
                before = {**each.before, **each.fresh}
                left = list(self._processes.of(pod, CONTAINER_PROCESSES))
                each.left, each.fresh = left[::-1], {}
                each.before = {process: before[process] for process in left if process in before}
        turns, done = deque(rounds), list[str]()
        while turns and self._clock() < end:
            pod = turns.popleft()
            self._read(rounds[pod])
            (turns if rounds[pod].left else done).append(pod)
        self._rounds = {pod: rounds[pod] for pod in (*turns, *done)}
        return {
            process: files
            for each in rounds.values()
            for process, files in {**each.before, **each.fresh}.items()
            if files
        }

    def _read(self, each: _Round) -> None:
        """Read the kernel's figures of the render nodes that the round's next process has open, if one is left."""
        if each.left:
            process = each.left.pop()
            texts = self._processes.open_files(process)
            each.fresh[process] = [file for text in texts if (file := render_file(text)) is not None]
