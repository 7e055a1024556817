"""Promises: what pods of one job free goes to the job that they were told to leave for, and to nobody else."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from msgspec import structs

from device_plugin.allocator.explain import as_text
from device_plugin.allocator.openings import opening, placed_pods
from device_plugin.core.contract.cards import ReportedSlice, SliceState
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.contract.resize import MAX_RECORD, Resize
from device_plugin.core.ledger import PromiseHolder
from device_plugin.core.pods import Pod
from device_plugin.kube.api import Metadata
from device_plugin.state.promises import MOST_READ
from tests.builders.batch_jobs import queued_job
from tests.builders.cards import inventory
from tests.builders.pods import HALF, pod
from tests.cluster.gang_pods import more_nodes, placed, said
from tests.cluster.world import Replica, World
from tests.exposed import values

CARD = {"mem": 16, "cores": 60}
UNTIL = 2000.0


def job(world: World, name: str, **more: Any) -> Metadata:
    """A Job with the queue label, its uid `job-NAME`."""
    return world.api.put_job(queued_job(name, **more))


def of(name: str, number: int = 0, **more: Any) -> Pod:
    """A pod of that Job, which asks for half a card."""
    return pod(f"{name}-{number}", owner="Job", owner_uid=f"job-{name}", **more)


def runs(world: World, made: Pod) -> Pod:
    """The pod, created and bound where /filter places it."""
    world.api.put(made)
    node = world.one.ask(made)
    assert world.one.bind(made, node) == ""
    return world.api.by_name[made.namespace, made.name]


def record(*leaving: Pod, job: str = "b", **more: Any) -> str:
    """The record of a Job whose pods `leaving` make room for another."""
    grants = [found for made in leaving if (found := made.grant()) is not None]
    given: dict[str, Any] = {
        "gen": 1, "before": len(leaving) + 1, "after": 1, "asked": 1000.0, "until": UNTIL,
        "beneficiary": ("default", job), "grants": grants,
    }  # fmt: skip
    return Resize(**given | more).encode()


def shrinks(world: World, name: str, *leaving: Pod, **more: Any) -> Metadata:
    """The Job, with its record."""
    return job(world, name, record=record(*leaving, **more))


def now(world: World) -> float:
    """The time by the API server's clock."""
    return datetime.fromisoformat(world.api.time()).timestamp()


def kept(one: Replica, beneficiary: str = "job default/b", node: str = "n1") -> Sequence[Slice]:
    """What is held for a job, without a pod."""
    found = one.view.ledger.grant(PromiseHolder(node, beneficiary))
    return tuple(found.slices()) if found is not None else ()


@pytest.fixture
def shrunk(world: World) -> World:
    """Job `a` has one half of n1-0, of which the rest is a stranger's, and all of n1-1; it gives up its whole card."""
    job(world, "a")
    job(world, "b")
    runs(world, of("a", 0))
    runs(world, pod("stranger"))
    shrinks(world, "a", runs(world, of("a", 1, **CARD)))
    return world


def leave(world: World, name: str) -> None:
    world.api.end(world.api.by_name["default", name])


def test_r3_what_a_pod_frees_goes_to_the_job_that_it_was_freed_for_and_to_nobody_else(shrunk: World) -> None:
    one = shrunk.one
    other, first = shrunk.pod("other"), shrunk.api.put(of("b", 0))
    assert (one.ask(other), one.ask(first)) == ("", "")
    leave(shrunk, "a-1")
    assert kept(one) == (Slice("n1-1", 16368, tuple(range(60))),)
    assert one.ask(other) == ""
    assert one.ask(first) == "n1"
    assert kept(one) == (Slice("n1-1", HALF, tuple(range(30, 60))),)
    assert one.ask(other) == ""
    runs(shrunk, of("b", 1))
    assert kept(one) == ()
    assert one.ask(other) == ""


def test_nothing_is_kept_before_it_is_free(shrunk: World) -> None:
    """What the pods that leave do not hold goes to anybody meanwhile."""
    one = shrunk.one
    assert kept(one) == ()
    leave(shrunk, "stranger")
    assert one.ask(shrunk.pod("other")) == "n1"
    assert one.free() == [0, 0]


@pytest.mark.parametrize(
    "end",
    [
        None,
        lambda world: job(world, "a"),
        lambda world: world.api.remove_job("job-a"),
        lambda world: world.api.remove_job("job-b"),
        lambda world: job(world, "a", record=record(before=1, after=4)),
        lambda world: job(world, "a", record="broken"),
    ],
    ids=["its time is over", "no record", "the Job is gone", "the beneficiary is gone", "it grows", "unreadable"],
)  # fmt: skip
def test_a_promise_ends(shrunk: World, end: Any) -> None:
    one = shrunk.one
    leave(shrunk, "a-1")
    assert kept(one)
    other, before = shrunk.pod("other"), one.view.ledger.freed
    if end is None:
        one.wait(UNTIL - shrunk.clock.now)
        one.housekeeping.step()
    else:
        end(shrunk)
    assert (kept(one), one.view.promises.slices.statuses()) == ((), [])
    assert one.view.ledger.freed > before
    assert one.ask(other) == "n1"


