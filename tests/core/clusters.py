"""Small clusters and random requests for the tests of the core."""

import random
from typing import Any

from device_plugin.core.cards import Card, Inventory
from device_plugin.core.requests import PodRequest, Request

FAMILY = "hygon.com/dcu"


def card(uuid: str, *, mem_mib: int = 16368, groups: int = 60, slices: int = 4, healthy: bool = True) -> Card:
    return Card(
        uuid,
        FAMILY,
        "Z100",
        "0000:19:00.0",
        mem_mib,
        round(mem_mib / 1024),
        groups,
        groups,
        1,
        slices,
        0,
        healthy,
    )


def inventory(node: str, count: int = 2, **shape: Any) -> Inventory:
    return Inventory(tuple(card(f"{node}-{i}", **shape) for i in range(count)))


def slice_request(pod: str, mem: int | None = None, cores: int | None = None, **more: object) -> PodRequest:
    return PodRequest(pod, (("main", Request(FAMILY, 0, mem, cores)),), **more)  # type: ignore[arg-type]


def whole_request(pod: str, count: int) -> PodRequest:
    return PodRequest(pod, (("main", Request(FAMILY, count)),))


def random_request(rng: random.Random, pod: str) -> PodRequest:
    kind = rng.random()
    if kind < 0.1:
        return whole_request(pod, rng.choice((1, 1, 2)))
    count = rng.choice((1, 1, 1, 2, 3))
    requests = []
    for i in range(count):
        mem = rng.choice((None, rng.randint(1, 17)))
        cores = rng.randint(1, 61) if mem is None else rng.choice((None, rng.randint(1, 30)))
        requests.append((f"c{i}", Request(FAMILY, 0, mem, cores)))
    return PodRequest(pod, tuple(requests))
