"""Whether a request fits one card, and which part of it becomes the slice."""

from dataclasses import dataclass

from device_plugin.core.cards import Card
from device_plugin.core.grants import Slice
from device_plugin.core.ledger import CardState
from device_plugin.core.masks import core_ids, core_mask
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import Request


@dataclass(frozen=True, slots=True)
class Size:
    """A request completed for one card: memory in MiB and a number of core groups."""

    mem_mib: int
    cores: int


def size_on(card: Card, request: Request) -> Size | None:
    """What `request` takes of `card`, the missing half in proportion, rounded up; None if the card is too small."""
    if request.whole:
        return Size(card.mem_mib, card.core_groups)
    mem, cores = request.mem, request.cores
    if mem is None:
        mem = card.units_for(cores or 0)
    if cores is None:
        cores = card.cores_for(mem)
    if mem > card.units or cores > card.core_groups:
        return None
    return Size(card.mib(mem), cores)


def fit(state: CardState, request: Request) -> Slice | Reason:
    """The slice that one card would give, or why it cannot now. Looks at the card's remainder alone."""
    size = size_on(state.card, request)
    if size is None:
        return Reason.TOO_LARGE
    if request.whole and not state.untouched:
        return Reason.WHOLE
    if state.short:
        return Reason.SHORT
    if state.free_slices < 1:
        return Reason.SLICES
    if size.mem_mib > state.free_mib:
        return Reason.MEMORY
    if size.cores > state.free_cores.bit_count():
        return Reason.CORES
    return Slice(state.card.uuid, size.mem_mib, choose_cores(state.free_cores, size.cores))


def choose_cores(free: int, count: int) -> tuple[int, ...]:
    """`count` ids of the set `free`: the shortest run that holds them, else the lowest ids.

    Neighbouring groups spread evenly over the shader engines; short runs first keeps the long ones for others.
    """
    start, length = min(
        (run for run in _runs(free) if run[1] >= count), key=lambda run: (run[1], run[0]), default=(-1, 0)
    )
    return tuple(range(start, start + count)) if length else core_ids(free)[:count]


def take(state: CardState, given: Slice) -> CardState:
    """What remains of the card once `given` is taken from it."""
    return CardState(
        state.card,
        state.free_mib - given.mem_mib,
        state.free_cores & ~core_mask(given.cores),
        state.free_slices - 1,
    )


def _runs(free: int) -> list[tuple[int, int]]:
    runs = []
    start = 0
    while free >> start:
        zeros = (free >> start & -(free >> start)).bit_length() - 1
        start += zeros
        ones = free >> start
        length = (~ones & ones + 1).bit_length() - 1
        runs.append((start, length))
        start += length
    return runs
