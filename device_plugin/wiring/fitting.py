"""Makes the tables of placement policies in a child process, which ends when they are made.

`python -m device_plugin.wiring.fitting` is that process. It is not a multiprocessing worker, because a worker would run
the main program again, and so start a second service.
"""

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from device_plugin.allocator.refit import FitError
from device_plugin.core.placement.card_columns import CardKind
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.workload import Weighted

POLITENESS = 10
# Seconds for the tables: 1,000 distinct requests take minutes; beyond this time they are given up.
MOST_SECONDS = 900.0
LOOK_SECONDS = 0.5
_PR_SET_PDEATHSIG = 1


def tables(
    kinds: Sequence[CardKind],
    supply: Sequence[int],
    shapes: Sequence[Weighted],
    ending: Callable[[], bool] = lambda: False,
) -> WorkloadTables:
    """Returns the WorkloadTables of these arguments, made in a child process.

    `supply` is the number of cards of each of the `kinds`, and `shapes` are the requests expected of later pods. Raises
    FitError if the process fails, is killed or takes MOST_SECONDS, or once `ending` returns true. The shapes come from
    tenants' pods, so no failure here may end the service.
    """
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "device_plugin.wiring.fitting", str(os.getpid())]
    try:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
        ) as process:
            answer, complaint = _talk(process, pickle.dumps((kinds, supply, shapes)), ending)
    except OSError as error:
        raise FitError(f"the process that makes the tables cannot be started: {error}") from error
    if process.returncode:
        said = complaint.decode(errors="replace").strip().rpartition("\n")[2]
        raise FitError(f"the process that makes the tables ended with {process.returncode}: {said}")
    made: WorkloadTables = pickle.loads(answer)  # noqa: S301 - from our own child
    return made


def _talk(
    process: "subprocess.Popen[bytes]", lesson: bytes, ending: Callable[[], bool]
) -> tuple[bytes, bytes]:
    """Write the input, `lesson` (learnt requests and cards), to the process; returns its output and error output.

    Kills the process, and raises FitError, once its time is over or the service ends.
    """
    deadline = time.monotonic() + MOST_SECONDS
    given: bytes | None = lesson
    while True:
        try:
            return process.communicate(given, timeout=LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            given = None  # already written to the process
            if ending() or time.monotonic() > deadline:
                process.kill()
                raise FitError("the service ends" if ending() else "the tables took too long") from None


def main() -> None:
    """Read the input from stdin and write the tables to stdout, at low priority.

    By prctl(2) the kernel kills this process when the service's process ends.
    """
    os.nice(POLITENESS)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        return
    kinds, supply, shapes = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own parent
    pickle.dump(WorkloadTables(kinds, supply, shapes), sys.stdout.buffer)


if __name__ == "__main__":
    main()
