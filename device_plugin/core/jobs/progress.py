"""Progress: what a program says that it has done of what it has to do, in the file that $VGPU_PROGRESS names.

The file holds two lines of 64 bytes, each padded with spaces and ended by a newline, so that one write replaces one
line whole: `done total` at byte 0, and at byte 64 how many checkpoints the program has saved. Each line has a writer of
its own, so the answer to a checkpoint request (one checkpoint more) is not lost to the next progress. Everything here
is the tenant's word: it may be missing, half, or a lie, and never raises.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

LINE = 64
"""Bytes of one line."""
BYTES = 2 * LINE
"""Bytes of the file that are read."""
MOST = 10**15
"""The largest number that is believed: sums and products of a few stay exact in a float."""

# A line as a program may write it without padding is whole if nothing but padding follows its newline.
_PROGRESS = re.compile(rb" *([0-9]{1,16}) +([0-9]{1,16}) *\n[ \n\0]*")
_CHECKPOINTS = re.compile(rb" *([0-9]{1,16}) *\n[ \n\0]*")


ContainerName = tuple[str, str, str]
"""Namespace, pod and container."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The work done and the work in all, in a unit of the program's own: 0 ≤ done ≤ total, 1 ≤ total ≤ MOST."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """The content of a program's progress file: its progress, or None, and the number of checkpoints it has saved."""

    progress: Progress | None = None
    checkpoints: int = 0


def progress_of(content: bytes) -> Progress | None:
    """The progress in the first line of the file; None if that is empty, incomplete, of no work, or beyond MOST.

    More done than there is in all counts as all.
    """
    found = _PROGRESS.fullmatch(content[:LINE])
    if found is None:
        return None
    done, total = int(found[1]), int(found[2])
    return Progress(min(done, total), total) if 0 < total <= MOST else None


def checkpoints_of(content: bytes) -> int:
    """The number of checkpoints that the program has saved since its container started; 0 if it says nothing."""
    found = _CHECKPOINTS.fullmatch(content[LINE:BYTES])
    return min(int(found[1]), MOST) if found is not None else 0


def by_pod(
    told: Mapping[ContainerName, ProgressReport], pods: Iterable[tuple[str, str]]
) -> Mapping[tuple[str, str], ProgressReport]:
    """The progress and checkpoints of these pods, by namespace and name; empty for a pod that reports none.

    The progress is that of the first container, by name, that reports any. The checkpoints of all containers are added
    up, so that one more of any container is seen.
    """
    found = dict.fromkeys(pods, ProgressReport())
    for namespace, pod, container in sorted(name for name in told if name[:2] in found):
        before, more = found[namespace, pod], told[namespace, pod, container]
        found[namespace, pod] = ProgressReport(
            before.progress or more.progress, before.checkpoints + more.checkpoints
        )
    return found
