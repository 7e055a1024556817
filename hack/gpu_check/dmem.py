"""The checks of the kernel's own limit of card memory, dmem.max. They need root and cgroup v2.

HAMi measured them on a card with gfx1200 and Linux 7.0: memory beyond the limit is refused, HIP's pools then take host
memory, which no limit counts, and a limit below the use takes nothing back.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hack.gpu_check.cards import Card, read
from hack.gpu_check.checks import Bench
from hack.gpu_check.running import FailedError, ImpossibleError, Running, command_of, good, started
from hack.gpu_check.slices import MIB

CGROUPS = Path("/sys/fs/cgroup")
LIMIT_MIB, MORE_MIB, RECLAIM_SECONDS = 256, 512, 3


@dataclass(frozen=True)
class Group:
    """A cgroup that this check has made, with a limit of card memory."""

    path: Path
    region: str

    def limit(self, mib: int) -> None:
        """Set the limit of the card's memory."""
        (self.path / "dmem.max").write_text(f"{self.region} {mib * MIB}")

    def held_mib(self) -> int:
        """The card's memory that the group's processes hold."""
        lines = (line.split() for line in read(str(self.path / "dmem.current")).splitlines())
        return int(dict(lines).get(self.region, "0")) // MIB

    def start(self, words: str, card: Card) -> contextlib.AbstractContextManager[Running]:
        """Start program.py in the group."""
        enter = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.path / "cgroup.procs")]
        return started([*enter, *command_of(words, card)])


@contextlib.contextmanager
def group(card: Card) -> Iterator[Group]:
    """A new cgroup with the controller dmem; it is removed at the end. Raises ImpossibleError."""
    region = f"drm/{card.pci}/vram"
    if region not in read(str(CGROUPS / "dmem.capacity")):
        raise ImpossibleError(f"no controller dmem with {region} (cgroup v2, Linux 6.14)")
    path = CGROUPS / f"vgpu-gpu-check-{os.getpid()}"
    try:
        (CGROUPS / "cgroup.subtree_control").write_text("+dmem")
        path.mkdir()
    except OSError as error:
        raise ImpossibleError(f"needs root: {error}") from None
    try:
        yield Group(path, region)
    finally:
        path.rmdir()


def limit(bench: Bench) -> str:
    """Check that the limit holds: the kernel refuses memory, or moves it out of the card."""
    return _beyond("hold", bench)


def pool(bench: Bench) -> str:
    """Check that the limit holds for memory of HIP's memory pool, and find where memory beyond the limit goes."""
    return _beyond("pool", bench)


def lowered(bench: Bench) -> str:
    """Find whether a limit below the present use takes memory back, and check that further memory is refused."""
    with group(bench.card) as cgroup:
        cgroup.limit(2 * MORE_MIB)
        with cgroup.start(f"hold {MORE_MIB} 64", bench.card) as program:
            good(program.answer(), f"{MORE_MIB} MiB")
            try:
                cgroup.limit(LIMIT_MIB)
            except OSError as refusal:
                return f"{LIMIT_MIB} MiB with {MORE_MIB} in use: the write is refused ({refusal.strerror})"
            end = time.monotonic() + RECLAIM_SECONDS
            while cgroup.held_mib() > LIMIT_MIB and time.monotonic() < end:
                time.sleep(0.1)
            kept = cgroup.held_mib()
            program.go()
            error = program.answer()["error"]
            grown = cgroup.held_mib()
    if grown > max(kept, LIMIT_MIB):
        raise FailedError(
            f"with {kept} MiB in use and a limit of {LIMIT_MIB}, 64 MiB more were given in the card"
        )
    what = f"{kept} MiB stay in the card" if kept > LIMIT_MIB else f"taken back to {kept} MiB"
    more = f"refused: HIP error {error:.0f}" if error else "given, not in the card"
    return f"lowered to {LIMIT_MIB} MiB with {MORE_MIB} in use: {what}; 64 MiB more are {more}"


CHECKS: dict[str, Callable[[Bench], str]] = {
    "dmem.max": limit,
    "dmem.max, HIP pool": pool,
    "dmem.max, lowered": lowered,
}


def _beyond(command: str, bench: Bench) -> str:
    with group(bench.card) as cgroup:
        cgroup.limit(LIMIT_MIB)
        with cgroup.start(f"{command} {MORE_MIB}", bench.card) as program:
            error = program.answer()["error"]
            held = cgroup.held_mib()
    if error:
        return f"{MORE_MIB} MiB beyond {LIMIT_MIB} refused: HIP error {error:.0f}"
    if held > LIMIT_MIB:
        raise FailedError(f"{held} MiB are held, {LIMIT_MIB} allowed")
    return f"{MORE_MIB} MiB beyond {LIMIT_MIB} given, {held} of them in the card, the others in the host's memory"
