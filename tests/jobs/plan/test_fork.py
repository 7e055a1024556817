"""The replicas that a fork of the ledger holds cards for, beside those of bound pods."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import GRANT, RESIZE
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.contract.resize import Resize, api_time
from device_plugin.core.jobs.search import Search
from device_plugin.core.ledger import Holding, Ledger, PromiseHolder
from device_plugin.core.node_constraints import NodeIndex
from device_plugin.core.placement import Placer
from device_plugin.core.pods import Node, Pod
from device_plugin.core.requests import PodRequest
from device_plugin.jobs.plan.fork import PLACE_SECONDS, Expected, Fork, Free, Unadmitted, expected
from device_plugin.state.managed import Managed
from tests.builders.batch_jobs import job, managed, replica, resize, spec, waiting
from tests.builders.cards import inventory
from tests.jobs.world import CARD_MIB, CORES, ONE_CARD, World

NOW = 1_800_000_000.0


def pending(of: Managed, *indexes: int, seconds_ago: float = 0.0) -> Iterator[Pod]:
    """Pods of the Job that have no node."""
    for index in indexes:
        yield replica(of.job, index, node="", phase="Pending", created=api_time(NOW - seconds_ago))


def seen(width: int, bound: int, record: Resize | None, waiting: int = 0, **more: object) -> Managed:
    """A Job written with this width, of which `bound` pods have a node and `waiting` others none."""
    made = managed(job("a", width, active=bound + waiting, **more), bound, record)
    return replace(made, pods=(*made.pods, *pending(made, *range(bound, bound + waiting))))


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (seen(4, 1, resize(0, 4, applied=True)), Expected(3, 0)),
        (seen(4, 1, resize(0, 4, applied=True), waiting=3), Expected(3, 0)),
        (seen(4, 3, resize(2, 4, applied=True, until=1.0)), Expected(1, 0)),
        (seen(4, 3, resize(8, 4, applied=True)), Expected(1, 0)),
        (seen(4, 3, resize(4, 6)), Expected(1, 0)),
        (seen(4, 3, resize(4, 1)), Expected(0, 0)),
        (seen(64, 1, None), Expected(0, 0)),
        (seen(64, 1, None, waiting=2), Expected(0, 2)),
        (seen(64, 1, resize(0, 1, applied=True)), Expected(0, 0)),
        (seen(64, 1, resize(0, 4, applied=True), waiting=5), Expected(0, 5)),
        (seen(64, 1, resize(8, 0, applied=True)), Expected(0, 0)),
        (replace(seen(4, 1, resize(0, 4, applied=True)), refusal="exceeded quota"), Expected(0, 0)),
    ],
    ids=[
        "it was started", "its pods are there", "one is created again", "one is created again after a shrink",
        "it is to grow", "it is to shrink", "its author started it", "its author started it, and pods are there",
        "its author widened it", "its author widened it, and pods are there", "its author started it after a stop",
        "its pods are refused",
    ],
)  # fmt: skip
def test_no_more_replicas_are_expected_than_the_engine_let_run_and_pods_exist(
    made: Managed, told: Expected
) -> None:
    assert expected(made, NOW) == told


def test_a_split_is_expected_to_run_its_window_of_sub_tasks() -> None:
    split = job("a", 6, completions=100, active=2, succeeded=40)
    made = replace(managed(split, record=resize(4, 6, applied=True)), spec=spec(split, parts=100))
    assert expected(made, NOW) == Expected(4, 0)
    assert expected(replace(made, job=replace(split, parallelism=50)), NOW) == Expected(0, 0)


def test_pods_that_leave_are_not_those_that_come() -> None:
    made = seen(4, 4, resize(0, 4, applied=True), replacement="TerminatingOrFailed")
    gone = structs.replace(made.pods[3], deleting=True)
    made = replace(made, job=replace(made.job, active=3, terminating=1), pods=(*made.pods[:3], gone))
    assert expected(made, NOW) == Expected(1, 0), "its successor comes beside it"
    made = replace(made, job=replace(made.job, replacement="Failed"))
    assert expected(made, NOW) == Expected(0, 0), "its successor comes after it"


def test_pods_that_have_waited_for_a_minute_are_not_expected() -> None:
    made = seen(3, 1, resize(0, 3, applied=True))
    old = tuple(pending(made, 1, seconds_ago=PLACE_SECONDS))
    assert expected(replace(made, pods=(*made.pods, *old)), NOW) == Expected(1, 0)


def test_pods_that_nobody_admitted_take_no_more_than_their_namespace_holds_or_one_card() -> None:
    first, second = (managed(job(name, 9), 2) for name in "ab")
    other = managed(job("c"), 0)
    other = replace(other, spec=replace(other.spec, key=("other", "c")))
    bound = Unadmitted([first, second, other])
    assert [bound.let(made, 3) for made in (first, second, first)] == [3, 1, 0]
    assert [bound.let(other, 3) for _ in range(2)] == [1, 0]
    half = replace(other, spec=replace(other.spec, cards=0.5))
    assert Unadmitted([half]).let(half, 3) == 2


class Promised:
    """The holdings of one node with four cards, three of which are kept for a group, and no pods."""

    def __init__(self) -> None:
        self._ledger, self.holder = Ledger(), PromiseHolder("n1", "group default/g")
        node = Node("n1", inventory("n1", 4).encode())
        self._ledger.set_node("n1", inventory("n1", 4))
        slices = tuple(Slice(f"n1-{number}", CARD_MIB, CORES) for number in range(3))
        grant = Grant(self.holder.beneficiary, "n1", {"promise": slices})
        self._ledger.put(Holding(holder=self.holder, node="n1", grant=grant))
        self.snapshot = self._ledger.snapshot
        self._index = NodeIndex([node.traits()])
        self.why_not_synced = str

    def nodes(self) -> NodeIndex:
        return self._index

    def release_promised(self, job: Job, ledger: Ledger) -> Sequence[Holding]:
        held = ledger.holding(self.holder)
        if job.name == "other" or held is None:
            return ()
        ledger.release(self.holder)
        return [held]


def test_what_one_job_of_a_group_leaves_of_a_promise_is_kept_for_the_others() -> None:
    master, trainer, other = (managed(waiting(name)) for name in ("master", "trainer", "other"))
    fork = Fork(Promised())
    fork.renew((), NOW)
    assert fork.take(master, 1)
    assert not fork.fits(other, 2)
    assert fork.fits(trainer, 3)
    assert not fork.take_together([(trainer, 3), (other, 1)])
    assert fork.take_together([(trainer, 2), (other, 1)])
    assert not fork.fits(trainer, 1)


def test_a_replica_is_expected_where_it_was_found_to_fit_as_long_as_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, searches, find = World(cards=4), list[str](), Placer.find

    def noted(placer: Placer, request: PodRequest, *more: Any, **others: Any) -> Grant | None:
        searches.append(request.pod)
        return find(placer, request, *more, **others)

    monkeypatch.setattr(Placer, "find", noted)
    world.queue("a", 2, suspend=False, annotations={RESIZE: resize(0, 2, applied=True).encode()})
    fork, jobs = Fork(world.engine.held), world.engine.known.managed().values()
    fork.renew(jobs, NOW)
    assert len(searches) == 1, "the second one goes beside the first"
    fork.renew(jobs, NOW)
    assert len(searches) == 1
    assert len(fork.ledger.holdings()) == 2
    other = Pod("default", "x", "x", node="n1", containers=ONE_CARD)
    text = Grant("x", "n1", {"main": (Slice("n1-0", CARD_MIB, CORES),)}).encode()
    world.api.put_pod(structs.replace(other, phase="Running", annotations={GRANT: text}))
    fork.renew(jobs, NOW)
    assert len(searches) == 2, "only that one whose card another pod has by now"
    held = [s.card for made in fork.ledger.grants().values() for s in made.slices()]
    assert len(set(held)) == len(held) == 3


def test_that_nothing_fits_is_not_certain_once_the_user_has_no_looks_left() -> None:
    """Otherwise his Jobs would be stopped of which pods wait for something else."""
    world = World(cards=1)
    world.queue("a", 1)
    world.queue("b", 2, namespace="other")
    fork, jobs = Fork(world.engine.held), world.engine.known.managed()
    free = Free(fork, jobs, NOW)
    a, b = ("default", "a"), ("other", "b")
    assert (free.may_fit(a, 1), free.may_fit(a, 2), free.may_fit(b, 2)) == (True, False, False)
    fork.search = Search(fork.ledger, fork.placer, looks=1)
    fork.begin(jobs.values())
    assert (free.may_fit(a, 2), free.may_fit(b, 2)) == (True, True)


def test_jobs_whose_pods_stay_pending_keep_few_cards_from_others() -> None:
    """As by an affinity that nothing meets, with pods that are created anew before they are old."""
    world = World(cards=8)
    for number in range(16):
        world.queue(f"evil-{number}", 1, namespace="evil", suspend=False)
        world.kept_back.add(f"evil-{number}-0")
    world.queue("good", 7)
    world.settle(2)
    assert not world.job("good").suspend


def test_pods_without_indexes_keep_their_cards_while_their_job_keeps_its_width() -> None:
    world = World()
    made = managed(job("a", 2, indexed=False))
    pods = tuple(structs.replace(pod, index=None, containers=ONE_CARD) for pod in made.pods)
    for pod, (node, card) in zip(pods, world.cards, strict=False):
        text = Grant(pod.uid, node, {"main": (Slice(card, CARD_MIB, CORES),)}).encode()
        world.engine.hear(structs.replace(pod, annotations={GRANT: text}))
    fork, found = Fork(world.engine.held), replace(made, pods=pods)
    for width in (2, 0):
        fork.renew([found], NOW)
        fork.leave(found, width, ends=True)
        held = [pod.uid for pod in pods if fork.ledger.holding(pod.uid) is not None]
        assert len(held) == len(fork.replicas[found.key]) == width