def test_enough_bound_pods_of_the_job_end_its_promise(world: World) -> None:
    """The record says how many; what they do not need is everybody's again."""
    one = world.one
    job(world, "b")
    job(world, "a")
    shrinks(world, "a", runs(world, of("a", 1, **CARD)), replicas=1)
    leave(world, "a-1")
    runs(world, pod("stranger", **CARD))
    first, other = of("b", 0), world.pod("other")
    assert one.ask(other) == ""
    world.api.put(first)
    assert one.ask(first) == "n1"
    assert one.ask(other) == ""
    assert one.bind(first) == ""
    assert one.view.promises.slices.statuses() == []
    assert one.ask(other) == "n1"


def test_pods_of_a_group_that_were_bound_before_do_not_end_its_promise(world: World) -> None:
    one = world.one
    job(world, "a")
    for name in ("master", "trainer"):
        job(world, name, group="g")
    one.view.pod_news.see(runs(world, of("master", 0)), watched=True)
    runs(world, pod("stranger"))
    leaving = runs(world, of("a", 1, **CARD))
    asked = now(world)
    shrinks(world, "a", leaving, job="trainer", replicas=1, asked=asked, until=asked + 100)
    leave(world, "a-1")
    assert len(kept(one, "group default/g")) == 1
    assert one.ask(world.pod("other", **CARD)) == ""
    one.view.pod_news.see(runs(world, of("trainer", 0)), watched=True)
    assert one.view.promises.slices.statuses() == [], "this one was bound after the record was written"


def test_a_promise_for_a_group_lasts_until_the_pods_of_all_its_jobs_are_bound(world: World) -> None:
    one = world.one
    world.node("n2", inventory("n2"))
    one.view.node_news.sync(world.api.nodes())
    job(world, "a")
    for name in ("master", "trainer"):
        job(world, name, group="g")
    leaving = [runs(world, of("a", number, **CARD)) for number in range(4)][1:]
    shrinks(world, "a", *leaving, job="master", replicas=3)
    for made in leaving:
        leave(world, made.name)
    strangers = [world.pod(f"stranger-{number}", **CARD) for number in range(2)]
    for made in (of("master", **CARD), *(of("trainer", number, **CARD) for number in range(2))):
        assert [one.ask(stranger) for stranger in strangers] == ["", ""]
        runs(world, made)
    assert one.view.promises.slices.statuses() == []


def test_what_a_reservation_took_comes_back_with_its_end(shrunk: World) -> None:
    one = shrunk.one
    leave(shrunk, "a-1")
    whole = kept(one)
    first = shrunk.api.put(of("b", 0))
    assert one.ask(first) == "n1"
    assert kept(one) != whole
    one.wait(61.0)
    one.housekeeping.step()
    assert one.view.ledger.reservation(first.uid) is None
    assert kept(one) == whole
    assert one.ask(shrunk.pod("other")) == ""
    assert one.ask(first) == "n1"
    shrunk.api.remove(first)
    assert kept(one) == whole


def test_a_refusal_of_the_job_s_own_pod_changes_nothing_and_wakes_nobody(shrunk: World) -> None:
    one = shrunk.one
    leave(shrunk, "a-1")
    whole, before = kept(one), one.allocator.news()
    large = shrunk.api.put(of("b", 0, mem=17, cores=60))
    assert one.ask(large) == ""
    assert (kept(one), one.allocator.news()) == (whole, before)


def test_the_refusal_of_others_names_the_job_and_does_not_change_by_itself(shrunk: World) -> None:
    one, other = shrunk.one, shrunk.pod("other")
    leave(shrunk, "a-1")
    text = said(one, other)
    assert text.endswith("(slices there are kept for job default/b)")
    shrunk.clock.now += 5.0
    runs(shrunk, of("b", 0))
    assert said(one, other) == text


def test_pods_of_another_namespace_are_of_no_promised_job(shrunk: World) -> None:
    """Anybody can write any owner on a pod; no namespace gains by another's Job."""
    one = shrunk.one
    leave(shrunk, "a-1")
    forged = shrunk.api.put(of("b", 0, namespace="other", uid="forged"))
    replica_set = shrunk.api.put(structs.replace(of("b", 1), owner="ReplicaSet"))
    assert (one.ask(forged), one.ask(replica_set)) == ("", "")
    assert one.ask(shrunk.api.put(of("b", 2))) == "n1"


