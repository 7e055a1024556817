"""The Job controller's rounds in virtual time; tests/contract/test_jobs.py holds them to the real controller."""

import itertools
import random
from typing import Any

import pytest

from hack.embedded.jobs import indexes
from hack.embedded.jobs.pods import new_pod
from hack.embedded.jobs.sync import TRACKING, Backoff, JobRound, Moment, SyncActions, index_of, over

STAMP = "2026-11-22T10:00:00Z"


def ended(pod: dict[str, Any]) -> bool:
    return pod["status"]["phase"] in ("Succeeded", "Failed")


class World:
    """A Job and its pods, without a server: what a round decides is done at once, and pods end as the test says."""

    def __init__(self, width: int, policy: str = "Failed", **spec: Any) -> None:
        self.job: dict[str, Any] = {
            "metadata": {"name": "j", "namespace": "default", "uid": "u"},
            "spec": {
                "completionMode": "Indexed", "completions": width, "parallelism": width, "suspend": False,
                "backoffLimit": 6, "podReplacementPolicy": policy, "template": {"spec": {"containers": []}}, **spec,
            },
            "status": {},
        }  # fmt: skip
        self.pods: list[dict[str, Any]] = []
        self.now, self.backoff = 0.0, Backoff()
        self._uids = itertools.count()

    def round(self) -> SyncActions:
        made = JobRound(self.job, self.pods, self.backoff, Moment(self.now, STAMP)).run()
        for pod in made.delete:
            pod["metadata"].update(deletionTimestamp=STAMP, finalizers=[])
        for index in made.create:
            pod = new_pod(self.job, index)
            pod["metadata"].update(name=f"p{next(self._uids)}", namespace="default", creationTimestamp=STAMP)
            pod["metadata"]["uid"] = pod["metadata"]["name"]
            pod["status"] = {"phase": "Pending"}
            self.pods.append(pod)
        self.job["status"], self.backoff = made.status, made.backoff
        for pod in made.release:
            pod["metadata"]["finalizers"] = []
        return made

    def rest(self) -> int:
        """Rounds until one changes nothing; how many that were."""
        for count in range(20):
            made = self.round()
            if over(self.job) or not (made.delete or made.create or made.release):
                return count
        raise AssertionError("it does not come to rest")

    def live(self) -> list[int]:
        """The indexes of pods that have not ended, deleted ones among them."""
        return [index_of(pod) for pod in self.pods if not ended(pod)]

    def end(self, index: int, phase: str) -> None:
        """A pod of this index that runs ends; one that was deleted is gone then."""
        pod = next(
            p
            for p in self.pods
            if index_of(p) == index and p["status"]["phase"] not in ("Succeeded", "Failed")
        )
        pod["status"] = {"phase": phase}
        if "deletionTimestamp" in pod["metadata"] and not pod["metadata"]["finalizers"]:
            self.pods.remove(pod)


def test_pods_are_tracked_until_their_end_is_counted() -> None:
    world = World(2)
    world.round()
    assert [pod["metadata"]["finalizers"] for pod in world.pods] == [[TRACKING], [TRACKING]]
    world.end(1, "Failed")
    made = world.round()
    assert made.status["uncountedTerminatedPods"]["failed"] == ["p1"]
    assert made.status.get("failed", 0) == 0
    assert [pod["metadata"]["name"] for pod in made.release] == ["p1"]
    assert world.round().status["failed"] == 1
    assert world.job["status"]["uncountedTerminatedPods"]["failed"] == []


def test_after_failures_pods_come_later_and_later_and_after_a_success_at_once() -> None:
    world = World(2, backoffLimit=99)
    world.rest()
    waits = []
    for _ in range(8):
        world.end(1, "Failed")
        waits.append(world.round().wait)
        world.now += waits[-1]
        assert world.rest() == 1
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600]
    world.end(0, "Succeeded")
    world.round()
    world.end(1, "Failed")
    assert world.round().wait == 10


def test_a_pod_of_an_index_twice_leaves_the_one_that_runs() -> None:
    world = World(2)
    world.round()
    first, twin = world.pods[1], new_pod(world.job, 1)
    twin["metadata"].update(name="twin", uid="twin", namespace="default", creationTimestamp=STAMP)
    twin["status"] = {"phase": "Running"}
    world.pods.append(twin)
    assert world.round().delete == [first]


def disturb(world: World, rng: random.Random) -> None:
    """Set a width, suspend or resume the Job, or let a pod succeed, fail or be deleted."""
    spec, live = world.job["spec"], world.live()
    step = rng.randrange(6)
    if step == 0:
        spec["completions"] = spec["parallelism"] = rng.randint(1, 6)
    elif step == 1:
        spec["suspend"] = not spec["suspend"]
    elif step == 2 and live:
        rng.choice([pod for pod in world.pods if not ended(pod)])["metadata"].setdefault(
            "deletionTimestamp", STAMP
        )
    elif live:
        world.end(rng.choice(live), "Succeeded" if rng.random() < 0.1 else "Failed")


@pytest.mark.parametrize("policy", ["Failed", "TerminatingOrFailed"])
@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_no_index_runs_twice_and_none_is_lost(seed: int, policy: str) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    world = World(4, policy, backoffLimit=10**6)
    for _ in range(200):
        disturb(world, rng)
        world.rest()
        world.now += 1000  # no failure makes it wait any more
        world.rest()
        if any(one["type"] == "SuccessCriteriaMet" for one in world.job["status"].get("conditions", ())):
            return
        spec, status, live = world.job["spec"], world.job["status"], world.live()
        active = [
            index_of(pod)
            for pod in world.pods
            if not ended(pod) and "deletionTimestamp" not in pod["metadata"]
        ]
        assert sorted(set(active)) == sorted(active)
        assert (status["active"], status["terminating"]) == (len(active), len(live) - len(active))
        if spec["suspend"]:
            assert active == []
            assert "startTime" not in status
            continue
        done = indexes.read(status["completedIndexes"], spec["completions"])
        missing = set(range(spec["completions"])) - {*active, *done}
        assert {*active, *done} <= set(range(spec["completions"]))
        # Pods that end count against the width wherever only failed ones are replaced, whatever their index.
        assert len(missing) <= (status["terminating"] if policy == "Failed" else 0), missing
        if policy == "Failed":
            assert len(live) == len(set(live)), "a slice is never held twice"
