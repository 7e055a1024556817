"""Requests of pods, their shapes, and workloads of them."""

import random

from device_plugin.core.hosts import HostAmounts
from device_plugin.core.placement.table import CardKind
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


def random_request(rng: random.Random, pod: str) -> PodRequest:
    """One to three containers with slices of any size, some larger than a card; or whole cards."""
    if rng.random() < 0.1:
        return whole_request(pod, rng.choice((1, 1, 2)))
    requests = []
    for i in range(rng.choice((1, 1, 1, 2, 3))):
        mem = rng.choice((None, rng.randint(1, 17)))
        cores = rng.randint(1, 61) if mem is None else rng.choice((None, rng.randint(1, 30)))
        requests.append((f"c{i}", Request(FAMILY, 0, mem, cores)))
    return PodRequest(pod, tuple(requests))


def shape(
    mem: int | None = None, cores: int | None = None, whole: int = 0, cpu: int = 0, models: str = ""
) -> Shape:
    """The shape of a request of one container."""
    return Shape(Request(FAMILY, whole, mem, cores), Selector(models), host=HostAmounts(cpu))


def target(*shapes: tuple[Shape, float]) -> tuple[Weighted, ...]:
    """A workload: shapes, and how often each is asked for."""
    return tuple(Weighted(each, count) for each, count in shapes)
