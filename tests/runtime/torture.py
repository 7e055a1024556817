"""Kill processes at random points of their allocations, and watch the limit and the books."""

import random
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PROCESSES = 6
_CELLS = 64  # as in stubkfd.c


def torture(command: Sequence[str | Path], environment: Mapping[str, str], kills: int, seed: int) -> None:
    """Keep PROCESSES of `command` (with a seed appended) running and kill one after another; none is left."""
    rng = random.Random(seed)
    running: list[subprocess.Popen[bytes]] = []
    for kill in range(kills):
        while len(running) < PROCESSES:
            running.append(subprocess.Popen([*command, str(seed + kill + len(running))], env=environment))
        time.sleep(rng.uniform(0.0003, 0.02))  # when to kill is the random input here, not a wait
        _end(running.pop(rng.randrange(len(running))))
    for process in running:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def violations(truth: Path) -> int:
    """Moments at which live processes together really held more than the limit, as the stub driver saw it."""
    return int(struct.unpack_from("<Q", truth.read_bytes(), _CELLS * 16)[0])
