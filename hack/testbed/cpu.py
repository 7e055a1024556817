"""Measures the CPU seconds of all visible processes between two looks, by program.

The CPU time of an ended process counts for the parent that waited for it: runc and the network plugins count for
containerd and its shims.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
# Programs that are shown by their first argument, or by the name of the file in it.
_PYTHON = ("python", "python3", "python3.11")
OURS = "kube-scheduler of vgpu"
MACHINE = "the whole machine"


@dataclass(frozen=True)
class Process:
    """A process: its program, its parent, and its CPU seconds, with its ended children's."""

    program: str
    parent: int
    seconds: float


Look = Mapping[tuple[int, str], Process]
"""Every process by its pid and start time, which together identify it."""


def look() -> Look:
    """The present processes, and an entry for the whole machine, which includes the kernel and invisible processes."""
    return {(0, ""): Process(MACHINE, 0, _busy()), **dict(_processes())}


def spent(before: Look, after: Look) -> Mapping[str, float]:
    """The CPU seconds between two looks, by program."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for process in after.values():
        seconds[process.program] += process.seconds
    parents = {pid: process.program for (pid, _), process in after.items()}
    for key, process in before.items():
        # The parent's time includes an ended process' time: subtract the part before the first look.
        program = process.program if key in after else parents.get(process.parent, process.program)
        seconds[program] -= process.seconds
    return seconds


def _busy() -> float:
    """The busy seconds of all cores since boot: user, nice, system, interrupts; not idle or waiting for disks."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return sum(int(words[number]) for number in (1, 2, 3, 6, 7)) / _TICKS


def _processes() -> Iterator[tuple[tuple[int, str], Process]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has just ended
        fields = rest.split()
        ticks = sum(map(int, fields[11:15]))
        yield (int(folder.name), fields[19]), Process(_program(name, words), int(fields[1]), ticks / _TICKS)


def _program(name: str, words: list[str]) -> str:
    first = Path(words[0]).name or name
    if first == "kube-scheduler" and any(word.startswith("--config=/etc/vgpu/") for word in words):
        return OURS
    if first in _PYTHON and len(words) > 2:
        return " ".join([Path(words[1]).name, words[2]])
    return first
