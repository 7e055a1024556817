"""Hygon's records of slices: the file in which the simulated driver keeps them, and their files in the simulated sysfs.

The maker's driver shows each slice that a process uses, and for a second longer, as
/sys/devices/virtual/kfd/kfd/vgpu/0x<gpu_id>@<pipe_id>/entry (layout: the GPUStack operator's Hygon cases 3 and 5). The
simulated driver runs in the containers and cannot write there, so `refresh` does. Driver and layout: driver/pipes.c.
"""

import os
import re
import shutil
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vgpu_runtime.region import locked

RECORDS = Path("sys/devices/virtual/kfd/kfd/vgpu")
CARDS, PIPES = 16, 20
_NS_PER_S = 1_000_000_000
RECORD = struct.Struct("=8Q")
_LOCK_BASE = 1 << 40
_GPU_ID = re.compile(r"^card gpu_id=(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Record:
    """A slice that a process uses or has used within the last second. `card` is the number of the KFD card from 0."""

    card: int
    pipe: int
    vram_bytes: int
    identifier: int


def create(folder: Path) -> None:
    """Create the empty file in which the driver keeps the slices in use; processes of any user can write it."""
    path = folder / "state/pipes"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(CARDS * PIPES * RECORD.size))
    path.chmod(0o666)


def read(folder: Path) -> Iterator[Record]:
    """The records of slices (a process's use of a slice) that the driver keeps now."""
    with (folder / "state/pipes").open("rb") as file:
        content = file.read(CARDS * PIPES * RECORD.size)
        for index, (_, _, seen, vram_bytes, identifier, *_) in enumerate(RECORD.iter_unpack(content)):
            if seen and (
                locked(file.fileno(), _LOCK_BASE + index) or time.monotonic_ns() - seen < _rest_ns()
            ):
                yield Record(*divmod(index, PIPES), vram_bytes, identifier)


def _rest_ns() -> int:
    """The nanoseconds for which the driver keeps the record of an ended slice, as in driver/pipes.c."""
    return _NS_PER_S * int(os.environ.get("SIMKFD_REST_SECONDS", "1"))


def refresh(folder: Path) -> None:
    """Write the records of slices in use into the simulated sysfs, and remove those that the driver no longer keeps."""
    gpu_ids = [int(found) for found in _GPU_ID.findall((folder / "driver.conf").read_text(encoding="ascii"))]
    shown = {f"0x{gpu_ids[record.card]:x}@{record.pipe}": record for record in read(folder)}
    root = folder / RECORDS
    root.mkdir(parents=True, exist_ok=True)
    for path in root.iterdir():
        if path.name not in shown:
            shutil.rmtree(path)
    for name, record in shown.items():
        entry = root / name / "entry"
        text = f"Indentifier:{record.identifier}\nVgpu device:{name}\nVram limit:{record.vram_bytes}\n"
        if not entry.exists() or entry.read_text(encoding="ascii") != text:
            entry.parent.mkdir(exist_ok=True)
            entry.write_text(text, encoding="ascii")