def test_a_job_of_the_same_name_in_another_namespace_gets_nothing(shrunk: World) -> None:
    """Nor do pods whose owner is the beneficiary by name or by UID only, in whatever way they ask."""
    one = shrunk.one
    shrunk.api.put_job(queued_job("b", namespace="other")._replace(uid="job-other-b"))
    leave(shrunk, "a-1")
    whole = kept(one)
    vip: dict[str, Any] = {"namespace": "other", "priority": 10, **CARD}
    pods = [
        shrunk.api.put(of("b", number, uid=f"vip-{number}", **more, **vip))
        for number, more in enumerate(
            [{}, {"labels": {"job-name": "b", "vgpu.io/group": "g", "vgpu.io/group-size": "1"}}]
        )
    ]
    pods.append(shrunk.api.put(structs.replace(of("b", 2, uid="vip-2", **vip), owner_uid="job-other-b")))
    for made in pods:
        assert (one.ask(made), one.view.promises.of(made)) == ("", "")
        one.preemption.advise(made, {"n1": []})
        held = one.view.ledger.reservation(made.uid)
        assert held is None or {s.card for s in held.grant.slices()} == {"n1-0"}
    one.turn()
    assert kept(one) == whole


def test_a_record_that_names_more_than_there_is_keeps_what_there_is(shrunk: World) -> None:
    """It is believed only at the start, and then too as far as nobody holds the slices."""
    claims = [
        Grant(f"ghost-{number}", node, {"pod": (Slice(card, 10**9, tuple(range(1000))),)})
        for number, (node, card) in enumerate(
            [("n1", "n1-0"), ("n1", "n1-1"), ("n1", "no-such-card"), ("no-such-node", "n1-0")]
        )
    ]
    shrinks(shrunk, "a", grants=claims, before=9, until=250_000_000_000.0)
    two = Replica(shrunk.api, shrunk.clock, "vgpu-1")
    two.follow()
    assert kept(two) == ()
    leave(shrunk, "stranger")
    leave(shrunk, "a-1")
    assert kept(two) == (Slice("n1-0", HALF, tuple(range(30, 60))), Slice("n1-1", 16368, tuple(range(60))))
    assert max(status.seconds for status in two.view.promises.slices.statuses()) == 7200.0
    for node in two.view.ledger.nodes():
        state = two.view.ledger.node(node)
        assert state is not None
        assert not any(card.crowded for card in state.cards)


def test_a_record_promises_only_what_pods_of_its_own_job_hold(world: World) -> None:
    """Whatever it says: of other Jobs, of no Job, of unbound pods and of pods that nobody knows it promises nothing."""
    one = world.one
    for name in ("a", "b", "c"):
        job(world, name)
    own, others = runs(world, of("a", 1)), runs(world, of("c", 1))
    alone, unbound = runs(world, pod("alone")), world.api.put(of("a", 2, **CARD))
    claims = [
        Grant(uid, "n1", {"pod": (Slice("n1-0", 16368, tuple(range(60))), Slice("n1-1", 16368, tuple(range(60))))})
        for uid in (own.uid, others.uid, alone.uid, unbound.uid, "nobody")
    ]  # fmt: skip
    shrinks(world, "a", grants=claims, before=6)
    (status,) = one.view.promises.slices.statuses()
    assert status.leaving == ["default/a-1"]
    (fault,) = one.view.faults.standing()
    assert (fault.kind, fault.subject) == ("resize", "default/a")
    assert fault.text.endswith(f"pod {others.uid} is not of this Job: what it holds is not promised")
    for name in ("a-1", "c-1", "alone"):
        leave(world, name)
    held = own.grant()
    assert held is not None
    assert list(kept(one)) == list(held.slices())


def test_two_jobs_cannot_promise_one_pod(shrunk: World) -> None:
    job(shrunk, "c")
    leaving = shrunk.api.by_name["default", "a-1"]
    shrinks(shrunk, "c", leaving, job="a")
    leave(shrunk, "a-1")
    assert kept(shrunk.one)
    assert kept(shrunk.one, "job default/a") == ()


def test_a_job_promises_nothing_to_itself(shrunk: World) -> None:
    shrinks(shrunk, "a", shrunk.api.by_name["default", "a-1"], job="a")
    leave(shrunk, "a-1")
    assert shrunk.one.view.promises.slices.statuses() == []


def test_another_beneficiary_takes_over_what_was_freed_for_the_first(shrunk: World) -> None:
    one, leaving = shrunk.one, shrunk.api.by_name["default", "a-1"]
    job(shrunk, "c")
    leave(shrunk, "a-1")
    whole = kept(one)
    shrinks(shrunk, "a", leaving, job="c", gen=2)
    assert (kept(one), kept(one, "job default/c")) == ((), whole)
    assert one.ask(shrunk.api.put(of("b", 0))) == ""
    assert one.ask(shrunk.api.put(of("c", 0))) == "n1"


def test_a_gang_of_the_job_gets_all_of_it_at_once(shrunk: World) -> None:
    one = shrunk.one
    leave(shrunk, "a-1")
    labels = {"vgpu.io/group": "g", "vgpu.io/group-size": "2"}
    strangers = [shrunk.pod(f"s-{number}", labels=labels, namespace="other") for number in range(2)]
    members = [shrunk.api.put(of("b", number, labels=labels)) for number in range(2)]
    assert placed(one, strangers) == ["", ""]
    assert placed(one, members) == ["n1", "n1"]
    assert kept(one) == ()
    assert placed(one, strangers) == ["", ""]
    for made in members:
        assert one.bind(made) == ""


