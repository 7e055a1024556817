"""Smaller requests: the largest requests that fit now, each of which asks for less than a refused request."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from msgspec import structs

from device_plugin.core.requests import PodRequest, Request

Fits = Callable[[PodRequest], bool]


def smaller(request: PodRequest, fits: Fits) -> tuple[Request, ...]:
    """The largest requests that fit now, each smaller than the pod's request in one way; empty if none fits.

    The ways: less memory, fewer core groups, less percent, fewer cards; and less memory and core groups together, but
    only if no other way fits. Empty for a pod with several asking containers, because we do not know which of them can
    ask for less. If `fits` is true for a request, it must be true for every smaller request.
    """
    if len(request.containers) != 1:
        return ()
    ((name, asked),) = request.containers

    def fitting(part: Request) -> bool:
        return fits(replace(request, containers=((name, part),)))

    found = tuple(_single(asked, fitting))
    if found or asked.mem is None or asked.cores is None:
        return found
    mem, cores = asked.mem, asked.cores
    both = _largest(mem, lambda units: fitting(_scaled(asked, units, cores * units // mem)))
    return (_scaled(asked, both, cores * both // mem),) if both else ()


def _single(asked: Request, fitting: Callable[[Request], bool]) -> Iterator[Request]:
    """The largest requests that fit with less of one amount; the amounts are memory, core groups, percent and cards."""
    ways: tuple[tuple[int | None, Callable[[int], Request]], ...] = (
        (asked.mem, lambda units: structs.replace(asked, mem=units)),
        (asked.cores, lambda groups: structs.replace(asked, cores=groups)),
        (asked.percent, lambda share: structs.replace(asked, percent=share)),
        (asked.whole, lambda cards: structs.replace(asked, whole=cards)),
        (asked.count, lambda cards: structs.replace(asked, count=cards)),
    )
    for most, less in ways:
        if most and (left := _largest(most, partial(_fits_with, fitting, less))):
            yield less(left)


def _fits_with(fitting: Callable[[Request], bool], less: Callable[[int], Request], count: int) -> bool:
    return fitting(less(count))


def _scaled(asked: Request, mem: int, cores: int) -> Request:
    return structs.replace(asked, mem=mem, cores=max(1, cores))


def _largest(below: int, fits: Callable[[int], bool]) -> int:
    """The largest count from 1 to `below` - 1 for which `fits` is true; 0 if there is none."""
    low, high = 0, below
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
