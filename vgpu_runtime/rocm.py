"""The section `[rocm]` of vgpu.conf, for cards of the ROCm family (Hygon, AMD).

The module also makes the environment variable that gives HIP, ROCm's runtime, the number of compute units of a slice.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from vgpu_runtime import config
from vgpu_runtime.config import ConfigError, Section, SliceConfig, in_range, number

MAX_COMPUTE_UNITS = 1024
MAX_XCC = 16
RESERVE_BYTES = 32 << 20
"""Bytes that a slice may use beyond its limit, for small allocations only (native/rocm/memory.c)."""
UNITS_VARIABLE = "ROC_GLOBAL_CU_MASK"
"""The variable from which HIP reads the compute units that it may use."""

_MASK = re.compile(r"0x[0-9a-f]{1,256}")


@dataclass(frozen=True, slots=True)
class RocmLimit:
    """The part of a slice's limits that only ROCm's cards have. `mask` has a bit for each compute unit of the slice.

    `gpu_id` is the card's id in the KFD topology. `xcc` and `paired` are the hardware's rules for masks: `xcc` is the
    number of the card's XCCs (dies), and compute unit i belongs to XCC i mod `xcc`. `paired` is true for RDNA, where
    compute units 2i and 2i+1 are masked together. With `vendor_masks` the maker's driver limits queues to the compute
    units of the slice (vdev.py). The library then sets no mask, and a bit of a program's own mask stands for a compute
    unit of the slice, not of the card.
    """

    SECTION: ClassVar[str] = "rocm"
    KEYS: ClassVar[frozenset[str]] = frozenset(
        {"gpu_id", "render_minor", "compute_units", "xcc", "paired", "masks", "mask"}
    )

    gpu_id: int
    render_minor: int
    compute_units: int
    xcc: int
    paired: bool
    mask: int
    vendor_masks: bool = False

    def __post_init__(self) -> None:
        """Raise ConfigError for values that the library would refuse."""
        in_range("gpu_id", self.gpu_id, 1, 0xFFFFFFFF)
        in_range("render_minor", self.render_minor, 0, 0xFFFFF)
        in_range("compute_units", self.compute_units, 1, MAX_COMPUTE_UNITS)
        in_range("xcc", self.xcc, 1, MAX_XCC)
        if self.mask <= 0 or self.mask >> self.compute_units:
            raise ConfigError(
                f"mask {self.mask:#x} is empty or has a bit beyond unit {self.compute_units - 1}"
            )
        if self.paired and (self.mask ^ self.mask >> 1) & _every(2, self.compute_units):
            raise ConfigError(f"mask {self.mask:#x} splits a pair of units that the card needs whole")
        for xcc in range(self.xcc):
            if not self.mask >> xcc & _every(self.xcc, self.compute_units):
                raise ConfigError(
                    f"mask {self.mask:#x} leaves XCC {xcc} without a unit: it would run unmasked"
                )

    @property
    def device(self) -> str:
        """The id that the driver (KFD) gives the card, `gpu_id`, as text."""
        return str(self.gpu_id)

    def values(self) -> Section:
        """Every key of the limit's section in vgpu.conf with its value as text."""
        return {
            "gpu_id": str(self.gpu_id),
            "render_minor": str(self.render_minor),
            "compute_units": str(self.compute_units),
            "xcc": str(self.xcc),
            "paired": str(int(self.paired)),
            "masks": "vendor" if self.vendor_masks else "library",
            "mask": f"{self.mask:#x}",
        }

    @classmethod
    def read(cls, section: Section) -> Self:
        """The limits that a section of vgpu.conf describes. Raises ConfigError if its keys are not exactly KEYS."""
        if not _MASK.fullmatch(section["mask"]):
            raise ConfigError(f"mask {section['mask']} is not 0x and lower-case hexadecimal digits")
        if section["paired"] not in ("0", "1"):
            raise ConfigError(f"paired {section['paired']} is neither 0 nor 1")
        if section["masks"] not in ("library", "vendor"):
            raise ConfigError(f"masks {section['masks']} is neither library nor vendor")
        return cls(
            gpu_id=number(section, "gpu_id"),
            render_minor=number(section, "render_minor"),
            compute_units=number(section, "compute_units"),
            xcc=number(section, "xcc"),
            paired=section["paired"] == "1",
            mask=int(section["mask"], 16),
            vendor_masks=section["masks"] == "vendor",
        )


def parse(text: str) -> SliceConfig[RocmLimit]:
    """The limits that `text`, a vgpu.conf with cards of the ROCm family only, describes. Raises ConfigError."""
    return config.parse(text, {RocmLimit})


def environment(limits: Sequence[RocmLimit]) -> dict[str, str]:
    """The environment variables of a container with these slices: for HIP, the number of compute units of a slice.

    HIP reads one value for all cards. So the variable is set only if all slices have the same number of compute units,
    and is not set for whole cards. The value is a hint: the masks of queues limit a program, not this variable.

    Where the maker's driver shows only the compute units of a slice, HIP counts them itself. The value is then empty
    (HIP's default), and replaces a value from the image or the pod: HIP 5.2.3 ends a program for any other value on a
    device of fewer than 32 compute units. native/rocm/units.c does the same.
    """
    units = limits[0].mask.bit_count()
    if any(limit.vendor_masks and limit.mask.bit_count() < limit.compute_units for limit in limits):
        return {UNITS_VARIABLE: ""}
    if any(limit.mask.bit_count() != units or limit.compute_units == units for limit in limits):
        return {}
    return {UNITS_VARIABLE: f"{(1 << units) - 1:#x}"}


def _every(step: int, bits: int) -> int:
    """A mask in which the bits 0, step, 2·step, … below `bits` are set."""
    return sum(1 << bit for bit in range(0, bits, step))