def test_a_gang_that_does_not_fit_leaves_the_promise_as_it_was(shrunk: World) -> None:
    one = shrunk.one
    leave(shrunk, "a-1")
    whole, before = kept(one), one.allocator.news()
    labels = {"vgpu.io/group": "g", "vgpu.io/group-size": "3"}
    members = [shrunk.api.put(of("b", number, labels=labels)) for number in range(3)]
    before = one.allocator.news()
    assert placed(one, members) == ["", "", ""]
    assert (kept(one), one.allocator.news()) == (whole, before)


def test_all_jobs_of_a_group_share_what_is_promised_to_one_of_them(world: World) -> None:
    one = world.one
    job(world, "a")
    job(world, "b", group="g")
    job(world, "ps", group="g")
    job(world, "c", group="h")
    leaving = [runs(world, of("a", number, **CARD)) for number in (1, 2)]
    shrinks(world, "a", *leaving)
    for made in leaving:
        leave(world, made.name)
    assert len(kept(one, "group default/g")) == 2
    assert one.ask(world.api.put(of("c", 0))) == ""
    for name in ("b", "ps"):
        assert one.ask(world.api.put(of(name, 0, **CARD))) == "n1"
    assert kept(one, "group default/g") == ()


def test_slices_of_containers_that_outlive_their_pod_are_kept_when_these_end(shrunk: World) -> None:
    one, leaving = shrunk.one, shrunk.api.by_name["default", "a-1"]
    grant = leaving.grant()
    assert grant is not None
    left = ReportedSlice(leaving.uid, "default", "a-1", "main", SliceState.OUTLIVING, tuple(grant.slices()))
    shrunk.node("n1", replace(inventory("n1"), slices=(left,)))
    shrunk.api.remove(leaving)
    one.view.node_news.sync(shrunk.api.nodes())
    other = shrunk.api.put(of("b", 0))
    assert (kept(one), one.ask(other), one.ask(shrunk.pod("other"))) == ((), "", "")
    shrunk.node("n1", inventory("n1"))
    one.view.node_news.sync(shrunk.api.nodes())
    assert kept(one) == tuple(grant.slices())
    assert (one.ask(shrunk.pod("other")), one.ask(other)) == ("", "n1")


def test_a_pod_that_vanishes_frees_its_slices_for_the_job_when_nobody_reported_them(shrunk: World) -> None:
    one = shrunk.one
    shrunk.api.remove(shrunk.api.by_name["default", "a-1"])
    assert kept(one) == ()
    one.wait(5.0)
    one.housekeeping.step()
    assert kept(one)
    assert one.ask(shrunk.pod("other")) == ""


@pytest.mark.parametrize("first", ["nodes", "pods", "jobs"])
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_service_that_starts_anew_keeps_what_the_one_before_kept(
    shrunk: World, taken: int, first: str
) -> None:
    leave(shrunk, "a-1")
    for number in range(taken):
        runs(shrunk, of("b", number))
    two = Replica(shrunk.api, shrunk.clock, "vgpu-1")
    lists = {
        "nodes": lambda: two.view.node_news.sync(shrunk.api.nodes()),
        "pods": lambda: two.view.pod_news.sync(shrunk.api.pods()),
        "jobs": lambda: two.view.job_news.sync(shrunk.api.jobs.values()),
    }
    for name in sorted(lists, key=lambda name: name != first):
        assert two.view.why_not_synced()
        lists[name]()
    assert two.view.ledger == shrunk.one.view.ledger
    assert bool(kept(two)) is (taken < 2)


def test_what_the_job_had_before_is_not_taken_from_its_promise(world: World) -> None:
    """Neither while the service runs nor after a start, which tells by the times of record and bindings."""
    one = world.one
    for name in ("a", "b"):
        job(world, name)
    runs(world, of("b", 0))
    leaving = runs(world, of("a", 1))
    runs(world, pod("stranger", **CARD))
    shrinks(world, "a", leaving, asked=now(world))
    leave(world, "a-1")
    held = leaving.grant()
    assert held is not None
    for left in (list(held.slices()), []):
        two = Replica(world.api, world.clock, "vgpu-1")
        two.follow()
        assert [*kept(one)] == [*kept(two)] == left
        if left:
            runs(world, of("b", 1))


def test_a_replica_that_stands_by_keeps_the_same(shrunk: World) -> None:
    two = Replica(shrunk.api, shrunk.clock, "vgpu-1")
    two.follow()
    leave(shrunk, "a-1")
    assert kept(two) == kept(shrunk.one)
    runs(shrunk, of("b", 0))
    assert two.view.ledger == shrunk.one.view.ledger


