"""The job engine on a real cluster: what its shrinks cost, and what it does when others write too."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from device_plugin.core.contract.annotations import CHECKPOINT_SECONDS, RESIZE, WIDTHS
from device_plugin.core.contract.resize import Resize
from device_plugin.kube.api import JOBS, PODS, Kind, Ref
from hack.testbed import audit
from tests.e2e import nodes
from tests.e2e.conftest import in_own_namespace
from tests.e2e.kubectl import Kubectl, api
from tests.e2e.queued_jobs import ENGINE, elastic, pods, queued, running, written
from tests.e2e.service import SYSTEM
from tests.e2e.slices import inventory
from tests.e2e.waiting import eventually, within
from tests.e2e.workloads import PREFIX, container, pod, slice_of

SECONDS, ATTEMPTS = 120, 10
QUOTAS = Kind("", "v1", "resourcequotas", "ResourceQuota", dict)
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one-card"}}


def test_a_job_gives_way_and_grows_back_with_the_writes_that_it_must_cost(
    kubectl: Kubectl, log: Path
) -> None:
    width = len(inventory(nodes.first())["cards"])
    kubectl.create(elastic("wide", 1, width))
    assert eventually(partial(running, kubectl, "wide", width), SECONDS)
    first = pods(kubectl, "wide")[0]["metadata"]["name"]

    # The record, both numbers, and the start of the other Job with the record's end.
    gives_way(kubectl, log, "small", ["jobs/status wide", "jobs wide"])
    # With a request for a checkpoint after the record, to which this program gives no answer. That it gave none is kept
    # in the Job's status.
    kubectl("annotate", "job", "wide", f"{CHECKPOINT_SECONDS}=2")
    unanswered = ["jobs/status wide", f"pods/status {first}", "jobs wide", "jobs/status wide"]
    gives_way(kubectl, log, "next", unanswered)
    assert eventually(partial(told, kubectl, "reported none within 2 s"), 30)
    gives_way(kubectl, log, "last", unanswered)
    assert eventually(partial(told, kubectl, "it is not made narrower before"), 30), "two in a row"
    # The objects of the pods that left may go after their cards.
    assert eventually(partial(running, kubectl, "wide", width - 3), 30), "the highest indexes left"
    assert pods(kubectl, "wide")[0]["metadata"]["name"] == first

    size = log.stat().st_size
    kubectl("delete", "job", "small", "next", "last", "--cascade=foreground")
    assert eventually(partial(running, kubectl, "wide", width), SECONDS)
    both = ["jobs/status wide", "jobs wide"]
    assert eventually(lambda: written(kubectl, log, size)[-2:] == both, 30), written(kubectl, log, size)


def test_a_job_runs_only_at_the_widths_that_it_lists(kubectl: Kubectl) -> None:
    cards = len(inventory(nodes.first())["cards"])
    steps = queued("steps", cards)
    steps["metadata"]["annotations"] = {WIDTHS: f"1,{cards}"}
    kubectl.create(steps)
    assert eventually(partial(running, kubectl, "steps", cards), SECONDS)
    # With any number of pods it would keep two.
    kubectl.create(queued("other", cards - 2))
    assert eventually(partial(running, kubectl, "other", cards - 2), SECONDS)
    assert eventually(partial(running, kubectl, "steps", 1), 30)
    kubectl("delete", "job", "other", "--cascade=foreground")
    assert eventually(partial(running, kubectl, "steps", cards), SECONDS)


def told(kubectl: Kubectl, text: str, name: str = "wide") -> bool:
    """True if an event of the Job says this."""
    return any(text in event for event in kubectl.events(name))


def gives_way(kubectl: Kubectl, log: Path, name: str, writes: list[str]) -> None:
    """Another Job with this name starts, by one write, beside exactly these writes in their order."""
    size, start = log.stat().st_size, f"jobs {name}"
    kubectl.create(queued(name, 1))
    assert eventually(partial(running, kubectl, name, 1), SECONDS)

    # The start waits for the pods that leave, and not for a write that only keeps something of the other Job.
    def others() -> list[str] | None:
        found = written(kubectl, log, size)
        return [each for each in found if each != start] if found.count(start) == 1 else None

    assert eventually(lambda: others() == writes, 30), written(kubectl, log, size)


def test_a_job_that_somebody_changes_all_the_time_is_started_all_the_same(
    kubectl: Kubectl, log: Path
) -> None:
    size = log.stat().st_size

    def read_again() -> bool:
        calls = [call for call in audit.calls(log, size) if call.service == ENGINE]
        return any((call.verb, call.resource) == ("get", "jobs") for call in calls)

    for attempt in range(ATTEMPTS):
        name = f"busy-{attempt}"
        kubectl.create(queued(name, 1))
        change_until_started(kubectl, name)
        assert eventually(partial(running, kubectl, name, 1), SECONDS)
        kubectl("delete", "job", name, "--cascade=foreground")
        if within(read_again, 5):  # the log is written in batches
            return
    pytest.fail(f"no write of the engine met a change in {ATTEMPTS} attempts")


def change_until_started(kubectl: Kubectl, name: str) -> None:
    """Change the Job again and again: what the engine bases its write on is an older version then."""
    changes = count()

    def started() -> bool:
        change = {"metadata": {"annotations": {"example.com/number": str(next(changes))}}}
        job = api().patch(JOBS.json, Ref(name, kubectl.namespace), change)
        return not job["spec"]["suspend"]

    assert eventually(started, SECONDS, every=0.0)


def stopped_for_a_higher_class(kubectl: Kubectl, important: str) -> int:
    """The cards of the node, which the Job `low` had and `high` has now."""
    cards = len(inventory(nodes.first())["cards"])
    kubectl.create(queued("low", cards))
    assert eventually(partial(running, kubectl, "low", cards), SECONDS)
    high = queued("high", cards)
    high["spec"]["template"]["spec"]["priorityClassName"] = important
    kubectl.create(high)
    assert eventually(partial(running, kubectl, "high", cards), SECONDS)
    return cards


def test_a_job_of_a_higher_class_stops_a_lower_one_which_goes_on_after_it(
    kubectl: Kubectl, important: str
) -> None:
    cards = stopped_for_a_higher_class(kubectl, important)
    assert kubectl.get(JOBS, "low")["spec"]["suspend"]
    kubectl("delete", "job", "high", "--cascade=foreground")
    assert eventually(partial(running, kubectl, "low", cards), SECONDS)
    assert not kubectl.get(JOBS, "low")["status"].get("failed"), "a stop is no failure"


def test_who_removes_the_record_of_his_stopped_job_gets_it_back(
    kubectl: Kubectl, important: str, engines: Callable[[int], None]
) -> None:
    """Whether an engine sees it or not: what the Job has had stands in its status, too."""
    cards = stopped_for_a_higher_class(kubectl, important)
    record = recorded(kubectl, "low")
    assert record is not None
    assert record.attained > 0

    kubectl("annotate", "job", "low", f"{RESIZE}-")
    assert eventually(lambda: recorded(kubectl, "low") == record, 30), "the engine knows it"
    engines(0)
    kubectl("annotate", "job", "low", f"{RESIZE}-")
    engines(2)
    assert eventually(lambda: recorded(kubectl, "low") == record.past, SECONDS), (
        "it stands in the Job's status"
    )

    kubectl("delete", "job", "high", "--cascade=foreground")
    assert eventually(partial(running, kubectl, "low", cards), SECONDS)
    after = recorded(kubectl, "low")
    assert after is not None
    assert (after.gen, after.attained) == (record.gen + 1, record.attained)


def recorded(kubectl: Kubectl, name: str) -> Resize | None:
    text = kubectl.get(JOBS, name)["metadata"].get("annotations", {}).get(RESIZE)
    return Resize.decode(text) if text else None


@pytest.fixture
def engines() -> Iterator[Callable[[int], None]]:
    """Lets this number of replicas of the engine run; two again after the test."""

    def scale(count: int) -> None:
        SYSTEM("scale", "deployment", ENGINE, f"--replicas={count}")
        of = f"app.kubernetes.io/component={ENGINE.removeprefix('vgpu-')}"
        assert eventually(lambda: len(SYSTEM.items(PODS, labels=of)) == count, SECONDS)

    yield scale
    scale(2)


def test_a_job_whose_pods_a_quota_refuses_runs_with_those_that_it_allows(kubectl: Kubectl) -> None:
    kubectl.create({**QUOTA, "spec": {"hard": {f"requests.{PREFIX}": "1"}}})
    assert eventually(lambda: "used" in kubectl.get(QUOTAS, "one-card")["status"], 30)
    kubectl.create(elastic("poor", 1, 2))
    assert eventually(lambda: kubectl.get(JOBS, "poor")["spec"]["parallelism"] == 1, SECONDS)
    assert eventually(partial(running, kubectl, "poor", 1), SECONDS)
    assert eventually(partial(told, kubectl, "one-card", "poor"), 30), kubectl.events("poor")


def test_widths_that_their_author_writes_and_a_quota_refuses_keep_nobody_from_starting(
    kubectl: Kubectl,
) -> None:
    """Two Jobs take turns, so that no refusal is of a Job that is wide still when it is known."""
    kubectl.create({**QUOTA, "spec": {"hard": {f"requests.{PREFIX}": "2"}}})
    assert eventually(lambda: "used" in kubectl.get(QUOTAS, "one-card")["status"], 30)
    names = ("left", "right")
    kubectl.create(*(elastic(name, 1, 64) for name in names))

    def narrow() -> bool:
        for name in names:
            set_width(kubectl, name, 1)
        return all(running(kubectl, name, 1) for name in names)

    assert eventually(narrow, SECONDS, every=2.0)
    turns = count()
    with in_own_namespace() as other:
        other.create(queued("good", 2))

        def started() -> bool:
            turn = next(turns) % 2
            set_width(kubectl, names[turn], 64)
            set_width(kubectl, names[1 - turn], 1)
            return running(other, "good", 2)

        assert eventually(started, 30, every=2.0)


def set_width(kubectl: Kubectl, name: str, width: int) -> None:
    api().patch(
        JOBS.json, Ref(name, kubectl.namespace), {"spec": {"parallelism": width, "completions": width}}
    )


def asked_for_a_checkpoint(kubectl: Kubectl) -> int:
    """Fill the node with `slow`, which has an hour for a checkpoint, and `short`; `slow` is asked to shrink for `b`.

    Returns the width of `slow`.
    """
    width = len(inventory(nodes.first())["cards"]) - 1
    kubectl.create(queued("short", 1))
    assert eventually(partial(running, kubectl, "short", 1), SECONDS)
    kubectl.create(elastic("slow", 1, width, **{CHECKPOINT_SECONDS: "3600"}))
    assert eventually(partial(running, kubectl, "slow", width), SECONDS)
    kubectl.create(queued("b", 1))

    def asked() -> bool:
        record = recorded(kubectl, "slow")
        return record is not None and record.beneficiary == (kubectl.namespace, "b")

    assert eventually(asked, SECONDS)
    return width


def test_a_job_that_fits_on_a_card_that_falls_idle_waits_for_no_checkpoint(kubectl: Kubectl) -> None:
    width = asked_for_a_checkpoint(kubectl)
    kubectl("delete", "job", "short", "--cascade=foreground")
    assert eventually(partial(running, kubectl, "b", 1), SECONDS)

    def ended() -> bool:
        record = recorded(kubectl, "slow")
        return record is not None and not record.until

    assert eventually(ended, 30), "its card is not needed any more"
    assert running(kubectl, "slow", width)


def test_a_job_that_was_asked_for_a_checkpoint_makes_room_for_a_higher_class(
    kubectl: Kubectl, important: str
) -> None:
    asked_for_a_checkpoint(kubectl)
    card = container(resources=slice_of(whole=1))
    kubectl.create(pod("vip", card, priorityClassName=important, **nodes.on(nodes.first())))
    kubectl.running("vip")


def test_a_job_is_started_though_all_replicas_of_the_engine_are_replaced(kubectl: Kubectl) -> None:
    SYSTEM("delete", "pod", "--selector=app.kubernetes.io/component=jobs", "--wait=false")
    kubectl.create(queued("later", 1))
    assert eventually(partial(running, kubectl, "later", 1), SECONDS)
