"""Processes that allocate at random: killed at random points, or racing. The limit and the books are watched."""

import random
import signal
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROCESSES = 6
_CELLS = 64  # as in stubkfd.c

Command = Sequence[str | Path]


@dataclass(frozen=True)
class Torture:
    """`failed` has the exit statuses of processes that ended by themselves, `slowest` is an admission in seconds."""

    failed: list[int]
    slowest: float


def torture(
    command: Command, admit: Command, environment: Mapping[str, str], kills: int, seed: int
) -> Torture:
    """Keep PROCESSES of `command` (with a seed appended) running and kill one after another; none is left.

    After each kill the program `admit` (admit.c) asks for memory, while the others go on.
    """
    rng = random.Random(seed)
    running: list[subprocess.Popen[bytes]] = []
    statuses, slowest = [], 0
    with subprocess.Popen(admit, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as next_one:
        assert next_one.stdin is not None
        assert next_one.stdout is not None
        try:
            for kill in range(kills):
                while len(running) < PROCESSES:
                    running.append(
                        subprocess.Popen([*command, str(seed + kill + len(running))], env=environment)
                    )
                time.sleep(rng.uniform(0.0003, 0.02))  # when to kill is the random input here, not a wait
                statuses.append(_end(running.pop(rng.randrange(len(running)))))
                next_one.stdin.write(b"\n")
                next_one.stdin.flush()
                slowest = max(slowest, int(next_one.stdout.readline()))
        finally:
            statuses += [_end(process) for process in running]
    return Torture([status for status in statuses if status != -signal.SIGKILL], slowest / 1e6)


def _end(process: "subprocess.Popen[bytes]") -> int:
    process.kill()
    return process.wait()


def violations(truth: Path) -> int:
    """Moments at which live processes together really held more than the limit, as the stub driver saw it."""
    return int(struct.unpack_from("<Q", truth.read_bytes(), _CELLS * 16)[0])


def race(
    command: Command, environment: Mapping[str, str], processes: int, turns: int, seed: int, *more: str
) -> list[int]:
    """The exit statuses of `processes` runs of `command` at once, each with a seed, `turns` and `more` appended."""
    running = [
        subprocess.Popen([*command, str(seed + i), str(turns), *more], env=environment)
        for i in range(processes)
    ]
    return [process.wait() for process in running]


@dataclass(frozen=True)
class Held:
    """Bytes that processes really hold together, as the stub driver saw it: in the end, and at most."""

    now: int
    peak: int

    @classmethod
    def read(cls, path: Path) -> "Held":
        return cls(*struct.unpack("<QQ", path.read_bytes()))
