"""Kill processes at random points of their allocations, and watch the limit and the books."""

import random
import signal
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PROCESSES = 6
_CELLS = 64  # as in stubkfd.c


def torture(
    command: Sequence[str | Path], environment: Mapping[str, str], kills: int, seed: int
) -> list[int]:
    """Keep PROCESSES of `command` (with a seed appended) running and kill one after another; none is left.

    Returns the exit statuses of those that ended by themselves.
    """
    rng = random.Random(seed)
    running: list[subprocess.Popen[bytes]] = []
    statuses = []
    for kill in range(kills):
        while len(running) < PROCESSES:
            running.append(subprocess.Popen([*command, str(seed + kill + len(running))], env=environment))
        time.sleep(rng.uniform(0.0003, 0.02))  # when to kill is the random input here, not a wait
        statuses.append(_end(running.pop(rng.randrange(len(running)))))
    statuses += [_end(process) for process in running]
    return [status for status in statuses if status != -signal.SIGKILL]


def _end(process: "subprocess.Popen[bytes]") -> int:
    process.kill()
    return process.wait()


def violations(truth: Path) -> int:
    """Moments at which live processes together really held more than the limit, as the stub driver saw it."""
    return int(struct.unpack_from("<Q", truth.read_bytes(), _CELLS * 16)[0])