def test_a_pod_that_ended_before_its_record_was_seen_counts_only_at_the_start(shrunk: World) -> None:
    """Else a Job could keep whatever its pods of former times had."""
    ended = shrunk.api.put(structs.replace(shrunk.api.by_name["default", "a-0"], phase="Succeeded"))
    shrinks(shrunk, "a", ended)
    assert shrunk.one.view.promises.slices.statuses() == []
    two = Replica(shrunk.api, shrunk.clock, "vgpu-1")
    two.follow()
    held = ended.grant()
    assert held is not None
    assert kept(two) == tuple(held.slices())


def test_a_record_is_believed_only_at_the_start(shrunk: World) -> None:
    """Later a pod that nobody has seen is none."""
    leave(shrunk, "stranger")
    unseen = Grant("unseen", "n1", {"pod": (Slice("n1-0", HALF, tuple(range(30, 60))),)})
    shrinks(shrunk, "a", grants=[unseen], before=4)
    assert shrunk.one.view.promises.slices.statuses() == []
    two = Replica(shrunk.api, shrunk.clock, "vgpu-1")
    two.follow()
    assert kept(two) == tuple(unseen.slices())


def test_a_card_that_is_away_for_a_time_is_kept_when_it_is_back(shrunk: World) -> None:
    one = shrunk.one
    leave(shrunk, "a-1")
    whole = kept(one)
    shrunk.node("n1", None)
    one.view.node_news.sync(shrunk.api.nodes())
    assert one.view.ledger.node("n1") is None
    shrunk.node("n1", inventory("n1"))
    one.view.node_news.sync(shrunk.api.nodes())
    assert kept(one) == whole
    assert one.ask(shrunk.pod("other")) == ""


def test_a_promise_lasts_two_hours_at_most(shrunk: World) -> None:
    shrinks(shrunk, "a", shrunk.api.by_name["default", "a-1"], until=250_000_000_000.0)
    leave(shrunk, "a-1")
    (status,) = shrunk.one.view.promises.slices.statuses()
    assert status.seconds == 7200.0
    shrunk.one.wait(7201.0)
    shrunk.one.housekeeping.step()
    assert kept(shrunk.one) == ()


@pytest.mark.no_cover
def test_four_thousand_jobs_with_long_texts_leave_nothing_behind(world: World) -> None:
    """What is unreadable is a fault; what is readable promises nothing, as none of these Jobs has pods."""
    one = world.one
    claims = [
        Grant(f"uid-{number}", "n1", {"pod": (Slice("n1-0", 100, (number % 60,)),)}) for number in range(140)
    ]
    long, wrong = record(grants=claims), "[" * (MAX_RECORD + 1)
    jobs = [job(world, f"j{number}", record=wrong if number % 2 else long) for number in range(4000)]
    assert one.view.faults.counts()["resize"] == 2000
    assert one.view.promises.slices.statuses() == []
    assert one.view.ledger.holdings() == {}
    job(world, "b")
    assert one.view.promises.slices.statuses() == []
    for made in jobs:
        world.api.remove_job(made.uid)
    assert one.view.faults.counts()["resize"] == 0


def test_what_a_record_names_is_read_once_the_job_that_it_names_is_there(world: World) -> None:
    one = world.one
    leaving = Grant("uid-x", "n1", {"pod": (Slice("n1-0", 100, (1,)),)})
    giver = job(world, "a", record=record(grants=[leaving, leaving], before=2))
    assert not one.view.faults.standing()
    assert one.view.promises.shrinking() == {giver.uid}
    job(world, "b")
    (fault,) = one.view.faults.standing()
    assert fault.text == "resize: two grants of one pod"
    assert one.view.promises.shrinking() == set(), "it protects nobody from now on"
    job(world, "a", record=record(grants=[leaving], before=2))
    assert not one.view.faults.standing()


