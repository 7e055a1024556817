"""Jobs through the whole system: the job engine admits and resizes them, and the allocator places their pods."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from device_plugin.kube.api import JOBS, PRIORITY_CLASSES, Ref
from hack.embedded.cluster import ENGINE_USER, EmbeddedCluster, Options
from hack.embedded.person import NAMESPACE, Person, phase, read
from hack.measure.one_machine import one_machine
from hack.measure.random_pods import FAMILY, FLAGS
from hack.measure.witness import Witness
from tests.builders import objects
from tests.deadline import eventually
from vgpu_runtime import sim

pytestmark = pytest.mark.usefixtures("native")

SECONDS = 60.0
CARDS = "version: v1\ncards:\n  - {preset: amd-60cu-16gib, count: 4}\n"


@pytest.fixture
def machine() -> Iterator[tuple[EmbeddedCluster, Person]]:
    """A cluster of one node with four cards, two replicas of the job engine, and a person there."""
    quick = ("--young-seconds", "0", "--cooldown-seconds", "1")
    options = Options(on_start=Witness(), flags=FLAGS, engines=2, engine_flags=quick)
    with one_machine({"n": sim.parse(CARDS)}, options) as made:
        yield made


@pytest.fixture
def cluster(machine: tuple[EmbeddedCluster, Person]) -> EmbeddedCluster:
    return machine[0]


@pytest.fixture
def person(machine: tuple[EmbeddedCluster, Person]) -> Person:
    return machine[1]


def queued(name: str, width: int, least: int = 0, most: int = 0) -> dict[str, Any]:
    """A Job of a queue whose pods ask for a whole card each."""
    pods = {"terminationGracePeriodSeconds": 1, "containers": [objects.container("main", {FAMILY: "1"})]}
    made = objects.job(name, width, pod=pods, suspend=True, podReplacementPolicy="Failed")
    made["metadata"]["labels"] = {"vgpu.io/queue": "default"}
    if least:
        bounds = {"vgpu.io/min-replicas": str(least), "vgpu.io/max-replicas": str(most or width)}
        made["metadata"]["annotations"] = bounds
    return made


def submit(person: Person, job: dict[str, Any]) -> None:
    person.api.create(JOBS.json, job, NAMESPACE)


def running(person: Person, job: str) -> list[str]:
    """The indexes of the Job's pods that run."""
    return sorted(
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
        for pod in person.pods()
        if pod["metadata"]["labels"].get("batch.kubernetes.io/job-name") == job and phase(pod) == "Running"
    )


def test_a_job_waits_for_room_and_is_admitted(cluster: EmbeddedCluster, person: Person) -> None:
    submit(person, queued("a", 3))
    assert eventually(lambda: running(person, "a") == ["0", "1", "2"], SECONDS)
    submit(person, queued("b", 2))
    explain = f"http://{_leader(cluster)}"
    assert eventually(lambda: "waits for room" in read(explain, "/explain?job=default/b"), SECONDS), read(
        explain, "/explain"
    )
    person.delete("a", kind="Job")
    assert eventually(lambda: running(person, "b") == ["0", "1"], SECONDS), read(explain, "/explain")


def test_what_a_job_frees_for_a_group_goes_to_all_jobs_of_the_group(person: Person) -> None:
    """Though a pod waits for a card, and would have the first one that nobody is to have."""
    submit(person, queued("wide", 4, 1, 4))
    assert eventually(lambda: running(person, "wide") == ["0", "1", "2", "3"], SECONDS)
    card = objects.container("main", {FAMILY: "1"})
    stranger = objects.job("stranger", 1, pod={"terminationGracePeriodSeconds": 1, "containers": [card]})
    person.api.create(JOBS.json, stranger, NAMESPACE)
    for role, width in (("master", 1), ("trainer", 2)):
        made = queued(role, width)
        made["metadata"]["labels"] |= {"vgpu.io/group": "pair", "vgpu.io/role": role}
        made["metadata"]["annotations"] = {"vgpu.io/group-jobs": "2"}
        submit(person, made)
    assert eventually(lambda: running(person, "trainer") == ["0", "1"], SECONDS)
    assert eventually(lambda: running(person, "master") == ["0"], SECONDS)
    assert [running(person, name) for name in ("stranger", "wide")] == [[], ["0"]]


