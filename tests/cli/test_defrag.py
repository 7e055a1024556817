"""`vgpu defrag` plans on what the API server shows, and evicts only what it said."""

import json
from typing import Any

import pytest
from pytest_mock import MockerFixture

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.defrag import planned
from device_plugin.kube.api import JOBS, Kind, Named
from device_plugin.kube.errors import from_status
from device_plugin.wiring.commands import main
from tests.cli.fleet import Fleet
from tests.cluster.world import World
from tests.state.test_promises import job, of, runs, shrinks


def defrag(fleet: Fleet, *words: str) -> int:
    return main(["defrag", *words, "--kubeconfig", str(fleet.kubeconfig)])


@pytest.fixture
def scattered(fleet: Fleet) -> Fleet:
    """A small slice on each of two cards, and a pod that needs a whole one."""
    for node, name in (("n1", "left"), ("n2", "right")):
        fleet.node(node)
        fleet.pod(name, 4 if name == "left" else 6, f"{node}-0")
    fleet.pod("large", 16)
    return fleet


def test_it_says_which_pod_would_make_room_and_evicts_nobody(
    scattered: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert defrag(scattered, "--max-moves", "5") == defrag(scattered, "--dry-run") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1].split() == [
        "default/left",
        "n1",
        "n1-0",
        "n2",
        "n2-0",
        "default/large",
        "fits",
        "on",
        "n1",
    ]
    assert said[2] == "pods moved: 1, waiting pods that fit then: 1"
    assert set(scattered.pods()) == {"left", "right", "large"}


def test_programs_get_the_plan_as_json(scattered: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert defrag(scattered, "-o", "json") == 0
    (step,) = json.loads(capsys.readouterr().out)["steps"]
    here, there = {"node": "n1", "cards": ["n1-0"]}, {"node": "n2", "cards": ["n2-0"]}
    assert step == {
        "moves": [{"pod": "default/left", "from": here, "to": there}],
        "fits": [{"pod": "default/large", **here}],
    }


def test_apply_evicts_the_pods_of_the_plan(scattered: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert defrag(scattered, "--apply") == 0
    assert set(scattered.pods()) == {"right", "large"}
    assert capsys.readouterr().out.splitlines()[-1] == "evicted default/left"


@pytest.mark.parametrize("protected", ["one", "two"])
def test_no_pod_goes_unless_all_of_its_step_may(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], mocker: MockerFixture, protected: str
) -> None:
    for name in ("n1", "n2"):
        fleet.node(name)
    for name in ("one", "two"):
        fleet.pod(name, 4, "n1-0")
    fleet.pod("stays", 6, "n2-0", owner="")
    fleet.pod("large", 16)
    evict = KubeClient.evict

    def budgeted(client: KubeClient, pod: Named, *, dry: bool = False) -> None:
        if pod.name == protected:
            raise from_status(429, "TooManyRequests", "it would violate the pod's disruption budget")
        evict(client, pod, dry=dry)

    mocker.patch.object(KubeClient, "evict", budgeted)
    assert defrag(fleet, "--apply") == 1
    assert f"default/{protected} stays: it would violate" in capsys.readouterr().out
    assert set(fleet.pods()) == {"one", "two", "stays", "large"}


def test_nobody_moves_for_one_pod_of_a_gang(scattered: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """It would wait for the others all the same, and a gang that is never complete would have others moved for ever."""
    labels = {"vgpu.io/group": "train", "vgpu.io/group-size": "2"}
    scattered.remove("large")
    scattered.pod("one-of-two", 16, labels=labels)
    assert defrag(scattered) == 0
    assert "one-of-two" not in capsys.readouterr().out


@pytest.mark.parametrize("owner", ["", "DaemonSet"])
def test_a_pod_that_would_not_come_back_elsewhere_is_not_moved(fleet: Fleet, owner: str) -> None:
    for node, name in (("n1", "left"), ("n2", "right")):
        fleet.node(node)
        fleet.pod(name, 4, f"{node}-0", owner=owner)
    fleet.pod("large", 16)
    assert defrag(fleet, "--apply") == 0
    assert set(fleet.pods()) == {"left", "right", "large"}


def test_no_pod_moves_for_one_to_which_slices_are_promised_or_away_from_a_job_that_shrinks() -> None:
    world = World()
    for name in ("a", "b", "c"):
        job(world, name)
    spread = {"mem": 4, "cores": 15, "annotations": {"vgpu.io/policy": "spread"}}
    small = [runs(world, of("c", number, **spread)) for number in range(2)]
    world.api.put(of("b", 0, mem=16, cores=60))
    assert moved(world)
    shrinks(world, "c", small[0], job="a")
    assert moved(world) == []
    job(world, "c")
    shrinks(world, "a", runs(world, of("a", 1, mem=2, cores=7)))
    assert moved(world) == []


def moved(world: World) -> list[str]:
    """The pods of the plan for what the world's leader sees."""
    steps = planned(world.one.view, world.one.allocator, 5)
    return [move.source.pod for step in steps for move in step.moves]


def test_without_the_right_to_list_jobs_it_plans_and_says_so(
    scattered: Fleet, capsys: pytest.CaptureFixture[str], mocker: MockerFixture
) -> None:
    listed = KubeClient.list

    def refused(client: KubeClient, kind: Kind[Any], *more: Any) -> Any:
        if kind == JOBS.metadata:
            raise from_status(403, "Forbidden", "you may not list jobs")
        return listed(client, kind, *more)

    mocker.patch.object(KubeClient, "list", refused)
    assert defrag(scattered) == 0
    said = capsys.readouterr()
    assert "default/large" in said.out
    assert said.err == "what is kept for jobs is not known: you may not list jobs (403 Forbidden)\n"


def test_a_budget_below_one_is_refused(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert defrag(fleet, "--max-moves", "0") == 2
    assert "write --max-moves of at least 1" in capsys.readouterr().err
