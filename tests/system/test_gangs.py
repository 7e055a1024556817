"""Gangs through the whole system: a scheduler with a queue and backoff asks, and the kubelet starts what was bound."""

from collections.abc import Iterator

import pytest

from hack.embedded.cluster import Options
from hack.embedded.person import Object, Person, phase
from hack.measure.one_machine import one_machine
from hack.measure.random_pods import FAMILY, FLAGS, at_once
from hack.measure.witness import Witness
from tests.builders import objects
from tests.deadline import eventually
from vgpu_runtime import sim

pytestmark = pytest.mark.usefixtures("native")

SECONDS = 60.0
CARDS = "version: v1\ncards:\n  - {preset: amd-60cu-16gib, count: 2}\n"


@pytest.fixture
def person() -> Iterator[Person]:
    """A person at a cluster of one node with two cards."""
    with one_machine({"n": sim.parse(CARDS)}, Options(on_start=Witness(), flags=FLAGS)) as (_, person):
        yield person


def gang(group: str, size: int) -> list[Object]:
    """Pods that ask for half a card each."""
    limits = {f"{FAMILY}-mem": "8", f"{FAMILY}-cores": "30"}
    labels = {"vgpu.io/group": group, "vgpu.io/group-size": str(size)}
    names = (f"{group}-{number}" for number in range(size))
    return [objects.pod(name, limits, {"labels": labels}, terminationGracePeriodSeconds=1) for name in names]


def running(person: Person) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in person.pods() if phase(pod) == "Running")


def test_nobody_runs_before_all_exist_and_then_all_run(person: Person) -> None:
    *early, last = gang("train", 4)
    at_once(person.create, early)
    text = "0/1 nodes are available: 1 group train waits until all of its 4 pods exist."
    assert eventually(lambda: f"FailedScheduling: {text}" in person.events("train-2"), SECONDS)
    assert running(person) == []
    person.create(last)
    assert eventually(lambda: len(running(person)) == 4, SECONDS)


def test_of_two_gangs_created_at_once_one_runs_and_then_the_other(person: Person) -> None:
    red, blue = gang("red", 4), gang("blue", 3)
    at_once(person.create, [pod for pair in zip(red, blue, strict=False) for pod in pair] + red[3:])
    assert eventually(lambda: len(running(person)) >= 3, SECONDS)
    first = running(person)[0].partition("-")[0]
    whole = {"red": 4, "blue": 3}
    assert eventually(lambda: len(running(person)) == whole[first], SECONDS)
    assert {name.partition("-")[0] for name in running(person)} == {first}
    at_once(person.remove, [f"{first}-{number}" for number in range(whole.pop(first))])
    ((second, size),) = whole.items()
    assert eventually(lambda: running(person) == [f"{second}-{number}" for number in range(size)], SECONDS)