def test_a_running_job_gives_way_to_one_that_waits_and_grows_back(
    cluster: EmbeddedCluster, person: Person
) -> None:
    submit(person, queued("a", 4, 2, 4))
    assert eventually(lambda: len(running(person, "a")) == 4, SECONDS)
    explain = f"http://{_leader(cluster)}"
    _forget_writes(cluster)
    submit(person, queued("b", 1))
    assert eventually(lambda: running(person, "b") == ["0"], SECONDS), read(explain, "/explain")
    assert running(person, "a") == ["0", "1", "2"], "the highest index leaves"
    assert _written(cluster) == ["jobs/a/status", "jobs/a", "jobs/b"]
    _forget_writes(cluster)
    person.delete("b", kind="Job")
    assert eventually(lambda: running(person, "a") == ["0", "1", "2", "3"], SECONDS), read(
        explain, "/explain"
    )
    assert _written(cluster) == ["jobs/a/status", "jobs/a"]


def test_a_job_of_a_higher_class_takes_the_cards_of_a_lower_one(
    cluster: EmbeddedCluster, person: Person
) -> None:
    with closing(Person(cluster.api.url, "system:admin")) as admin:
        urgent = {"metadata": {"name": "urgent"}, "value": 1000}
        admin.api.create(PRIORITY_CLASSES.json, urgent)
    submit(person, queued("a", 4))
    assert eventually(lambda: len(running(person, "a")) == 4, SECONDS)
    job = queued("b", 4)
    job["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    submit(person, job)
    assert eventually(lambda: len(running(person, "b")) == 4, SECONDS), read(
        f"http://{_leader(cluster)}", "/explain"
    )
    assert person.api.get(JOBS, Ref("a", NAMESPACE)).suspend


def test_when_the_engine_that_plans_is_killed_the_other_one_goes_on(
    cluster: EmbeddedCluster, person: Person
) -> None:
    submit(person, queued("a", 4, 2, 4))
    assert eventually(lambda: len(running(person, "a")) == 4, SECONDS)
    address = _leader(cluster)
    (first,) = [engine for engine in cluster.engines if engine.addresses["explain"] == address]
    # Its pods take their time to end: the engine is killed while they do.
    submit(person, queued("b", 2))
    assert eventually(lambda: "jobs/a" in _written(cluster)[1:], SECONDS)
    first.kill()
    assert eventually(lambda: running(person, "b") == ["0", "1"], SECONDS)
    assert running(person, "a") == ["0", "1"]
    assert _written(cluster).count("jobs/b") == 1


def _leader(cluster: EmbeddedCluster) -> str:
    """The address of the /explain of the replica that plans."""

    def found() -> str:
        for engine in cluster.engines:
            if "\nvgpu_job_engine_leader 1.0" in read(f"http://{engine.addresses['http']}", "/metrics"):
                return engine.addresses["explain"]
        return ""

    return eventually(found, SECONDS)


def _forget_writes(cluster: EmbeddedCluster) -> None:
    cluster.api.write_requests.clear()
    cluster.api.conflicts.clear()


def _written(cluster: EmbeddedCluster) -> list[str]:
    """What the job engine wrote beside its Lease and events, in order; without what it had to write again."""
    again = [path for user, _, path in list(cluster.api.conflicts) if user == ENGINE_USER]
    paths = [path for user, _, path in list(cluster.api.write_requests) if user == ENGINE_USER]
    for path in again:
        paths.remove(path)
    written = [path.partition("/namespaces/default/")[2] for path in paths if "leases" not in path]
    return [path for path in written if path != "events"]