def test_at_a_start_no_more_is_read_of_records_than_could_be_promised(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of long ones took 17 s of processor time, under the lock."""
    claims = [Grant(f"uid-{number}", "n1", {"pod": (Slice("n1-0", 100, (1,)),)}) for number in range(90)]
    text = record(grants=claims, before=91)
    for number in range(400):
        job(world, f"j{number}", record=text)
    job(world, "b")
    read, decode = list[str](), Resize.decode

    def counted(text: str, *, grants: bool = True) -> Resize:
        read.extend([text] * grants)
        return decode(text, grants=grants)

    monkeypatch.setattr(Resize, "decode", counted)
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()
    assert MOST_READ <= sum(map(len, read)) < MOST_READ + MAX_RECORD


class Storm:
    """Random events of jobs, pods and time; a stranger never gets what is promised, and nothing is given twice."""

    def __init__(self, seed: int) -> None:
        self.rng, self.world = random.Random(seed), World()
        more_nodes(self.world, "n2")
        self.number = 0
        self.counts: dict[str, int] = {}
        for name in ("a", "b", "c"):
            job(self.world, name)

    def pods(self, *, bound: bool, name: str = "") -> list[Pod]:
        found = self.world.api.by_name.values()
        return [
            made
            for made in found
            if bool(made.node) is bound and (not name or made.owner_uid == f"job-{name}")
        ]

    def create(self) -> None:
        self.number += 1
        name, mem = self.rng.choice(("a", "b", "c", "x")), self.rng.choice((4, 8, 16))
        made = of(name, self.number, mem=mem, cores=mem * 60 // 16)
        self.world.api.put(made if name != "x" else structs.replace(made, owner="", owner_uid=""))

    def ask(self) -> None:
        if waiting := self.pods(bound=False):
            self.world.one.ask(self.rng.choice(waiting))

    def bind(self) -> None:
        reservations = self.world.one.view.ledger.reservations()
        if reservations:
            chosen = self.rng.choice(reservations)
            self.world.one.bind(self.world.api.by_name["default", chosen.pod.name], chosen.node)

    def end(self) -> None:
        if running := self.pods(bound=True):
            self.world.api.end(self.rng.choice(running))

    def vanish(self) -> None:
        if pods := [*self.pods(bound=True), *self.pods(bound=False)]:
            self.world.api.remove(self.rng.choice(pods))

    def shrink(self) -> None:
        giver, taker = self.rng.sample(("a", "b", "c"), 2)
        if leaving := self.pods(bound=True, name=giver)[: self.rng.randint(1, 3)]:
            until = self.world.clock.now + self.rng.randint(5, 60)
            asked = now(self.world)
            replicas = self.rng.choice((0, 0, 4))
            shrinks(self.world, giver, *leaving, job=taker, asked=asked, until=until, replicas=replicas)

    def withdraw(self) -> None:
        job(self.world, self.rng.choice(("a", "b", "c")))

    def time(self) -> None:
        self.world.one.wait(self.rng.choice((1.0, 6.0)))
        self.world.one.turn()

    def step(self) -> None:
        events = {
            self.create: 6, self.ask: 8, self.bind: 6, self.end: 4, self.vanish: 1, self.shrink: 4,
            self.withdraw: 1, self.time: 2,
        }  # fmt: skip
        (event,) = self.rng.choices([*events], [*events.values()])
        before = self.promised()
        event()
        if event == self.ask:
            self.check_not_taken(before)
        self.check()

    def promised(self) -> Mapping[PromiseHolder, tuple[Slice, ...]]:
        held = self.world.one.view.ledger.holdings().items()
        return {
            h: tuple(found.grant.slices())
            for h, found in held
            if isinstance(h, PromiseHolder) and found.grant
        }

    def check_not_taken(self, before: Mapping[PromiseHolder, tuple[Slice, ...]]) -> None:
        """Only pods of the beneficiary have taken of its promise."""
        for holder, slices in before.items():
            for reservation in self.world.one.view.ledger.reservations():
                mine = {(s.card, core) for s in reservation.grant.slices() for core in s.cores}
                if mine & {(s.card, core) for s in slices for core in s.cores}:
                    assert f"job default/{reservation.pod.owner_uid[4:]}" == holder.beneficiary

    def check(self) -> None:
        ledger = self.world.one.view.ledger
        for name in ledger.nodes():
            node = ledger.node(name)
            assert node is not None
            assert not any(card.crowded for card in node.cards), "something is held twice"
        assert self.promised().keys() <= {
            PromiseHolder(status.node, status.beneficiary)
            for status in self.world.one.view.promises.slices.statuses()
        }
        for slices in self.promised().values():
            self.counts["kept"] = self.counts.get("kept", 0) + len(slices)


@pytest.mark.no_cover
def test_whatever_happens_a_promise_is_kept_and_nothing_is_given_twice() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    storm = Storm(seed)
    for _ in range(1500):
        storm.step()
    assert storm.counts["kept"] > 100
    # In the end nothing is left of any promise.
    for name in ("a", "b", "c"):
        storm.world.api.remove_job(f"job-{name}")
    assert storm.promised() == {}
    assert storm.world.one.view.promises.slices.cards() == {"leaving": 0, "kept": 0}


def full_job(world: World) -> list[Pod]:
    """Job `a` with both cards, of a lower priority than anybody; there is a Job `b` too."""
    for name in ("a", "b"):
        job(world, name)
    return [runs(world, of("a", number, priority=-2, **CARD)) for number in range(2)]


def preempting(world: World, priority: int = 10) -> Pod:
    """A pod of this priority that has been refused a card."""
    made = world.api.put(pod("vip", priority=priority, **CARD))
    assert world.one.ask(made) == ""
    return made


def evicted(world: World) -> list[str]:
    return [name for verb, name in world.api.written if verb == "evict"]


def test_no_pod_of_a_job_that_shrinks_is_evicted(world: World) -> None:
    """The job engine makes room by itself, and counts on what stays."""
    one, pods = world.one, full_job(world)
    shrinks(world, "a", pods[1], applied=True)
    vip = preempting(world)
    one.turn()
    assert evicted(world) == []
    assert one.preemption.advise(vip, {"n1": [pods[0].uid]}) == {}
    job(world, "a")
    assert one.preemption.advise(vip, {"n1": [pods[0].uid]}) == {"n1": [pods[0].uid]}


@pytest.mark.parametrize(
    "more", [{}, {"beneficiary": None}, {"priority": 9}], ids=["for a job", "for nobody", "for a lower one"]
)
def test_a_job_that_was_asked_for_a_checkpoint_makes_room_for_a_higher_priority(
    world: World, more: Mapping[str, Any]
) -> None:
    """That may take its program an hour, by its own word."""
    one, pods = world.one, full_job(world)
    shrinks(world, "a", *pods, after=0, until=4600.0, **more)
    vip = preempting(world)
    one.turn()
    (name,) = evicted(world)
    # What it was evicted for counts, though its Job shrinks by now.
    shrinks(world, "a", *pods, after=0, gen=2, applied=True, **more)
    leave(world, name)
    assert [one.ask(world.api.put(of("b", 0, **CARD))), one.ask(vip)] == ["", "n1"]


def test_of_an_evicted_pod_what_it_leaves_for_another_job_is_promised_no_longer(shrunk: World) -> None:
    promises, leaving = shrunk.one.view.promises, shrunk.api.by_name["default", "a-1"]
    promises.withdraw(leaving.uid, shrunk.api.put(of("b", 0)))
    assert promises.slices.statuses(), "it leaves for the job of that pod"
    promises.withdraw(leaving.uid, shrunk.pod("other"))
    assert promises.slices.statuses() == []
    shrinks(shrunk, "a", leaving, gen=2)
    assert promises.slices.statuses() == []


def test_what_a_job_is_asked_to_leave_for_a_job_of_the_same_priority_stays_promised(world: World) -> None:
    one, pods = world.one, full_job(world)
    shrinks(world, "a", pods[0], until=4600.0, priority=10)
    vip = preempting(world)
    assert one.preemption.advise(vip, {"n1": [pods[0].uid]}) == {}
    one.turn()
    assert evicted(world) == ["a-1"], "the other one"


def test_what_is_kept_for_its_job_is_free_for_a_pod_that_preempts(world: World) -> None:
    """Half a card is kept for it, so the pod on the other half is all that must go."""
    one = world.one
    for name in ("a", "b"):
        job(world, name)
    leaving = runs(world, of("a", 1))
    beside = runs(world, pod("beside", priority=5))
    for number in range(2):
        runs(world, pod(f"equal-{number}", priority=10))
    shrinks(world, "a", leaving, applied=True)
    leave(world, "a-1")
    vip = world.api.put(of("b", 0, priority=10, **CARD))
    assert one.preemption.advise(vip, {"n1": [beside.uid]}) == {"n1": [beside.uid]}
    found = one.view.ledger.reservation(vip.uid)
    assert found is not None
    assert {s.card for s in found.grant.slices()} == {
        s.card for s in (leaving.grant() or found.grant).slices()
    }
    assert kept(one) == (), "the nomination has it"
    one.allocator.release(vip.uid)
    assert kept(one)
    assert one.ask(vip) == ""
    one.turn()
    assert [name for verb, name in world.api.written if verb == "evict"] == ["beside"]
    leave(world, "beside")
    assert one.ask(vip) == "n1"


def test_a_pod_that_preempts_waits_for_what_leaves_for_its_job_and_evicts_nobody(shrunk: World) -> None:
    one = shrunk.one
    vip = shrunk.api.put(of("b", 0, priority=10))
    assert one.ask(vip) == ""
    one.turn()
    assert [name for verb, name in shrunk.api.written if verb == "evict"] == []
    leave(shrunk, "a-1")
    assert one.ask(vip) == "n1"
    assert kept(one) == (Slice("n1-1", HALF, tuple(range(30, 60))),)


def test_a_pod_that_preempts_does_not_get_what_leaves_for_another_job(shrunk: World) -> None:
    """Though that pod is being deleted: other pods that end are as good as gone."""
    one, leaving = shrunk.one, shrunk.api.by_name["default", "a-1"]
    shrinks(shrunk, "a", leaving, applied=True)
    shrunk.api.put(structs.replace(leaving, deleting=True))
    vip = shrunk.api.put(pod("vip", priority=10, **CARD))
    assert one.ask(vip) == ""
    assert one.preemption.advise(vip, {"n1": ["uid-stranger"]}) == {}
    one.turn()
    assert one.view.ledger.reservation(vip.uid) is None
    leave(shrunk, "a-1")
    assert kept(one)


def test_a_new_leader_completes_a_gang_with_what_is_kept_for_it(shrunk: World) -> None:
    one = shrunk.one
    leave(shrunk, "a-1")
    labels = {"vgpu.io/group": "g", "vgpu.io/group-size": "2"}
    members = [shrunk.api.put(of("b", number, labels=labels)) for number in range(2)]
    assert placed(one, members) == ["n1", "n1"]
    assert one.bind(members[0]) == ""
    two = Replica(shrunk.api, shrunk.clock, "vgpu-1")
    two.follow()
    assert kept(two)
    two.lead()
    assert two.view.ledger.reservation(members[1].uid) is not None
    assert kept(two) == ()
    assert two.bind(members[1]) == ""


def test_no_moves_are_said_for_a_pod_for_which_slices_are_kept(world: World) -> None:
    """And no pod of a Job that is about to shrink is to move."""
    one = world.one
    for name in ("a", "b", "c"):
        job(world, name)
    small = [
        runs(world, of("c", number, mem=4, cores=15, annotations={"vgpu.io/policy": "spread"}))
        for number in range(2)
    ]
    waiting = [world.pod("whole", **CARD), world.api.put(of("b", 0, **CARD))]
    assert [bool(opening(one.view, one.search(), made, placed_pods(one.view))) for made in waiting] == [
        True,
        True,
    ]
    shrinks(world, "c", small[0], job="a")
    assert [bool(opening(one.view, one.search(), made, placed_pods(one.view))) for made in waiting] == [
        False,
        False,
    ]
    job(world, "c")
    (beside,) = (small[1].grant() or Grant("", "", {})).slices()
    leaving = runs(world, of("a", 1, mem=4, cores=15, annotations={"vgpu.io/card-uuid": beside.card}))
    shrinks(world, "a", leaving, applied=True)
    for name in ("a-1", small[1].name):
        leave(world, name)
    assert kept(one)
    assert [bool(opening(one.view, one.search(), made, placed_pods(one.view))) for made in waiting] == [
        True,
        False,
    ]


def test_what_is_kept_is_no_victim(shrunk: World) -> None:
    shrinks(shrunk, "a", shrunk.api.by_name["default", "a-1"], applied=True, gen=2)
    leave(shrunk, "a-1")
    vip = shrunk.api.put(pod("vip", priority=10, **CARD))
    assert shrunk.one.ask(vip) == ""
    shrunk.one.turn()
    evicted = {name for verb, name in shrunk.api.written if verb == "evict"}
    assert evicted == {"a-0", "stranger"}, "the card where nothing is kept"


def test_a_refused_pod_of_the_job_is_touched_when_its_slices_are_free_and_no_other_is(shrunk: World) -> None:
    one = shrunk.one
    pods = [shrunk.pod("other"), shrunk.api.put(of("b", 0))]
    assert [one.ask(made) for made in pods] == ["", ""]
    shrunk.clock.now += 1.0
    one.touch.step()
    leave(shrunk, "a-1")
    for _ in range(4):
        shrunk.clock.now += 0.25
        one.touch.step()
    assert [name for verb, name in shrunk.api.written if verb == "touch"] == ["b-0"]


def test_a_card_that_is_kept_for_two_jobs_is_counted_once(world: World) -> None:
    one, pairs = world.one, {"a": "b", "c": "d"}
    for name in (*pairs, *pairs.values()):
        job(world, name)
    held = {giver: runs(world, of(giver, 1)) for giver in pairs}
    for giver, beneficiary in pairs.items():
        shrinks(world, giver, held[giver], job=beneficiary)
    cards = one.view.promises.slices.cards
    assert cards() == {"leaving": 1, "kept": 0}
    for made in held.values():
        leave(world, made.name)
    kept_cards = [each.card for name in pairs.values() for each in kept(one, f"job default/{name}")]
    assert kept_cards == ["n1-0", "n1-0"]
    assert cards() == {"leaving": 0, "kept": 1}


def test_people_see_what_is_promised_and_what_is_kept(shrunk: World) -> None:
    one = shrunk.one
    line = "n1 for job default/b: nothing is kept; still used by default/a-1; until 1000 s from now at the latest"
    shrunk.clock.now = 1000.0
    shrinks(shrunk, "a", shrunk.api.by_name["default", "a-1"], gen=2)
    assert f"promises\n  {line}\n" in as_text(one.explainer.view())
    assert one.explainer.view("default/a-1")["promises"] == one.explainer.view()["promises"] != []
    assert values(one.gauges())["vgpu_promised_cards"] == {("leaving",): 1.0, ("kept",): 0.0}
    leave(shrunk, "a-1")
    shrunk.pod("other")
    shrunk.api.put(of("b", 0))
    text = as_text(one.explainer.view())
    assert "n1 for job default/b: 16368 MiB, core groups 0-59 of n1-1; until 1000 s" in text
    assert (
        "default/other: 2 cards: 2 lack memory (largest free 0 MiB); slices are kept for job default/b; "
        in text
    )
    assert "default/b-0: fits on node n1; kube-scheduler has not tried it yet" in text
    assert values(one.gauges())["vgpu_promised_cards"] == {("leaving",): 0.0, ("kept",): 1.0}
