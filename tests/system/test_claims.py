"""Slices by ResourceClaims through the whole system: claim controller, scheduler, allocator, kubelet and agent."""

from collections.abc import Collection, Iterator

import pytest

from device_plugin.core.contract.annotations import GRANT
from device_plugin.core.contract.grants import Grant
from device_plugin.kube.api import Ref
from hack.embedded.claims.uses import CLAIMS, TEMPLATES, used
from hack.embedded.cluster import EmbeddedCluster, Options
from hack.embedded.kubelet.drivers import SLICES
from hack.embedded.person import Object, Person, phase
from hack.measure.one_machine import one_machine
from hack.measure.random_pods import FAMILY, FLAGS
from hack.measure.witness import Witness
from tests.builders import objects
from tests.deadline import until
from vgpu_runtime import sim

pytestmark = pytest.mark.usefixtures("native")

CARD = "version: v1\ncards:\n  - {preset: amd-60cu-16gib}\n"
CLASS = "dcu.vgpu.io"


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture
def world(witness: Witness) -> Iterator[tuple[EmbeddedCluster, Person]]:
    """A cluster of one node with one card, and a person."""
    with one_machine({"n": sim.parse(CARD)}, Options(on_start=witness, flags=FLAGS, claims=True)) as found:
        yield found


def claiming(name: str, template: str) -> Object:
    """A pod whose container uses a claim of this template."""
    container = {**objects.container(), "resources": {"claims": [{"name": "gpu"}]}}
    entry = {"name": "gpu", "resourceClaimTemplateName": template}
    return objects.pod(
        name, containers=[container], resourceClaims=[entry], schedulerName="vgpu-scheduler",
        terminationGracePeriodSeconds=1,
    )  # fmt: skip


def template(person: Person, name: str, memory: str, cores: str, count: int = 1) -> None:
    capacity = {"requests": {"memory": memory, "cores": cores}}
    exactly = {"deviceClassName": CLASS, "count": count, "capacity": capacity}
    spec = {"devices": {"requests": [{"name": "slice", "exactly": exactly}]}}
    person.api.create(TEMPLATES, {"metadata": {"name": name}, "spec": {"spec": spec}}, "default")


def runs(person: Person, name: str) -> Object:
    """Return the pod once it runs."""
    until(lambda: phase(person.pod(name) or {"status": {}}) == "Running", f"{name} runs")
    found = person.pod(name)
    assert found is not None
    return found


def until_running(person: Person, count: int, without: Collection[str] = ()) -> list[Object]:
    """Return the pods that run, once there are `count` others than `without`."""

    def found() -> list[Object]:
        return [
            each for each in person.pods()
            if phase(each) == "Running" and each["metadata"]["name"] not in without
        ]  # fmt: skip

    until(lambda: len(found()) == count, f"{count} pods run", 60)
    return found()


def grant(pod: Object) -> Grant:
    return Grant.decode(pod["metadata"]["annotations"][GRANT])


def claims(person: Person) -> list[str]:
    return [each["metadata"]["name"] for each in person.api.list(CLAIMS).items]


def test_a_claim_gives_a_slice_of_the_card_that_limits_share_too(
    world: tuple[EmbeddedCluster, Person], witness: Witness
) -> None:
    _, person = world
    until(lambda: person.api.list(SLICES).items, "the card is shown as a device")
    template(person, "quarter", "4Gi", "15")
    person.create(claiming("by-claim", "quarter"))
    person.create(objects.pod("by-limits", {f"{FAMILY}-mem": "4", f"{FAMILY}-cores": "15"}))
    by_claim, by_limits = runs(person, "by-claim"), runs(person, "by-limits")
    (one,), (other,) = (grant(pod).containers["main"] for pod in (by_claim, by_limits))
    assert (one.card, one.mem_mib, len(one.cores)) == (other.card, other.mem_mib, len(other.cores))
    assert not set(one.cores) & set(other.cores)
    claim = person.api.get(CLAIMS, Ref(used(by_claim)["gpu"], "default"))
    assert grant(by_claim).claims == {"main": claim["metadata"]["uid"]}
    (given,) = claim["status"]["allocation"]["devices"]["results"]
    (shown,) = person.api.list(SLICES).items
    assert given["device"] == shown["spec"]["devices"][0]["name"]
    assert given["consumedCapacity"] == {"memory": "4Gi", "cores": "15"}
    assert witness.started == 2
    assert witness.wrong == []
    person.delete("by-claim")
    until(lambda: not claims(person), "the claim is gone")


def test_a_card_of_an_ended_pod_is_given_again(
    world: tuple[EmbeddedCluster, Person], witness: Witness
) -> None:
    _, person = world
    template(person, "whole", "16Gi", "60")
    for number in range(2):
        person.create(claiming(f"pod-{number}", "whole"))
    ran = {pod["metadata"]["name"] for pod in until_running(person, 1)}
    (first,) = ran
    person.delete(first)
    (second,) = until_running(person, 1, without=ran)
    assert phase(second) == "Running"
    until(lambda: claims(person) == [used(second)["gpu"]], "the claim of the first is gone")
    assert witness.wrong == []


def test_pods_wait_for_an_agent_that_is_away(world: tuple[EmbeddedCluster, Person]) -> None:
    cluster, person = world
    template(person, "quarter", "4Gi", "15")
    (agent,) = cluster.agents.values()
    agent.kill()
    for number in range(3):
        person.create(claiming(f"pod-{number}", "quarter"))
    until(lambda: len(claims(person)) == 3, "the claims")
    agent.start()
    assert len(until_running(person, 3)) == 3
