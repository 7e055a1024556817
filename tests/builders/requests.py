"""Requests of pods, their shapes, and workloads of them."""

import random

from msgspec.structs import replace

from device_plugin.core.hosts import HostAmounts
from device_plugin.core.placement.card_columns import CardKind
from device_plugin.core.placement.workload import Weighted
from device_plugin.core.requests import PodRequest, Request, Selector, Shape
from tests.builders.cards import FAMILY

# What the placement sees of a card of `cards.card`.
KIND = CardKind(FAMILY, "Z100", 16368, 16, 60, 4)


def slice_request(pod: str, mem: int | None = None, cores: int | None = None, **more: object) -> PodRequest:
    """One container that asks for a slice."""
    return PodRequest(pod, (("main", Request(FAMILY, 0, mem, cores)),), **more)  # type: ignore[arg-type]


def whole_request(pod: str, count: int) -> PodRequest:
    """One container that asks for whole cards."""
    return PodRequest(pod, (("main", Request(FAMILY, count)),))


def percent_request(pod: str, *percents: int) -> PodRequest:
    """A container for each of `percents`, which asks for so much of one card."""
    return PodRequest(pod, tuple((f"c{i}", Request(FAMILY, percent=each)) for i, each in enumerate(percents)))


def random_request(rng: random.Random, pod: str) -> PodRequest:
    """One to three containers with slices of any size, some larger than a card; one of two cards, or whole cards."""
    if rng.random() < 0.1:
        asked = Request(FAMILY, rng.choice((1, 1, 2)), max_slices=rng.choice((None, None, 4, 5)))
        return PodRequest(pod, (("main", asked),))
    requests = []
    for i in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.2:
            requests.append((f"c{i}", Request(FAMILY, percent=rng.choice((1, 10, 25, 33, 50, 100)))))
            continue
        mem = rng.choice((None, rng.randint(1, 17)))
        cores = rng.randint(1, 61) if mem is None else rng.choice((None, rng.randint(1, 30)))
        requests.append((f"c{i}", Request(FAMILY, 0, mem, cores)))
    if len(requests) == 1 and rng.random() < 0.1:
        ((name, asked),) = requests
        requests = [(name, replace(asked, count=2))]
    return PodRequest(pod, tuple(requests))


def shape(
    mem: int | None = None, cores: int | None = None, whole: int = 0, cpu: int = 0, models: str = ""
) -> Shape:
    """The shape of a request of one container."""
    return Shape(Request(FAMILY, whole, mem, cores), Selector(models), host=HostAmounts(cpu))


def target(*shapes: tuple[Shape, float]) -> tuple[Weighted, ...]:
    """A workload: shapes, and how often each is asked for."""
    return tuple(Weighted(each, count) for each, count in shapes)
