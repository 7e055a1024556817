"""Measure how the agent reads the open files of processes (setting renderWork) where tenants keep very many.

    hack/render-scan [--full 2] [--small 30]

It starts processes of this machine: a full container has the most processes, with the most open files each, that the
agent reads; a small container has one process with 8 files. The processes stand in for containers: no cluster is
started. Exits non-zero if a look takes more than 1 % of a core, or a small container is not read in the first one.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from device_plugin.adapters.processes import OPEN_FILES, ProcProcesses
from device_plugin.node.checks.kernel_checks import LOOK_SECONDS
from device_plugin.node.checks.render_scan import CONTAINER_PROCESSES, RenderScan

SMALL_FILES = 8
MOST_PERCENT = 1.0


class StandInPods(ProcProcesses):
    """Reads the files of real processes, which `pods` assigns to pods; `read` has the processes that were read."""

    def __init__(self, pods: dict[str, Sequence[int]]) -> None:
        super().__init__(Path("/proc"))
        self.pods = pods
        self.read: set[int] = set()

    def of(self, pod: str, most: int | None = None) -> Sequence[int]:
        """The processes of the pod."""
        return self.pods[pod][:most]

    def open_files(self, process: int) -> Iterator[str]:
        """The kernel's texts about the first open files of a process."""
        self.read.add(process)
        return super().open_files(process)


def main() -> int:
    """Start the processes, and scan until each of them was read; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hack/render-scan", description=__doc__.splitlines()[0])
    parser.add_argument("--full", type=int, default=2)
    parser.add_argument("--small", type=int, default=30)
    args = parser.parse_args()
    with (
        _processes(args.full * CONTAINER_PROCESSES, OPEN_FILES) as many,
        _processes(args.small, SMALL_FILES) as few,
    ):
        full = {
            f"full-{number}": many[number * CONTAINER_PROCESSES : (number + 1) * CONTAINER_PROCESSES]
            for number in range(args.full)
        }
        host = StandInPods({**full, **{f"small-{process}": [process] for process in few}})
        print(
            f"{args.full} containers of {CONTAINER_PROCESSES} processes with {OPEN_FILES} open files,"
            f" {args.small} of 1 process with {SMALL_FILES}"
        )
        before = time.process_time()
        count = sum(1 for process in many for _ in host.open_files(process))
        print(
            f"all files of the full containers at once ({count}): {time.process_time() - before:.2f} s of CPU"
        )
        return _looks(host, frozenset(few))


def _looks(host: StandInPods, few: frozenset[int]) -> int:
    """Scan until every process was read, and print the costs; returns the exit status."""
    everyone = {process for processes in host.pods.values() for process in processes}
    host.read.clear()
    scan, costs, late = RenderScan(host), list[float](), 0
    while not everyone <= host.read:
        before = time.process_time()
        scan.look(list(host.pods))
        costs.append(time.process_time() - before)
        late += not few <= host.read
    percent = 100 * max(costs) / LOOK_SECONDS
    print(
        f"a look, every {LOOK_SECONDS:g} s: {1000 * max(costs):.0f} ms of CPU at most, {percent:.2f} % of a core"
        f" (at most {MOST_PERCENT:g})"
    )
    print(
        f"read: the small containers after {late + 1} look, every process after {len(costs)}"
        f" ({len(costs) * LOOK_SECONDS:g} s)"
    )
    return int(percent > MOST_PERCENT or late > 0)


@contextmanager
def _processes(count: int, files: int) -> Iterator[list[int]]:
    """Start `count` processes with `files` open files each, and yield their ids; they end with the context."""
    started = []
    try:
        for _ in range(count):
            ready, done = os.pipe()
            process = os.fork()
            if process == 0:
                while os.dup(done) < files:
                    pass
                os.write(done, b"x")
                signal.pause()
            started.append(process)
            os.close(done)
            os.read(ready, 1)
            os.close(ready)
        yield started
    finally:
        for process in started:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


if __name__ == "__main__":
    sys.exit(main())
