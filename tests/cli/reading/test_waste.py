"""The slices that count as wasted, and the time for which they do."""

import pytest

from device_plugin.cli.reading.held_use import SliceUse
from device_plugin.cli.reading.waste import GIB_HOUR, Owner, WastedSlice, amount, by_namespace, by_owner
from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.units import MIB

GIB, HOUR = 1024.0 * MIB, 3600.0
PART = Slice("c", 12 * 1024, (0, 1))


def use(
    used: float | None = None, idle: float | None = None, peak: float | None = None, observed: float = 0.0
) -> SliceUse:
    return SliceUse("ns", "p", "main", "n1", "c", used, 12 * GIB, None, idle, peak, observed)


@pytest.mark.parametrize(
    ("found", "gib_hours"),
    [
        (use(), 0),
        (use(idle=0.4 * HOUR), 0),
        (use(used=11 * GIB, idle=2 * HOUR), 24),
        # Never more than 0.5 GiB was used in 3 hours.
        (use(peak=0.5 * GIB, observed=3 * HOUR), 34.5),
        (use(peak=0.5 * GIB, observed=0.4 * HOUR), 0),
        (use(peak=6 * GIB, observed=3 * HOUR), 0),
        # Both: idle since a while, and never used much.
        (use(idle=1 * HOUR, peak=0.5 * GIB, observed=3 * HOUR), 34.5),
    ],
)
def test_the_waste_of_a_slice(found: SliceUse, gib_hours: float) -> None:
    assert amount(PART, found, 0.5 * HOUR) / GIB_HOUR == pytest.approx(gib_hours)


def wasted(namespace: str, owner: str, pod: str, hours: float, used: float | None = 0.0) -> WastedSlice:
    return WastedSlice(
        namespace, Owner("Job", owner), pod, "main", "n1", PART, use(used, hours * HOUR), idle=True,
        wasted=12 * hours * GIB_HOUR,
    )  # fmt: skip


def test_the_worst_owner_and_the_worst_namespace_are_first() -> None:
    slices = [
        wasted("a", "x", "x1", 1),
        wasted("b", "y", "y1", 3),
        wasted("a", "z", "z1", 2),
        wasted("a", "z", "z2", 2.5),
    ]
    found = by_owner(slices)
    assert [(each.namespace, each.owner and each.owner.name) for each in found] == [
        ("a", "z"),
        ("b", "y"),
        ("a", "x"),
    ]
    assert [each.pod for each in found[0].slices] == ["z2", "z1"]
    assert (found[0].held, found[0].idle, found[0].wasted / GIB_HOUR) == (24 * GIB, 2.5 * HOUR, 54)
    assert [(each.namespace, len(each.slices)) for each in by_namespace(slices)] == [("a", 3), ("b", 1)]


def test_what_an_owner_uses_is_known_only_if_it_is_of_each_slice() -> None:
    (known,) = by_owner([wasted("a", "x", "x1", 1, GIB), wasted("a", "x", "x2", 1, GIB)])
    (unknown,) = by_owner([wasted("a", "x", "x1", 1, GIB), wasted("a", "x", "x2", 1, None)])
    assert (known.used, unknown.used) == (2 * GIB, None)
