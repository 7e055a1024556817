"""Hygon's vdev<N>.conf: the slice as the vendor's own runtime (libhsa-runtime64 of DTK/hyhal) enforces it.

The runtime reads `/etc/vdev/docker/vdev<N>.conf`. Fields and order as in HAMi's DCU plugin
(github.com/Project-HAMi/dcu-vgpu-device-plugin, internal/pkg/dcu/server.go, createvdevFile) and in the strings
of the vendor's parser as published by the GPUStack operator's Hygon cases, which also name its two rules:
`cu_count` must equal the number of bits in the two `cu_mask` lines ("inconsistent with hamming weight of cu
mask field") and `vdev_id` must equal N of the file's name ("inconsistent with configuration file associated
value"). The first mask line holds compute units 0-63, the second 64-127.

Hygon's driver distinguishes the slices of a card by a number, their pipe (`pipe_id`). So live slices of one card must
have different pipes: `free_pipe` chooses one.
"""

import re
from collections.abc import Collection

from vgpu_runtime.config import CardLimit, ConfigError
from vgpu_runtime.rocm import RocmLimit

MAX_UNITS = 128
MAX_SLICES = 4  # of a card, as the vendor's own tools cut it
# Pipes of a card. The vendor's tools use the first four; 5 was measured to work, 19 is the GPUStack operator's bound.
PIPES = 20
FIRST_PIPES = 4
_WORD = (1 << 64) - 1


def file_name(vdev_id: int) -> str:
    """The file name at which the vendor's runtime expects the slice (virtual device) number `vdev_id`."""
    return f"vdev{vdev_id}.conf"


def is_file_name(name: str) -> bool:
    """True if `name` is the name of a vdev file with any number."""
    return re.fullmatch(r"vdev[0-9]{1,4}\.conf", name) is not None


def render(card: CardLimit[RocmLimit], *, vdev_id: int, pipe_id: int, device_id: int = 0) -> str:
    """The text of the vdev file number `vdev_id`, for a slice of one card.

    `device_id` is the card's index among the cards that the container sees. Raises ConfigError for a card that the
    format cannot express.
    """
    mask = card.family.mask
    if mask >> MAX_UNITS:
        raise ConfigError(
            f"card {card.uuid}: vdev files have masks of {MAX_UNITS} units, not {card.family.compute_units}"
        )
    if not 0 <= pipe_id < PIPES:
        raise ConfigError(f"card {card.uuid}: pipe {pipe_id} is not one of 0-{PIPES - 1}")
    return (
        f"PciBusId: {card.pci}\n"
        f"cu_mask: 0x{mask & _WORD:016x}\n"
        f"cu_mask: 0x{mask >> 64:016x}\n"
        f"cu_count: {mask.bit_count()}\n"
        f"mem: {card.mem_bytes >> 20} MiB\n"
        f"device_id: {device_id}\n"
        f"vdev_id: {vdev_id}\n"
        f"pipe_id: {pipe_id}\n"
        "enable: 1\n"
    )


def pipe_of(text: str) -> int | None:
    """The pipe id, the driver's number of the slice, in a text made by `render`; None if the text has none."""
    match = re.search(r"^pipe_id: ([0-9]{1,2})$", text, re.MULTILINE)
    return int(match[1]) if match else None


def free_pipe(busy: Collection[int], last: int | None = None) -> int | None:
    """A pipe, the driver's number of a slice, for a new slice; None if all are busy.

    `busy` are the pipes of the card's live slices.

    The first four pipes are tried first, beginning after `last`, the pipe that was given before; then the others. The
    driver needs about a second to free a pipe: so a restarted container does not get the pipe that it just left.
    """
    start = 0 if last is None else (last + 1) % FIRST_PIPES
    first = [(start + step) % FIRST_PIPES for step in range(FIRST_PIPES)]
    return next((pipe for pipe in (*first, *range(FIRST_PIPES, PIPES)) if pipe not in busy), None)
