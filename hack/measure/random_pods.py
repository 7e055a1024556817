"""Random pods for measurements."""

import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hack.embedded.person import Object

FAMILY = "hygon.com/dcu"
# The cards are AMD's, because these have up to 16 slices, but are offered as the default family.
FLAGS = ("--prefixes", f'{{"1002": {FAMILY}}}')
T = TypeVar("T")


def random_pod(rng: random.Random, name: str) -> Object:
    """A pod of one or two containers that ask for memory, core groups, or both, sometimes in a sidecar."""
    containers = [_container(rng, f"c{i}") for i in range(rng.choice((1, 1, 1, 2)))]
    spec: Object = {"containers": containers, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    if rng.random() < 0.1:
        spec["initContainers"] = [{**_container(rng, "side"), "restartPolicy": "Always"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _container(rng: random.Random, name: str) -> Object:
    limits = {}
    kind = rng.random()
    if kind < 0.8:
        limits[f"{FAMILY}-mem"] = str(rng.randint(1, 4))
    if kind > 0.4:
        limits[f"{FAMILY}-cores"] = str(rng.randint(1, 15))
    return {"name": name, "image": "none", "resources": {"limits": limits}}


def at_once(call: Callable[[T], object], items: Iterable[T]) -> None:
    """Call `call` with each item, from several threads; returns when all calls have ended."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, items))
