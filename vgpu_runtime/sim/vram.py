"""Used memory (VRAM) of simulated cards: a file with a slot for each process that uses a card.

Driver and layout: driver/vram.c. A slot, the bytes that one process uses, counts while its process holds the slot's
lock, so until the process ends.
"""

import struct
from pathlib import Path

from vgpu_runtime.region import locked

SLOTS = 1024
SLOT = struct.Struct("=16Q")
_LOCK_BASE = 1 << 40


def account(folder: Path, card: int) -> Path:
    """The path of the text file with the used memory of the `card`-th KFD card; the simulated driver writes it too."""
    return folder / f"state/vram_used.{card}"


def create(folder: Path, cards: int) -> None:
    """Create the files that count the used memory of `cards` cards, all 0, and writable by processes of any user."""
    accounts = {account(folder, card): b"%-20d\n" % 0 for card in range(cards)}
    for path, content in ({folder / "state/vram": bytes(SLOTS * SLOT.size)} | accounts).items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o666)


def used(folder: Path) -> list[int]:
    """Bytes in use on each KFD card, in the order of their nodes, by processes that are alive."""
    totals = [0] * 16
    with (folder / "state/vram").open("rb") as file:
        for slot, amounts in enumerate(SLOT.iter_unpack(file.read(SLOTS * SLOT.size))):
            if any(amounts) and locked(file.fileno(), _LOCK_BASE + slot):
                totals = [total + amount for total, amount in zip(totals, amounts, strict=True)]
    return totals[: sum(1 for _ in (folder / "state").glob("vram_used.*"))]


def refresh(folder: Path) -> None:
    """Write the used memory of each card into the simulated sysfs; the driver does not write it when a process dies."""
    for card, amount in enumerate(used(folder)):
        with account(folder, card).open("r+b") as file:
            file.write(b"%-20d\n" % amount)
