"""Pods by ResourceClaims that are evicted, or for which others are, through the whole system."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from device_plugin.core.contract.annotations import CARD_UUID
from device_plugin.wiring.commands import main
from hack.embedded.apiserver.admission import ADMIN
from hack.embedded.claims.uses import used
from hack.embedded.cluster import EmbeddedCluster, Options
from hack.embedded.kubeconfig import kubeconfig_text
from hack.embedded.person import Object, Person, phase
from hack.measure.one_machine import one_machine
from hack.measure.random_pods import FAMILY, FLAGS
from hack.measure.witness import Witness
from tests.builders import objects
from tests.deadline import until
from tests.system.test_claims import claiming, claims, grant, runs, template
from vgpu_runtime import sim

pytestmark = pytest.mark.usefixtures("native")

CARDS = "version: v1\ncards:\n  - {preset: amd-60cu-16gib, count: 2}\n"


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture
def world(witness: Witness) -> Iterator[tuple[EmbeddedCluster, Person]]:
    """A cluster of one node with two cards, and a person who has the templates `half` and `two` halves."""
    options = Options(on_start=witness, flags=FLAGS, claims=True)
    with one_machine({"n": sim.parse(CARDS)}, options) as (cluster, person):
        template(person, "half", "8Gi", "30")
        template(person, "two", "8Gi", "30", count=2)
        yield cluster, person


def by_limits(name: str) -> Object:
    limits = {f"{FAMILY}-mem": "8", f"{FAMILY}-cores": "30"}
    return objects.pod(name, limits, terminationGracePeriodSeconds=1)


def full(person: Person) -> set[str]:
    """Half of each card is held by a claim and the other by limits; returns the names of the pods."""
    names = set[str]()
    for number in range(2):
        for pod in (claiming(f"claim-{number}", "half"), by_limits(f"limits-{number}")):
            person.create(pod)
            names.add(pod["metadata"]["name"])
            runs(person, pod["metadata"]["name"])
    return names


def running(person: Person) -> set[str]:
    return {pod["metadata"]["name"] for pod in person.pods() if phase(pod) == "Running"}


def with_priority(pod: Object, priority: int) -> Object:
    return {**pod, "spec": {**pod["spec"], "priority": priority}}


def test_a_claim_of_higher_priority_takes_the_slices_of_one_pod_on_each_card(
    world: tuple[EmbeddedCluster, Person], witness: Witness
) -> None:
    _, person = world
    low = full(person)
    person.create(with_priority(claiming("vip", "two"), 1000))
    vip = runs(person, "vip")
    assert len({each.card for each in grant(vip).containers["main"]}) == 2
    left = low & running(person)
    assert len(left) == 2
    until(
        lambda: set(claims(person)) == {used(pod)["gpu"] for pod in person.pods() if used(pod)},
        "no claim is left of a pod that was evicted",
    )
    assert witness.wrong == []


def test_limits_of_higher_priority_take_the_slice_of_a_claim(
    world: tuple[EmbeddedCluster, Person], witness: Witness
) -> None:
    _, person = world
    person.create(claiming("low", "two"))
    runs(person, "low")
    whole = objects.pod("vip", {FAMILY: "2"}, terminationGracePeriodSeconds=1)
    person.create(with_priority(whole, 1000))
    runs(person, "vip")
    assert running(person) == {"vip"}
    until(lambda: not claims(person), "the claim is gone")
    assert witness.wrong == []


def test_a_drained_card_loses_its_claims_and_a_cordoned_card_gets_none(
    world: tuple[EmbeddedCluster, Person], tmp_path: Path
) -> None:
    cluster, person = world
    person.create(claiming("drained", "half"))
    (slice_,) = grant(runs(person, "drained")).containers["main"]
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig_text(cluster.api.url, ADMIN))
    flag = f"--kubeconfig={file}"
    assert main(["drain", "--force", slice_.card, flag]) == 0
    assert person.pod("drained") is None
    until(lambda: not claims(person), "the claim is gone")
    wanted = claiming("wanted", "half")
    wanted["metadata"]["annotations"] = {CARD_UUID: slice_.card}
    person.create(wanted)
    until(lambda: any("cordoned" in event for event in person.events("wanted")), "the refusal")
    assert main(["uncordon", slice_.card, flag]) == 0
    (again,) = grant(runs(person, "wanted")).containers["main"]
    assert again.card == slice_.card
