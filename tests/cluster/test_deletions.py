"""Two live grants that overlap: the later-bound pod goes, the earlier one keeps what it was given."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from device_plugin.allocator.explain import as_text
from device_plugin.core.contract.cards import ReportedSlice, SliceState
from device_plugin.core.contract.grants import CardSize
from device_plugin.core.pods import Pod
from device_plugin.kube.api import Kind
from device_plugin.kube.errors import ForbiddenError, UnknownError
from tests.builders.cards import inventory
from tests.builders.pods import grant, with_grant
from tests.cluster.world import Replica, World

EARLY, LATE = "2026-11-21T08:00:00Z", "2026-11-21T08:00:05Z"


def _overlap(world: World) -> tuple[Pod, Pod]:
    """Two pods bound with the same core groups; news of the later one comes first."""
    made = []
    for name, when in (("late", LATE), ("early", EARLY)):
        pod = world.pod(name)
        made.append(world.api.put(with_grant(pod, grant(pod).encode(), bound=when)))
    return made[1], made[0]


def test_the_later_bound_is_deleted_with_an_event_that_names_both(world: World, one: Replica) -> None:
    early, late = _overlap(world)
    one.housekeeping.step()
    assert world.api.written == [("delete", late.name)]
    ((about, text),) = world.api.warnings
    assert about == "late SliceConflict"
    assert "default/early" in text
    assert "default/late" in text
    assert set(one.view.ledger.grants()) == {early.uid}
    one.housekeeping.step()
    assert len(world.api.written) == 1


def test_a_time_of_binding_that_only_the_api_server_knows_is_read(world: World, one: Replica) -> None:
    """What a replica knows of a Binding of its own does not say when it was done."""
    early = world.placed("early")
    held = one.view.ledger.grant(early.uid)
    known = one.view.pods.get(early.uid)
    assert held is not None
    assert known is not None
    assert not known.bound
    late = world.pod("late")
    (taken,) = held.slices()
    world.api.put(
        with_grant(late, grant(late, taken.card, taken.cores).encode(), bound="2026-11-21T23:59:59Z")
    )
    one.housekeeping.step()
    assert ("delete", "late") in world.api.written
    assert set(one.view.ledger.grants()) == {early.uid}


def test_a_replica_that_does_not_lead_does_nothing_until_it_does(world: World) -> None:
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()
    _overlap(world)
    two.housekeeping.step()
    assert (world.api.written, world.api.warnings) == ([], [])
    two.lead()
    two.housekeeping.step()
    assert world.api.written == [("delete", "late")]


def test_only_the_pod_of_that_uid_is_deleted(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A namesake took its place after we looked: it stays, and the slice of the former is free."""
    early, late = _overlap(world)
    delete = world.api.delete

    def raced(kind: Kind[Any], pod: Pod) -> None:
        world.api.by_name["default", "late"] = structs.replace(
            late, uid="uid-namesake", node="", annotations=None
        )
        delete(kind, pod)

    monkeypatch.setattr(world.api, "delete", raced)
    one.housekeeping.step()
    assert world.api.by_name["default", "late"].uid == "uid-namesake"
    one.wait(5)
    one.housekeeping.step()
    assert set(one.view.ledger.grants()) == {early.uid}


def test_an_overlap_that_ended_meanwhile_harms_nobody(world: World, one: Replica) -> None:
    early, _ = _overlap(world)
    world.api.by_name["default", "early"] = structs.replace(early, phase="Succeeded")
    one.housekeeping.step()
    assert world.api.written == []


def test_a_pod_that_goes_already_is_not_deleted_again(world: World, one: Replica) -> None:
    _, late = _overlap(world)
    world.api.put(structs.replace(late, deleting=True))
    one.housekeeping.step()
    assert (world.api.written, world.api.warnings) == ([], [])


