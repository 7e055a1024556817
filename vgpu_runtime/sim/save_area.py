"""The save area of a compute queue: its size, and how each Linux release checks it.

The save area is memory that a process passes when it creates a queue. When the queue is preempted, its running waves
are saved to this memory. Linux computes the size of a save area from the whole card
(drivers/gpu/drm/amd/amdkfd/kfd_queue.c, kfd_queue_ctx_save_restore_size); the runtime in the process computes it from
`simd_count` in the topology. From Linux 6.12 on CREATE_QUEUE compares the two sizes (kfd_queue_acquire_buffers) and
answers EINVAL if they differ: if the topology shows fewer compute units, no queue can be made.
"""

import enum
from dataclasses import dataclass

from vgpu_runtime.sim.cards import Gfx, SimCard

_PAGE = 4096
_HEADER = 40
_STACK_LIMIT_GFX10 = 0x7000
_REST_OF_A_UNIT = 0x4000 + 0x1000  # scalar registers, hardware registers


_LARGE = {(9, 0, 8), (9, 0, 10), (9, 4, 0), (9, 4, 1), (9, 4, 2), (9, 5, 0)}
_MIDDLE = {(11, 0, 0), (11, 0, 1), (12, 0, 0), (12, 0, 1)}


class Kernel(enum.Enum):
    """The rule by which Linux checks a queue's save area. The value is the first release with this rule."""

    UNCHECKED = "6.1"
    """No check: every release before 6.12; 6.1 stands for them."""
    EQUAL = "6.12"
    """The save area must have exactly the card's size."""
    EXPORTED = "6.18.4"
    """The save area may be larger, and the topology shows `cwsr_size` and `ctl_stack_size`."""


@dataclass(frozen=True, slots=True)
class SaveArea:
    """The sizes of the memory to which a preempted queue is saved, in bytes for each of the card's `xccs` XCCs (dies).

    `stack` is a part of `size`. `debug` bytes follow after `size`; the topology never shows them.
    """

    stack: int
    size: int
    debug: int
    xccs: int

    @property
    def mapping(self) -> int:
        """The bytes that a process must map for all XCCs together, in whole pages."""
        return _up((self.size + self.debug) * self.xccs, _PAGE)


def save_area(card: SimCard) -> SaveArea:
    """The save area that the kernel expects of a queue on this card."""
    return sizes(card.gfx_version, card.compute_units, card.engines, card.save_area_xccs, card.lds_kib)


def sizes(gfx: Gfx, units: int, engines: int, xccs: int = 1, lds_kib: int = 64) -> SaveArea:
    """The sizes of a queue's save area by Linux's formulae, for a card of `units` compute units.

    A runtime that sees fewer compute units than the card has computes other sizes.
    """
    navi = gfx >= (10, 1, 0)
    units //= xccs
    waves = units * 32 if navi else min(units * 40, engines * 512)
    stack = _up(_HEADER + waves * (12 if navi else 8) + 8, _PAGE)
    if gfx[0] == 10:
        stack = min(stack, _STACK_LIMIT_GFX10)
    rest = _up(units * (_vector_registers(gfx) + _REST_OF_A_UNIT + (lds_kib << 10)), _PAGE)
    return SaveArea(stack, stack + rest, _up(waves * 32, 64), xccs)


def _vector_registers(gfx: Gfx) -> int:
    """The size of the vector registers of one compute unit, in bytes."""
    if gfx in _LARGE:
        return 0x80000
    return 0x60000 if gfx in _MIDDLE else 0x40000


def _up(size: int, to: int) -> int:
    return -(-size // to) * to
