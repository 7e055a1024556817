"""Jobs through the whole system: controller, scheduler, allocator, kubelet and agent."""

from collections.abc import Iterator

import pytest

from device_plugin.kube.api import JOBS, Ref
from hack.embedded.cluster import Options
from hack.embedded.person import NAMESPACE, Person, phase
from hack.measure.one_machine import one_machine
from hack.measure.random_pods import FAMILY, FLAGS
from hack.measure.witness import Witness
from tests.builders import objects
from tests.deadline import eventually
from vgpu_runtime import sim

pytestmark = pytest.mark.usefixtures("native")

SECONDS = 60.0
CARDS = "version: v1\ncards:\n  - {preset: amd-60cu-16gib, count: 2}\n"
HALF = {f"{FAMILY}-mem": "8", f"{FAMILY}-cores": "30"}


@pytest.fixture
def person() -> Iterator[Person]:
    """A person at a cluster of one node with two cards."""
    with one_machine({"n": sim.parse(CARDS)}, Options(on_start=Witness(), flags=FLAGS)) as (_, person):
        yield person


def running(person: Person) -> set[str]:
    """The names of running pods, without the random end of those of a Job."""
    return {
        "-".join(pod["metadata"]["name"].split("-")[:2]) for pod in person.pods() if phase(pod) == "Running"
    }


def test_what_a_narrower_job_leaves_another_pod_takes_and_gives_back(person: Person) -> None:
    pod = {"containers": [objects.container(limits=HALF)], "terminationGracePeriodSeconds": 1}
    train = Ref("train", NAMESPACE)
    person.create(objects.job("train", 4, pod=pod, podReplacementPolicy="Failed"))
    assert eventually(lambda: running(person) == {f"train-{index}" for index in range(4)}, SECONDS)
    person.create(objects.pod("urgent", HALF, terminationGracePeriodSeconds=1))
    person.api.patch(JOBS, train, {"spec": {"parallelism": 3, "completions": 3}})
    assert eventually(lambda: running(person) == {"train-0", "train-1", "train-2", "urgent"}, SECONDS)
    person.remove("urgent")
    person.api.patch(JOBS, train, {"spec": {"parallelism": 4, "completions": 4}})
    assert eventually(lambda: running(person) == {f"train-{index}" for index in range(4)}, SECONDS)
    job = person.api.get(JOBS, train)
    assert (job.active, job.failed, job.parallelism) == (4, 0, 4)
    person.delete("train", kind="Job")
    assert eventually(lambda: not person.pods(), SECONDS)
