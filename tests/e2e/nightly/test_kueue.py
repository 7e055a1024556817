"""Kueue's real controller and the product, with the queues and the Job of docs/quota.md."""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import yaml

from device_plugin.core.contract.annotations import QUEUE
from device_plugin.kube.api import NODES, PODS, Kind
from hack.testbed.cluster import PROJECT
from hack.testbed.controllers import KUEUE
from tests.e2e.kubectl import Kubectl, KubectlError, is_ready
from tests.e2e.nightly.controllers import install
from tests.e2e.slices import check_disjoint, held
from tests.e2e.waiting import eventually
from tests.e2e.workloads import IMAGE, PREFIX, SLEEP, container, pod
from tests.transcript import files

FILES = files((PROJECT / "docs/quota.md").read_text(encoding="utf-8"))
QUEUES: list[dict[str, Any]] = list(yaml.safe_load_all(FILES["kueue.yaml"]))
BY_HALVES: dict[str, Any] = yaml.safe_load(FILES["by-halves.yaml"])
TRAIN: dict[str, Any] = yaml.safe_load(FILES["train.yaml"])
# Half a card of the simulated ones, by halves.
HALVES = {f"{PREFIX}-mem": 8, f"{PREFIX}-cores": 30, f"{PREFIX}-slices": 1}
WORKLOADS = Kind("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", dict)
JOBS = Kind("batch", "v1", "jobs", "Job", dict)
CLUSTER_QUEUES = Kind("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", dict)


class Teams(NamedTuple):
    """kubectl in the namespaces of the page's two teams."""

    a: Kubectl
    b: Kubectl


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Teams]:
    """Kueue, ready, on a cluster whose nodes have the label of the page's flavor; the teams' strict namespaces."""
    everywhere = Kubectl("")
    install(KUEUE, tmp_path_factory.mktemp("kueue"))
    everywhere("label", "nodes", "--all", *(f"{k}={v}" for k, v in QUEUES[0]["spec"]["nodeLabels"].items()))
    teams = Teams(Kubectl("team-a"), Kubectl("team-b"))
    for team in teams:
        everywhere("create", "namespace", team.namespace)
        everywhere("label", "namespace", team.namespace, "vgpu.io/quota=strict")
    yield teams
    everywhere("delete", "namespace", *(team.namespace for team in teams))


@pytest.fixture
def teams(installed: Teams) -> Iterator[Teams]:
    """The two teams with the page's queues; all of their Jobs and pods are gone when the test ends."""
    apply(*QUEUES)
    for team in installed:  # Kueue does not notice a Job that is created before it knows the queue
        team("wait", "localqueue/default", "--for=condition=Active", "--timeout=60s")
    yield installed
    for team in installed:
        team("delete", "job,pod", "--all")
    assert eventually(lambda: not any(team.items() or team.items(WORKLOADS) for team in installed), 60)


def apply(*objects: dict[str, Any]) -> None:
    """Create or change them, once Kueue's webhooks answer."""
    refused = ""

    def taken() -> bool:
        nonlocal refused
        try:
            Kubectl("").apply(*objects)
        except KubectlError as error:
            refused = str(error)
            return False
        return True

    assert eventually(taken, 20), refused


def train(name: str, pods: int = 4, **limits: int) -> dict[str, Any]:
    """The page's Job with this cluster's image and nodes in mind; `limits` replace what it asks of cards, if given."""
    made = copy.deepcopy(TRAIN)
    made["metadata"] = {"name": name}
    made["spec"] |= {"parallelism": pods, "completions": pods}
    (main,) = made["spec"]["template"]["spec"]["containers"]
    main |= {"image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": list(SLEEP)}
    asked = main["resources"]["limits"]
    cards = limits or {key: value for key, value in asked.items() if key.startswith(PREFIX)}
    main["resources"] = {"limits": {"cpu": "10m", "memory": "16Mi", **cards}}
    return made


def start(team: Kubectl, name: str, pods: int = 4, **limits: int) -> None:
    """Create a Job, and return when all of its pods run."""
    team.create(train(name, pods, **limits))
    assert eventually(lambda: runs(team, name, pods), 40), told(team, name)


def of_job(team: Kubectl, name: str) -> list[Any]:
    return list(team.items(PODS, labels=f"job-name={name}"))


def runs(team: Kubectl, name: str, pods: int = 4) -> bool:
    found = of_job(team, name)
    return len(found) == pods and all(is_ready(each) for each in found)


def suspended(team: Kubectl, name: str) -> bool:
    return team.get(JOBS, name)["spec"]["suspend"] is True


def conditions(team: Kubectl, name: str) -> dict[str, str]:
    """The conditions of Kueue's Workload for a Job: `STATUS REASON: message` by type."""
    uid = team.get(JOBS, name)["metadata"]["uid"]
    found = [each for each in team.items(WORKLOADS) if each["metadata"]["ownerReferences"][0]["uid"] == uid]
    return {
        each["type"]: f"{each['status']} {each['reason']}: {each['message']}"
        for workload in found
        for each in workload.get("status", {}).get("conditions", [])
    }


def told(team: Kubectl, name: str) -> str:
    """What is said about a Job, for a failure."""
    return f"{conditions(team, name)} {team.events(name)} {[each['status'] for each in of_job(team, name)]}"


def waits(team: Kubectl, name: str, text: str) -> None:
    """Assert that Kueue does not start a Job, and says so with this text."""
    assert eventually(lambda: text in conditions(team, name).get("QuotaReserved", ""), 20), told(team, name)
    assert suspended(team, name)
    assert not of_job(team, name)


