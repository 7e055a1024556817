"""Gangs of workloads' pods, by the label of their controllers: the workload says how many pods there are."""

from dataclasses import replace

import pytest
from msgspec import structs

from device_plugin.core.batch import Job
from device_plugin.core.pods import Pod
from device_plugin.core.workload_kinds import JOB_SET, RAY_CLUSTER
from tests.builders.pods import pod
from tests.builders.workloads import workload
from tests.cluster.gang_pods import placed, said
from tests.cluster.world import Replica, World

LABEL = "jobset.sigs.k8s.io/jobset-name=a"


def of(name: str, label: str = LABEL, **more: object) -> Pod:
    """A pod of the workload that asks for half a card."""
    return structs.replace(pod(name, mem=8, **more), workload=label)  # type: ignore[arg-type]


def see(one: Replica, job: Job) -> None:
    one.view.job_news.of(job.kind).see(job)


@pytest.fixture
def three(one: Replica) -> Job:
    """A JobSet of three pods that run."""
    job = workload(JOB_SET, "a", ((3, 1),), suspend=False)
    see(one, job)
    return job


@pytest.mark.usefixtures("three")
def test_its_pods_are_placed_when_all_of_them_exist(world: World, one: Replica) -> None:
    first, second, third = (of(name) for name in "abc")
    for made in (first, second):
        world.api.put(made)
        assert one.ask(made) == ""
    assert said(one, first) == "group jobset/a waits until all of its 3 pods exist"
    assert not one.view.ledger.grants()
    world.api.put(third)
    assert placed(one, [third, first, second]) == ["n1"] * 3


@pytest.mark.usefixtures("three")
def test_nobody_is_evicted_for_one_pod_of_it(world: World, one: Replica) -> None:
    made = of("a", priority=1000)
    world.api.put(made)
    assert one.preemption.advise(made, {"n1": []}) == {}


def test_pods_that_come_before_the_workload_is_known_are_of_its_gang_later(
    world: World, one: Replica
) -> None:
    first = world.api.put(of("a"))
    job = workload(JOB_SET, "a", ((2, 1),), suspend=False)
    see(one, job)
    assert one.ask(first) == ""
    one.view.job_news.of(JOB_SET).forget(job)
    assert one.ask(first) == "n1"


def test_a_changed_size_and_the_end_of_the_workload_count_at_once(
    world: World, one: Replica, three: Job
) -> None:
    pods = [world.api.put(of(name)) for name in "ab"]
    assert one.ask(pods[0]) == ""
    see(one, replace(three, parallelism=2, completions=2))
    assert placed(one, pods) == ["n1", "n1"]


@pytest.mark.usefixtures("three")
def test_a_group_that_the_pod_s_author_wrote_stays(world: World, one: Replica) -> None:
    labels = {"vgpu.io/group": "mine", "vgpu.io/group-size": "1"}
    assert one.ask(world.api.put(of("a", labels=labels))) == "n1"


@pytest.mark.usefixtures("three")
def test_pods_of_another_namespace_and_of_another_label_are_not_of_it(world: World, one: Replica) -> None:
    assert one.ask(world.api.put(of("a", namespace="other"))) == "n1"
    assert one.ask(world.api.put(of("b", "ray.io/cluster=a"))) == "n1"


def test_pods_that_do_not_come_together_are_placed_one_by_one(world: World, one: Replica) -> None:
    see(one, replace(workload(JOB_SET, "a", ((3, 1),), suspend=False), together=False))
    assert one.ask(world.api.put(of("a"))) == "n1"


def test_a_succeeded_pod_of_another_job_of_the_workload_counts(
    world: World, one: Replica, three: Job
) -> None:
    assert three.width == 3
    world.api.put(of("a", owner="Job", owner_uid="first", phase="Succeeded"))
    pods = [world.api.put(of(name, owner="Job", owner_uid="second")) for name in "bc"]
    assert placed(one, pods) == ["n1", "n1"]


def test_a_cluster_that_a_ray_job_has_made_is_left_out(world: World, one: Replica) -> None:
    made = replace(workload(RAY_CLUSTER, "a", ((3, 1),), suspend=False), owner="RayJob", owner_uid="u")
    see(one, made)
    assert one.ask(world.api.put(of("a", "ray.io/cluster=a"))) == "n1"


@pytest.mark.usefixtures("three")
def test_pods_that_are_gone_are_forgotten(world: World, one: Replica) -> None:
    made = world.api.put(of("a"))
    one.lose(made)
    assert not one.view.gangs._pods
    assert not one.view.gangs._of
