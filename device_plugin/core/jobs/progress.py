"""Progress: a program's report of its work done and its total work, in the file that $VGPU_PROGRESS names.

The file has two lines of 64 bytes, each padded with spaces and ended by a newline, so that one write replaces one whole
line: `done total` at byte 0, and the number of saved checkpoints at byte 64. Each line has its own writer, so a report
of progress never overwrites the answer to a checkpoint request (one checkpoint more). A tenant writes the file: its
content may be missing, incomplete or false, so reading it never raises an exception.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

LINE = 64
"""Bytes of one line."""
BYTES = 2 * LINE
"""The number of bytes of the file that are read."""
MOST = 10**15
"""The largest accepted number: sums and products of a few such numbers stay exact in a float."""

# A program may write a line without padding: the line is complete if only padding follows its newline.
_PROGRESS = re.compile(rb" *([0-9]{1,16}) +([0-9]{1,16}) *\n[ \n\0]*")
_CHECKPOINTS = re.compile(rb" *([0-9]{1,16}) *\n[ \n\0]*")


ContainerName = tuple[str, str, str]
"""Namespace, pod and container."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The work done and the total work, in any unit of the program: 0 ≤ done ≤ total, 1 ≤ total ≤ MOST."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """The content of a program's progress file: its progress (None without one), and its number of checkpoints."""

    progress: Progress | None = None
    checkpoints: int = 0


def progress_of(content: bytes) -> Progress | None:
    """The progress in the first line of the file; None if the line is incomplete, or its total is 0 or above MOST.

    If `done` is more than `total`, it counts as `total`.
    """
    found = _PROGRESS.fullmatch(content[:LINE])
    if found is None:
        return None
    done, total = int(found[1]), int(found[2])
    return Progress(min(done, total), total) if 0 < total <= MOST else None


def checkpoints_of(content: bytes) -> int:
    """The number of checkpoints saved since the container started, in the file's second line; 0 without this line."""
    found = _CHECKPOINTS.fullmatch(content[LINE:BYTES])
    return min(int(found[1]), MOST) if found is not None else 0


def by_pod(
    told: Mapping[ContainerName, ProgressReport], pods: Iterable[tuple[str, str]]
) -> Mapping[tuple[str, str], ProgressReport]:
    """The progress and checkpoints of these pods, by namespace and name; an empty report for a pod that reports none.

    `told` are the reports of containers; `pods` are namespaces and names. A pod's progress is the report of its first
    container, by name, that has one. The checkpoints of all containers are summed, so that the sum grows with a
    checkpoint of any container.
    """
    found = dict.fromkeys(pods, ProgressReport())
    for namespace, pod, container in sorted(name for name in told if name[:2] in found):
        before, more = found[namespace, pod], told[namespace, pod, container]
        found[namespace, pod] = ProgressReport(
            before.progress or more.progress, before.checkpoints + more.checkpoints
        )
    return found