def borrowed(name: str) -> dict[str, str]:
    """What a ClusterQueue has borrowed, by resource; of what it does not borrow nothing is said."""
    status = Kubectl("").get(CLUSTER_QUEUES, name)["status"]
    return {
        each["name"]: each["borrowed"]
        for flavor in status["flavorsUsage"]
        for each in flavor["resources"]
        if each["borrowed"] != "0"
    }


def check_cards(teams: Teams) -> None:
    """Every pod holds what it asks for, and nothing is held twice."""
    slices = [one for team in teams for each in team.items() for one in held(team, each["metadata"]["name"])]
    assert len(slices) == sum(len(team.items()) for team in teams)
    check_disjoint(slices)


@pytest.mark.parametrize(
    ("limits", "lent"),
    [
        pytest.param({}, {f"{PREFIX}-percent": "200"}, id="percent"),
        pytest.param(HALVES, {f"{PREFIX}-mem": "32", f"{PREFIX}-cores": "120"}, id="halves"),
    ],
)
def test_a_queue_borrows_up_to_its_limit_and_gives_back(
    teams: Teams, limits: dict[str, int], lent: dict[str, str]
) -> None:
    if limits:
        apply(*by_halves())
    # Each is the half of a team's quota: two of them are its own, the third is borrowed.
    for name in ("first", "second", "third"):
        start(teams.a, name, **limits)
    assert eventually(lambda: borrowed("team-a") == lent, 10), borrowed("team-a")
    teams.a.create(train("fourth", **limits))
    waits(teams.a, "fourth", "insufficient")
    # What is left of team b's quota; then what team a borrowed of it.
    start(teams.b, "first", **limits)
    check_cards(teams)
    start(teams.b, "second", **limits)
    assert suspended(teams.a, "third"), told(teams.a, "third")
    assert not of_job(teams.a, "third")
    assert "True InCohortReclamation" in conditions(teams.a, "third")["Preempted"]
    assert all(runs(teams.a, name) for name in ("first", "second"))
    assert borrowed("team-a") == {}
    check_cards(teams)
    teams.b("delete", "job", "second")
    assert eventually(lambda: runs(teams.a, "third") or runs(teams.a, "fourth"), 40), told(teams.a, "third")


def by_halves() -> list[dict[str, Any]]:
    """The page's objects, with the group for pods that ask by halves."""
    made = copy.deepcopy(QUEUES)
    for queue in made:
        if queue["kind"] == "ClusterQueue":
            queue["spec"]["resourceGroups"] = [BY_HALVES]
    return made


def test_jobs_run_on_nodes_of_the_flavor(teams: Teams) -> None:
    start(teams.a, "train", 1)
    (found,) = of_job(teams.a, "train")
    labels = QUEUES[0]["spec"]["nodeLabels"]
    assert found["spec"]["nodeSelector"] == labels
    node = Kubectl("").get(NODES, found["spec"]["nodeName"])
    assert node["metadata"]["labels"].items() >= labels.items()
    assert [each.units for each in held(teams.a, found["metadata"]["name"])]


def test_a_resource_that_no_group_covers_keeps_a_job_waiting(teams: Teams) -> None:
    teams.a.create(train("whole", **{PREFIX: 1, f"{PREFIX}-slices": 4}))
    waits(teams.a, "whole", f"resource {PREFIX} unavailable in ClusterQueue")


def test_pods_that_leave_a_part_out_are_refused_and_the_job_says_so(teams: Teams) -> None:
    teams.a.create(train("partly", **{f"{PREFIX}-percent": 50}))
    said = f"write {PREFIX}-slices"
    assert eventually(lambda: any(said in each for each in teams.a.events("partly")), 20), told(
        teams.a, "partly"
    )
    assert not suspended(teams.a, "partly")
    assert not of_job(teams.a, "partly")


def test_a_pod_that_fits_by_the_sum_alone_waits_with_our_reason(teams: Teams) -> None:
    share = {f"{PREFIX}-percent": 60, f"{PREFIX}-slices": 1}
    start(teams.a, "six", 6, **share)
    start(teams.b, "two", 2, **share)
    # 320 percent are free, 40 on each card.
    teams.b.create(train("one", 1, **share))
    assert eventually(lambda: of_job(teams.b, "one"), 20), told(teams.b, "one")
    (waiting,) = of_job(teams.b, "one")
    said = waiting["metadata"]["name"]
    assert eventually(lambda: "lack" in " ".join(teams.b.events(said)), 20), teams.b.events(said)
    assert "True" in conditions(teams.b, "one")["Admitted"]


def test_kueue_starts_a_job_that_has_the_label_of_our_queues_too(teams: Teams) -> None:
    made = train("both")
    made["metadata"]["labels"] = {QUEUE: "default"}
    made["spec"] |= {"completionMode": "Indexed", "podReplacementPolicy": "Failed"}
    teams.a.create(made)
    assert eventually(lambda: runs(teams.a, "both"), 40), told(teams.a, "both")
    assert "True" in conditions(teams.a, "both")["Admitted"]


def test_a_plain_pod_passes_kueue_by(teams: Teams) -> None:
    limits = {f"{PREFIX}-percent": "50", f"{PREFIX}-slices": "1"}
    teams.a.create(pod("plain", container(resources={"limits": limits})))
    teams.a.running("plain")
    assert not teams.a.items(WORKLOADS)
