"""Groups, splits and Jobs that are sized, on a real cluster with the job engine."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from device_plugin.core.contract.annotations import (
    DURATION,
    GROUP,
    GROUP_JOBS,
    GROUP_SIZE,
    MAX_REPLICAS,
    MIN_REPLICAS,
    MODEL,
    ROLE,
    SAMPLES,
    SPLIT,
    SPLIT_RATIO,
)
from device_plugin.kube.api import JOBS
from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines
from tests.e2e.queued_jobs import elastic, kill_engine, one_card, pods, queued, running, written
from tests.e2e.slices import inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import container, pod
from tests.pages import shown
from tests.release import NAMED

SECONDS = 120
PARTS = 10
# It ends once the engine was killed: it cannot be over before that, however slow the machine is.
PART = """
echo "begin $JOB_COMPLETION_INDEX" >> /data/parts
until [ -e /data/killed ]; do sleep 0.1; done
echo "end $JOB_COMPLETION_INDEX" >> /data/parts
"""


def of_group(role: str, width: int, *containers: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """A Job of the group `recommend`, of whose pods with cards two start together."""
    made = queued(role, width, *containers)
    made["metadata"]["labels"] |= {GROUP: "recommend", ROLE: role}
    made["metadata"]["annotations"] = annotations
    made["spec"]["template"]["metadata"]["labels"] |= {GROUP: "recommend", GROUP_SIZE: "2"}
    return made


def test_master_ps_and_trainers_start_together_in_this_order(kubectl: Kubectl, log: Path) -> None:
    cards = len(inventory(nodes.first())["cards"])
    size = log.stat().st_size
    kubectl.create(of_group("trainer", cards, **{MIN_REPLICAS: "1", MAX_REPLICAS: str(cards)}))
    kubectl.create(of_group("master", 1, container()), queued("other", 1))
    assert eventually(partial(running, kubectl, "other", 1), SECONDS)
    assert all(kubectl.get(JOBS, role)["spec"]["suspend"] for role in ("master", "trainer")), (
        "they wait for ps"
    )
    kubectl.create(of_group("ps", 1))
    for role, width in (("master", 1), ("ps", 1), ("trainer", cards - 2)):
        assert eventually(partial(running, kubectl, role, width), SECONDS), role
    starts = ["jobs other", "jobs master", "jobs trainer"]

    # The Job controller may write the status of the newest Job first, and then the engine's write of it is repeated.
    def others() -> list[str]:
        return [each for each in written(kubectl, log, size) if each != "jobs ps"]

    assert eventually(lambda: others()[:3] == starts, 30), written(kubectl, log, size)


def test_the_group_that_the_page_shows_waits_until_it_is_complete(kubectl: Kubectl, log: Path) -> None:
    size = log.stat().st_size
    kubectl.create(on_the_page("trainers"), queued("other", 1))
    assert eventually(partial(running, kubectl, "other", 1), SECONDS)
    kubectl("delete", "job", "other", "--cascade=foreground")
    kubectl.create(on_the_page("ps"), queued("another", 1))
    assert eventually(partial(running, kubectl, "another", 1), SECONDS)
    assert all(kubectl.get(JOBS, name)["spec"]["suspend"] for name in ("ps", "trainers")), "no master yet"
    kubectl("delete", "job", "another", "--cascade=foreground")
    kubectl.create(on_the_page("master"))
    starts = ["jobs master", "jobs ps", "jobs trainers"]
    # In any order: the Job controller may write the master's status first, and then the engine's write is repeated.
    assert eventually(lambda: sorted(written(kubectl, log, size)[-3:]) == starts, SECONDS), written(
        kubectl, log, size
    )
    trainers = min(8, len(inventory(nodes.first())["cards"]))
    assert eventually(partial(running, kubectl, "trainers", trainers), SECONDS)


def on_the_page(name: str) -> dict[str, Any]:
    """A Job of the group that docs/jobs.md shows, with a program that waits."""
    found: dict[str, Any] = shown("Job", "jobs.md", name)
    template = found["spec"]["template"]["spec"]
    resources = template["containers"][0].get("resources", {})
    template |= {"containers": [container(resources=resources)], **nodes.on(nodes.first()), **NAMED}
    return found


def test_what_others_free_for_a_group_is_kept_until_the_pods_of_all_its_jobs_are_bound(
    kubectl: Kubectl,
) -> None:
    """Those of the trainer may not be placed for a while after the master's."""
    cards = len(inventory(nodes.first())["cards"])
    kubectl.create(elastic("wide", 1, cards))
    assert eventually(partial(running, kubectl, "wide", cards), SECONDS)
    kubectl.create(pod("stranger", one_card(), **nodes.on(nodes.first())))
    master, trainer = (queued(role, 1) for role in ("master", "trainer"))
    for role, made in (("master", master), ("trainer", trainer)):
        made["metadata"]["labels"] |= {GROUP: "pair", ROLE: role}
        made["metadata"]["annotations"] = {GROUP_JOBS: "2"}
    trainer["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    kubectl.create(master, trainer)
    assert eventually(partial(running, kubectl, "master", 1), SECONDS)
    kept = f"kept for group {kubectl.namespace}/pair"
    assert eventually(lambda: any(kept in event for event in kubectl.events("stranger")), 30)
    (late,) = pods(kubectl, "trainer")
    kubectl(
        "patch", "pod", late["metadata"]["name"], "--type=merge", '--patch={"spec":{"schedulingGates":null}}'
    )
    assert eventually(partial(running, kubectl, "trainer", 1), SECONDS)
    assert kubectl.phase("stranger") == "Pending"
    assert running(kubectl, "wide", cards - 2)


def test_each_sub_task_runs_once_in_a_window_that_grows_though_the_engine_is_killed(
    kubectl: Kubectl, machines: Machines
) -> None:
    cards, folder = len(inventory(nodes.first())["cards"]), f"/run/parts/{kubectl.namespace}"
    kubectl.create(queued("other", cards - 1))
    assert eventually(partial(running, kubectl, "other", cards - 1), SECONDS)
    kubectl.create(split("frames", folder))
    assert eventually(lambda: any(runs_or_ran(each) for each in pods(kubectl, "frames")), SECONDS)
    assert window(kubectl) == 1, "one card is free"
    kubectl("delete", "job", "other", "--cascade=foreground")
    assert eventually(lambda: window(kubectl) == cards, SECONDS)
    # All that may run at a time have begun.
    assert eventually(partial(running, kubectl, "frames", cards), SECONDS)
    kill_engine()
    machines.run(nodes.first(), "touch", f"{folder}/killed")
    assert eventually(lambda: kubectl.get(JOBS, "frames")["status"].get("succeeded") == PARTS, SECONDS)
    lines = machines.run(nodes.first(), "cat", f"{folder}/parts").splitlines()
    assert lines[0] == "begin 0"
    assert Counter(lines) == {f"{what} {part}": 1 for what in ("begin", "end") for part in range(PARTS)}


def test_a_split_begins_once_a_part_of_it_fits(kubectl: Kubectl) -> None:
    cards = len(inventory(nodes.first())["cards"])
    kubectl.create(queued("other", cards - 1))
    assert eventually(partial(running, kubectl, "other", cards - 1), SECONDS)
    frames = split("frames", f"/run/parts/{kubectl.namespace}")
    # Room for more than 10 / 9 sub-tasks is room for two.
    frames["metadata"]["annotations"][SPLIT_RATIO] = "9"
    kubectl.create(frames, queued("small", 1))
    assert eventually(partial(running, kubectl, "small", 1), SECONDS)
    assert kubectl.get(JOBS, "frames")["spec"]["suspend"], "the card that was free was enough for one only"
    kubectl("delete", "job", "other", "--cascade=foreground")
    assert eventually(partial(running, kubectl, "frames", cards - 1), SECONDS)


def split(name: str, folder: str) -> dict[str, Any]:
    """A Job whose sub-tasks say in a file of the node when they begin and end."""
    mount = {"name": "data", "mountPath": "/data"}
    made = queued(name, 1, one_card(command=("sh", "-c", PART), volumeMounts=[mount]), completions=PARTS)
    made["metadata"]["annotations"] = {SPLIT: "ordered"}
    made["spec"]["template"]["spec"]["volumes"] = [
        {"name": "data", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}}
    ]
    return made


def runs_or_ran(pod: Any) -> bool:
    """True if the pod is beyond its start; a part may end before anybody sees it run."""
    return pod["status"]["phase"] in ("Running", "Succeeded")


def window(kubectl: Kubectl) -> int:
    """How many sub-tasks may run at a time."""
    return int(kubectl.get(JOBS, "frames")["spec"]["parallelism"])


def test_a_job_that_is_sized_runs_with_the_width_that_its_duration_needs(kubectl: Kubectl) -> None:
    made = queued("sized", 1)
    # On one card 1,000 s, of which two save almost a half, by the rate in hack/testbed/e2e.py.
    made["metadata"]["annotations"] = {SAMPLES: "100000", DURATION: "600s", MODEL: "resnet50"}
    kubectl.create(made)
    assert eventually(partial(running, kubectl, "sized", 2), SECONDS)
    assert kubectl.get(JOBS, "sized")["spec"]["completions"] == 2
