"""Sums of the use of slices: unknown stays unknown, and nothing of an idle slice is in use."""

import pytest

from device_plugin.cli.reading.held_use import NOTHING, UNKNOWN, HeldUse, SliceUse, of_slice, together
from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.units import MIB
from device_plugin.core.idle import IDLE_SECONDS

GIB = 1024 * MIB
PART = Slice("c", 4096, tuple(range(10)))


def use(used: float | None, compute: float | None, idle: float | None = None) -> SliceUse:
    return SliceUse("ns", "a", "main", "n1", "c", used, 4 * GIB, compute, idle)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, UNKNOWN),
        (use(1 * GIB, 0.5), HeldUse(GIB, 5.0, 3 * GIB)),
        (use(1 * GIB, 0.0, IDLE_SECONDS - 1), HeldUse(GIB, 0.0, 3 * GIB)),
        (use(1 * GIB, 0.0, IDLE_SECONDS), HeldUse(GIB, 0.0, 4 * GIB, 1)),
        (use(None, 0.0, IDLE_SECONDS), HeldUse(None, 0.0, 4 * GIB, 1)),
        (use(5 * GIB, None), HeldUse(5 * GIB, None, 0.0)),
    ],
)
def test_the_use_of_a_slice(found: SliceUse | None, expected: HeldUse) -> None:
    assert of_slice(PART, found) == expected


def test_a_sum_is_known_only_if_each_part_is() -> None:
    known = HeldUse(GIB, 5.0, 3 * GIB, 1)
    assert together([]) == NOTHING
    assert together([known, known]) == HeldUse(2 * GIB, 10.0, 6 * GIB, 2)
    assert together([known, HeldUse(GIB, None, GIB)]) == HeldUse(2 * GIB, None, 4 * GIB, 1)
    assert together([known, UNKNOWN]) == HeldUse(idle=1)
