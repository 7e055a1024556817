"""Groups of Jobs: they wait for each other, and start in the order of their roles."""

import json
from dataclasses import replace

import pytest

from device_plugin.adapters.kube.jobs import read_job
from device_plugin.core.batch import Job
from device_plugin.jobs.show.views import views
from tests.jobs.world import World
from tests.pages import documents

ROLES = ("master", "ps", "trainers")


def shown() -> dict[str, Job]:
    """The Jobs of the group that docs/jobs.md shows, suspended as admission makes them."""
    found = (each for page, each in documents() if page.name == "jobs.md" and each.get("kind") == "Job")
    jobs = [
        read_job(json.dumps({**each, "spec": {**each["spec"], "suspend": True}}).encode()) for each in found
    ]
    return {job.name: job for job in jobs if "vgpu.io/group" in job.labels}


def create(world: World, name: str) -> None:
    job = shown()[name]
    world.api.put(replace(job, namespace="default", uid=world.api.uid(name), created="2027-01-15T07:00:00Z"))


def started(world: World) -> list[str]:
    """The Jobs that run, in the order in which the engine started them."""
    found = [name for name, change in world.api.patches if change.get("spec", {}).get("suspend") is False]
    assert sorted(found) == sorted(name for (_, name), job in world.api.jobs.items() if not job.suspend)
    return found


@pytest.fixture
def world() -> World:
    return World(cards=8)


@pytest.mark.parametrize("order", [ROLES, ROLES[::-1], ("ps", "trainers", "master")])
def test_the_group_of_the_page_starts_once_it_is_complete_and_in_its_order(
    world: World, order: tuple[str, ...]
) -> None:
    for count, name in enumerate(order):
        create(world, name)
        world.settle(3)
        if count < 2:
            assert started(world) == []
            told = {view.name: view.why for view in views(world.engine.known, world.engine.planners)}
            more = f"{2 - count} more Job{'s' if count == 0 else ''}"
            assert set(told.values()) == {f"waits for {more} of group recommend"}
    assert started(world) == list(ROLES)


def test_a_job_that_ran_does_not_wait_for_those_that_have_ended(world: World) -> None:
    for name in ROLES:
        create(world, name)
    world.settle(3)
    world.finish("master")
    world.finish("ps")
    trainers = world.job("trainers")
    world.api.put(replace(trainers, suspend=True))
    world.settle(6)
    assert not world.job("trainers").suspend
