"""Render files: open files of render nodes, through which a process can use a card without the library's limits.

Linux, Documentation/gpu/drm-usage-stats.rst: the kernel's text on such a file (/proc/<pid>/fdinfo/<fd>) names the card
and the client. All descriptors of one open file have one client, in whichever process. The text has the time that each
engine of the card has worked for the client, and the memory that the client holds:

    drm-pdev:            0000:19:00.0
    drm-client-id:       68
    drm-engine-compute:  41187 ns
    drm-resident-vram:   1048576 KiB
    drm-shared-vram:     4096 KiB

Masks of compute units do not limit such work, so the library refuses it to a container that holds a part of the card. A
process with such work has bypassed the library.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vgpu_runtime.config import MAX_MEM_BYTES

# Engines that run programs on compute units; the others copy memory, or decode video.
ENGINES = ("gfx", "compute")
# Names of the memory that a client holds on the card, the most exact first. Older drivers have only the others, which
# count a buffer that the driver has moved to the host too.
HELD = ("drm-resident-vram", "drm-memory-vram", "drm-total-vram")
SHARED = "drm-shared-vram"
_LINE = re.compile(r"^(drm-[a-z-]{1,32}):[ \t]*([!-~]{1,32})(?: (ns|KiB|MiB))?$", re.MULTILINE)
_NUMBER = re.compile(r"[0-9]{1,20}")
_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}


@dataclass(frozen=True, slots=True)
class RenderFile:
    """The figures of one open file of a render node.

    `card` is the card's PCI address, `client` the kernel's id of the client, and `work_ns` the nanoseconds for which
    compute units have worked for this client. `own_bytes` are in buffers that only this client has, `shared_bytes` in
    buffers that another client may have too.
    """

    card: str
    client: str
    work_ns: int = 0
    own_bytes: int = 0
    shared_bytes: int = 0


def render_file(text: str) -> RenderFile | None:
    """The figures in the kernel's text on an open file; None if the file is not a render node."""
    values = {key: (value, unit) for key, value, unit in _LINE.findall(text)}
    if "drm-pdev" not in values:
        return None
    work = sum(_number(*values.get(f"drm-engine-{engine}", ("", "")), {"ns": 1}) for engine in ENGINES)
    held = next((_bytes(*values[key]) for key in HELD if key in values), 0)
    # A driver that does not say what is shared may count one buffer for several clients.
    shared = min(held, _bytes(*values[SHARED])) if SHARED in values else held
    client, _ = values.get("drm-client-id", ("", ""))
    return RenderFile(values["drm-pdev"][0], client, work, held - shared, shared)


def workers(files: Mapping[int, Iterable[RenderFile]], cards: Iterable[str]) -> frozenset[int]:
    """The processes that made one of these cards work through a render node. `cards` are PCI addresses.

    `files` has each process's open files of render nodes.
    """
    wanted = frozenset(cards)
    return frozenset(
        process for process, held in files.items() if any(f.work_ns and f.card in wanted for f in held)
    )


def held_bytes(files: Mapping[int, Iterable[RenderFile]], card: str, by_driver: Mapping[int, int]) -> int:
    """The bytes of a card that some processes hold at least, by their render files and by the driver's own list.

    `files` has the open render files of each process, and `card` is a PCI address. `by_driver` has the bytes that each
    process allocated through KFD. A process's render files may show the same bytes, so the larger figure counts. Only
    render files show memory that another process has made. No file shows which clients share a buffer, so shared
    buffers count once.
    """
    own: dict[int, int] = {}
    shared, seen = 0, set[str]()
    for process, held in sorted(files.items()):
        own[process] = 0
        for file in held:
            if file.card == card and file.client not in seen:
                seen.add(file.client)
                own[process] += file.own_bytes
                shared = max(shared, file.shared_bytes)
    listed = sum(
        max(own.get(process, 0), by_driver.get(process, 0)) for process in own.keys() | by_driver.keys()
    )
    return max(listed, sum(own.values()) + shared)


def _bytes(value: str, unit: str) -> int:
    number = _number(value, unit, _UNITS)
    return number if number <= MAX_MEM_BYTES else 0


def _number(value: str, unit: str, units: Mapping[str, int]) -> int:
    return int(value) * units[unit] if unit in units and _NUMBER.fullmatch(value) else 0
