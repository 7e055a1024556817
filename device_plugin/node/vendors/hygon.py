"""Hygon's cards: KFD's, with slices that the vendor's own stack in the container knows too (vgpu_runtime/vdev.py).

Each live slice of a card has a pipe of its own. The driver needs about a second to let go of a pipe, so a pipe that
a slice has left rests for that long.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from device_plugin.node.vendors.port import CardSlice, ContainerFiles, Machine, NoVendorIdError
from device_plugin.node.vendors.rocm import KfdCard, Rocm, limit_of
from vgpu_runtime import paths, vdev

REST_SECONDS = 1.0


class Pipes:
    """The pipes of all cards. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, int] = {}
        self._left: dict[tuple[str, int], float] = {}

    def claim(self, card: str, taken: Collection[int], before: int | None = None) -> int:
        """A pipe that no slice of the card has now or had a second ago. Raises NoVendorIdError."""
        now = self._clock()
        if before is not None:
            self._left.setdefault((card, before), now)
        resting = [
            pipe for (on, pipe), since in self._left.items() if on == card and now - since < REST_SECONDS
        ]
        pipe = vdev.free_pipe([*taken, *resting], self._last.get(card))
        if pipe is None:
            raise NoVendorIdError(f"card {card} has no free pipe")
        self._last[card] = pipe
        self._left.pop((card, pipe), None)
        return pipe

    def release(self, card: str, vendor_id: int) -> None:
        """The pipe rests from now on."""
        self._left[card, vendor_id] = self._clock()

    def claimed(self, cards: Sequence[str], text: Callable[[str], str | None]) -> Mapping[str, int]:
        """The pipes in a container's vdev files."""
        pipes = ((card, vdev.pipe_of(text(vdev.file_name(i)) or "")) for i, card in enumerate(cards))
        return {card: pipe for card, pipe in pipes if pipe is not None}


class Hygon(Rocm):
    """KFD's cards of Hygon."""

    PCI_VENDOR: ClassVar[int] = 0x1D94
    MAX_SLICES: ClassVar[int] = vdev.MAX_SLICES

    def __init__(self, machine: Machine, mounts: Sequence[str] = ()) -> None:
        super().__init__(machine, mounts)
        self._pipes = Pipes()

    @property
    def ids(self) -> Pipes:
        """A slice's id is its pipe."""
        return self._pipes

    def files(self, slices: Sequence[CardSlice[KfdCard]]) -> ContainerFiles:
        """The files of every KFD card, and a vdev file for each slice."""
        texts = {
            vdev.file_name(number): vdev.render(
                limit_of(s), vdev_id=number, pipe_id=s.vendor_id, device_id=number
            )
            for number, s in enumerate(slices)
            if s.vendor_id is not None
        }
        return replace(super().files(slices), texts=texts)

    def container_path(self, name: str) -> str | None:
        """The folder in which the vendor's stack looks for vdev files."""
        return f"{paths.CONTAINER_VDEV_FOLDER}/{name}" if vdev.is_file_name(name) else None

    def _unfit(self, units: int, card: KfdCard) -> str:
        if units > vdev.MAX_UNITS:
            return f"it has {units} compute units, its vendor's slices hold at most {vdev.MAX_UNITS}"
        return super()._unfit(units, card)