def test_an_unreachable_api_server_is_asked_again_and_the_event_not_repeated(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    _overlap(world)

    def fail(*_: object) -> None:
        raise UnknownError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(world.api, "delete", fail)
        one.housekeeping.step()
        one.housekeeping.step()
    one.housekeeping.step()
    assert world.api.written == [("delete", "late")]
    assert len(world.api.warnings) == 1


def test_all_who_must_go_are_deleted_before_any_event_and_however_events_fail(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota on events refuses them for as long as the namespace has it."""
    _overlap(world)
    loose = world.placed("loose")
    held = one.view.ledger.grant(loose.uid)
    assert held is not None
    state = SliceState.UNENFORCED
    reported = ReportedSlice(loose.uid, "default", "loose", "main", state, tuple(held.slices()), end=True)
    world.node("n1", replace(inventory("n1"), slices=(reported,)))
    one.view.node_news.sync(world.api.nodes())
    asked: list[str] = []

    def refused(_: Kind[Any], of: Pod, reason: str, *__: object, **___: object) -> None:
        asked.append(f"{of.name} {reason}")
        assert [name for verb, name in world.api.written if verb == "delete"] == ["late", "loose"]
        raise ForbiddenError("exceeded quota: team, requested: count/events=1")

    monkeypatch.setattr(world.api, "post_event", refused)
    for _ in range(3):
        one.housekeeping.step()
    assert [name for verb, name in world.api.written if verb == "delete"] == ["late", "loose"]
    assert asked == ["late SliceConflict", "loose UnenforcedPodDeleted"]


def test_a_void_grant_over_an_innocent_pods_slice_deletes_nobody(world: World, one: Replica) -> None:
    """Forged: it carries the innocent pod's own grant, whose uid is not the forger's."""
    innocent = world.placed("innocent")
    forger = world.pod("forger")
    held = one.view.ledger.grant(innocent.uid)
    assert held is not None
    world.api.written.clear()
    world.api.put(with_grant(forger, held.encode(), bound=EARLY))
    one.housekeeping.step()
    assert world.api.written == []
    assert one.view.ledger.grant(innocent.uid) == held
    assert one.view.faults.counts()["grant"] == 1


def _change_card(world: World, **shape: int) -> None:
    """The one card of n1 reports other figures."""
    world.node("n1", inventory("n1", 1, **shape))
    for replica in world.api.watchers:
        assert isinstance(replica, Replica)
        replica.view.node_news.sync(world.api.nodes())


@pytest.mark.parametrize(
    "less", [{"mem_mib": 16352}, {"slices": 1}, {"groups": 56}], ids=lambda less: next(iter(less))
)
def test_nobody_is_deleted_because_a_card_reports_less(world: World, less: dict[str, int]) -> None:
    """Neither by the replica that saw it shrink, nor by one that starts afterwards, to which every grant is new."""
    _change_card(world)
    two = [world.placed("a"), world.placed("b")]
    _change_card(world, **less)
    fresh = Replica(world.api, world.clock, "vgpu-1")
    fresh.follow()
    world.one.housekeeping.step()
    fresh.lead()
    fresh.housekeeping.step()
    assert [write for write in world.api.written if write[0] != "bind"] == []
    assert set(fresh.view.ledger.grants()) == {pod.uid for pod in two}
    assert fresh.view.ledger == world.one.view.ledger
    assert "reports less than was granted of it" in as_text(fresh.explainer.view())
    waiting = world.pod("waiting", 1, 1)
    assert fresh.ask(waiting) == ""
    (entry,) = fresh.explainer.waiting()
    assert entry.reason == "short"


def test_two_grants_that_no_size_of_their_card_explains_are_a_conflict(world: World, one: Replica) -> None:
    """Two leaders at once: both found the same 12 GiB free, with core groups apart."""
    made = []
    for name, when, cores in (("late", LATE, range(30)), ("early", EARLY, range(30, 60))):
        pod = world.pod(name, 12, 30)
        given = structs.replace(grant(pod, cores=cores, mem=12276), cards={"n1-0": CardSize(16368, 4)})
        made.append(world.api.put(with_grant(pod, given.encode(), bound=when)))
    one.housekeeping.step()
    assert world.api.written == [("delete", "late")]


def test_a_reservation_on_a_card_that_shrank_is_made_anew_when_it_is_bound(
    world: World, one: Replica
) -> None:
    pod = world.pod("whole", 16, 60)
    assert one.ask(pod) == "n1"
    _change_card(world, mem_mib=16352)
    assert one.bind(pod) == ""
    bound = world.api.by_name["default", "whole"].grant()
    assert bound is not None
    assert [s.mem_mib for s in bound.slices()] == [16352], "the grant is for the card as it is now"


# Somebody writes that a pod has ended whose container runs; its slice is granted again.


@pytest.fixture
def forged(world: World) -> World:
    """`victim` runs on one of two cards, `other` on the other; its end is forged, and `newcomer` gets its slice."""
    for name in ("victim", "other"):
        made = world.pod(name, 16, 60)
        assert world.one.bind(made, world.one.ask(made)) == ""
        run(world, name)
    now(world, "victim", phase="Failed")
    made = world.pod("newcomer", 16, 60)
    assert world.one.bind(made, world.one.ask(made)) == ""
    assert card_of(world, "newcomer") == card_of(world, "victim")
    world.api.written.clear()
    return world


def now(world: World, name: str, **changed: Any) -> Pod:
    """The pod is so from now on, and each replica hears of it."""
    return world.api.put(structs.replace(world.api.by_name["default", name], **changed))


def run(world: World, name: str) -> None:
    now(world, name, phase="Running")


def card_of(world: World, name: str) -> str:
    held = world.api.by_name["default", name].grant()
    assert held is not None
    return next(iter(held.slices())).card


def publish(world: World, **states: SliceState) -> None:
    """The agent of n1 reports these pods."""
    reports = []
    for name, state in states.items():
        reported = world.api.by_name["default", name]
        held = reported.grant()
        assert held is not None
        end = state is SliceState.REFUSED
        reports.append(
            ReportedSlice(reported.uid, "default", name, "main", state, tuple(held.slices()), end=end)
        )
    world.node("n1", replace(inventory("n1"), slices=tuple(reports)))
    for replica in world.api.watchers:
        assert isinstance(replica, Replica)
        replica.view.node_news.sync(world.api.nodes())


def next_leader(world: World) -> Replica:
    """A process that starts now, and leads."""
    made = Replica(world.api, world.clock, "vgpu-1")
    made.follow()
    made.lead()
    return made


def deleted(world: World) -> list[str]:
    return [name for verb, name in world.api.written if verb == "delete"]


@pytest.mark.parametrize("restarted", [False, True], ids=["same leader", "next leader"])
@pytest.mark.parametrize("bound", [None, ""], ids=["bound first", "time of binding lost"])
def test_where_a_forged_end_is_taken_back_the_newcomer_goes_and_whoever_runs_stays(
    forged: World, restarted: bool, bound: str | None
) -> None:
    """The kubelet writes again that it runs; conditions that were lost with the status do not tell who came first."""
    victim = forged.api.by_name["default", "victim"]
    now(forged, "victim", phase="Running", bound=victim.bound if bound is None else bound)
    leader = next_leader(forged) if restarted else forged.one
    leader.housekeeping.step()
    assert deleted(forged) == ["newcomer"]
    ((about, text),) = forged.api.warnings
    assert about == "newcomer SliceConflict"
    assert text.endswith("default/newcomer does not run and is deleted")
    assert {forged.api.by_name["default", name].uid for name in ("victim", "other")} == set(
        leader.view.ledger.grants()
    )
    again = forged.pod("again", 16, 60)
    assert leader.ask(again) == "", "both cards are in use"
    for _ in range(5):
        leader.wait(10)
        leader.housekeeping.step()
    assert deleted(forged) == ["newcomer"]


@pytest.mark.parametrize("restarted", [False, True], ids=["same leader", "next leader"])
def test_the_agents_report_ends_the_newcomer_where_the_forged_end_stays(
    forged: World, restarted: bool
) -> None:
    publish(forged, victim=SliceState.OUTLIVING)
    leader = next_leader(forged) if restarted else forged.one
    leader.housekeeping.step()
    assert deleted(forged) == [], "most containers that outlive their pod end within seconds"
    publish(forged, victim=SliceState.OUTLIVING, newcomer=SliceState.REFUSED)
    leader.housekeeping.step()
    assert deleted(forged) == ["newcomer"]
    ((about, text),) = forged.api.warnings
    assert about == "newcomer SliceConflict"
    assert "container main cannot start on n1, because default/victim still runs on its slice" in text
    publish(forged, victim=SliceState.OUTLIVING)
    assert leader.ask(forged.pod("again", 16, 60)) == ""


def test_of_two_pods_that_run_by_their_status_only_the_agent_tells_which_does(forged: World) -> None:
    """One status is forged: that of a newcomer that waits, or that of a victim that has really ended."""
    run(forged, "newcomer")
    run(forged, "victim")
    for leader in (forged.one, next_leader(forged)):
        leader.housekeeping.step()
        assert deleted(forged) == []
    publish(forged, newcomer=SliceState.REFUSED)
    leader.housekeeping.step()
    assert deleted(forged) == ["newcomer"]


def test_where_neither_runs_and_a_time_of_binding_is_lost_the_agent_decides(forged: World) -> None:
    """A whole status was replaced: the container of the victim runs all the same."""
    now(forged, "victim", phase="Pending", bound="")
    for leader in (forged.one, next_leader(forged)):
        leader.housekeeping.step()
        assert deleted(forged) == []
    publish(forged, newcomer=SliceState.REFUSED)
    leader.housekeeping.step()
    assert deleted(forged) == ["newcomer"]


def test_a_pod_that_ended_and_is_said_to_be_pending_again_ends_nobody_who_runs(forged: World) -> None:
    run(forged, "newcomer")
    now(forged, "victim", phase="Pending")
    next_leader(forged).housekeeping.step()
    assert deleted(forged) == ["victim"]
