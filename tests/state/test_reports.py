"""Slices outlive their pod: whoever was force-deleted keeps what its processes hold, and nobody is placed there."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from device_plugin.allocator.explain import as_text
from device_plugin.core.contract.cards import REPORT_SECONDS, Inventory, ReportedSlice, SliceState
from device_plugin.core.contract.grants import Slice
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import ReportHolder
from device_plugin.core.pods import Pod
from device_plugin.kube.errors import UnknownError
from device_plugin.state.reports import CHANGE_SECONDS, CHANGES
from tests.builders.cards import inventory
from tests.builders.pods import HALF
from tests.cluster.world import Replica, World

ALL = 16368


def report(pod: Pod, state: SliceState = SliceState.OUTLIVING) -> ReportedSlice:
    grant = pod.grant()
    assert grant is not None
    return ReportedSlice(pod.uid, pod.namespace, pod.name, "main", state, grant.containers["main"])


def says(world: World, reports: Sequence[ReportedSlice], cards: int = 2) -> None:
    """The agent of n1 publishes these reports."""
    world.node("n1", Inventory(inventory("n1", cards).cards, slices=tuple(reports)))
    for replica in world.api.watchers:
        assert isinstance(replica, Replica)
        replica.view.node_news.sync(world.api.nodes())


def card_of(world: World, name: str) -> str:
    grant = world.api.by_name["default", name].grant()
    assert grant is not None
    (slice_,) = grant.slices()
    return slice_.card


def test_a_plain_end_frees_at_once(world: World, one: Replica) -> None:
    world.api.end(world.placed("a"))
    assert one.free() == [ALL, ALL]


def test_a_vanished_pod_stays_held_until_its_agent_could_have_spoken(world: World, one: Replica) -> None:
    old = world.placed("old")
    world.api.remove(old)
    assert one.free() == [ALL - HALF, ALL]
    one.wait(REPORT_SECONDS - 1.5)
    one.turn()
    assert one.free() == [ALL - HALF, ALL]
    one.wait(1.0)
    one.turn()
    assert one.free() == [ALL, ALL], "it is free within 5 s, and somebody looks once a second"


def test_so_does_one_of_which_nobody_knows_whether_it_was_bound(world: World, one: Replica) -> None:
    made = world.pod("old")
    node = one.ask(made)

    def lost(*_: object) -> None:
        world.api.away = True
        raise UnknownError("no answer")

    world.api.on_bind = lost
    assert one.bind(made, node)
    world.api.away = False
    del world.api.by_name["default", "old"]
    one.binder.settle()
    assert one.free() == [ALL - HALF, ALL]
    one.wait(REPORT_SECONDS)
    one.turn()
    assert one.free() == [ALL, ALL]


def test_nobody_is_placed_where_an_ended_pods_processes_run(world: World, one: Replica) -> None:
    old = world.placed("old")
    world.api.remove(old)
    says(world, [report(old)])
    one.wait(3600)
    one.turn()
    assert one.free() == [ALL - HALF, ALL]
    whole = world.pod("whole", 16, 60)
    assert one.bind(whole, one.ask(whole)) == ""
    assert card_of(world, "whole") != card_of_old(old)
    waiting = world.pod("waiting", 16, 60)
    answer = one.filter(waiting, ["n1"])
    assert answer.hopeless["n1"].endswith(
        "(slices of ended pod default/old still run on n1: its processes have not ended)"
    )
    (entry,) = one.explainer.waiting()
    assert "slices of ended pod default/old still run on n1" in entry.text
    assert (
        "default/old main: 8184 MiB, core groups 0-29 (its pod has ended, its processes have not)"
        in as_text(one.explainer.view())
    )
    says(world, [])
    assert one.free() == [ALL, 0], "the agent names it no more: it is free at once"
    assert one.ask(waiting) == "n1"


def card_of_old(pod: Pod) -> str:
    return report(pod).slices[0].card


def test_what_the_text_says_does_not_depend_on_how_many_there_are(world: World, one: Replica) -> None:
    """A tenant may leave any number behind."""
    pods = [world.pod(f"old-{i}", 1, 1) for i in range(8)]
    for pod in pods:
        assert one.bind(pod, one.ask(pod)) == ""
    bound = [world.api.by_name["default", pod.name] for pod in pods]
    for pod in bound:
        world.api.remove(pod)
    says(world, [report(pod) for pod in bound])
    text = one.filter(world.pod("w", 16, 60), ["n1"]).hopeless["n1"]
    assert "ended pods default/old-0, default/old-1, default/old-2, and others still run on n1" in text


def test_an_ended_pod_whose_process_runs_is_held_too(world: World, one: Replica) -> None:
    old = world.placed("old")
    ended = world.api.put(structs.replace(old, phase="Failed"))
    assert one.free() == [ALL, ALL]
    says(world, [report(old)])
    assert one.free() == [ALL - HALF, ALL]
    world.api.remove(ended)
    assert one.free() == [ALL - HALF, ALL]
    says(world, [])
    assert one.free() == [ALL, ALL]


def test_a_report_of_a_pod_that_lives_changes_nothing_until_it_ends(world: World, one: Replica) -> None:
    old = world.placed("old")
    says(world, [replace(report(old), slices=(structs.replace(report(old).slices[0], mem_mib=1000),))])
    assert one.free() == [ALL - HALF, ALL]
    world.api.end(old)
    assert one.free() == [ALL - 1000, ALL]


def test_slices_that_are_reported_again_are_held_again_and_nobody_is_deleted(
    world: World, one: Replica
) -> None:
    old = world.placed("old")
    world.api.remove(old)
    says(world, [report(old)])
    says(world, [])
    new = world.placed("new")
    assert card_of(world, "new") == card_of_old(old)
    says(world, [report(old)])
    one.wait(10)
    one.turn()
    assert set(one.view.ledger.grants()) == {ReportHolder("n1", old.uid), new.uid}
    assert [write for write in world.api.written if write[0] != "bind"] == []


def test_a_reservation_in_the_way_is_made_anew_on_another_card(world: World, one: Replica) -> None:
    old = world.placed("old")
    world.api.end(old)
    waiting = world.pod("waiting", 16, 60)
    assert one.ask(waiting) == "n1"
    held = one.view.ledger.grant(waiting.uid)
    assert held is not None
    assert next(held.slices()).card == card_of_old(old)
    says(world, [report(old)])
    assert one.bind(waiting) == ""
    assert card_of(world, "waiting") != card_of_old(old)


def test_a_replica_that_starts_anew_holds_what_is_reported(world: World, one: Replica) -> None:
    old = world.placed("old")
    world.api.remove(old)
    says(world, [report(old)])
    fresh = Replica(world.api, world.clock, "vgpu-1")
    fresh.follow()
    assert fresh.free() == [ALL - HALF, ALL]
    assert fresh.view.ledger == one.view.ledger


def test_a_node_that_is_gone_holds_nothing_and_one_that_returns_does(world: World, one: Replica) -> None:
    old = world.placed("old")
    world.api.remove(old)
    says(world, [report(old)])
    one.view.node_news.gone("n1")
    assert one.view.ledger.grants() == {}
    one.view.node_news.sync(world.api.nodes())
    assert one.free() == [ALL - HALF, ALL]


def of_n2(pod: Pod) -> ReportedSlice:
    """What n2 says of a pod that runs, or ran, on n1: it holds a slice of a card of n2."""
    return replace(report(pod), slices=(Slice("n2-0", 1000, (0,)),))


def n2_says(world: World, *reports: ReportedSlice) -> None:
    world.node("n2", Inventory(inventory("n2").cards, slices=reports))
    world.one.view.node_news.sync(world.api.nodes())


def test_an_agent_is_believed_of_its_own_node_only(world: World, one: Replica) -> None:
    """It names a pod of n1, and then does so no more: what that pod left behind on n1 stays held."""
    old = world.placed("old")
    n2_says(world, of_n2(old))
    world.api.remove(old)
    assert one.free("n1") == [ALL - HALF, ALL], "its own agent may still speak"
    says(world, [report(old)])
    one.wait(3600)
    one.turn()
    assert (one.free("n1"), one.free("n2")) == ([ALL - HALF, ALL], [ALL - 1000, ALL])
    n2_says(world)
    assert (one.free("n1"), one.free("n2")) == ([ALL - HALF, ALL], [ALL, ALL])
    says(world, [])
    assert one.free("n1") == [ALL, ALL]


def test_an_agent_cannot_name_what_another_node_holds(world: World, one: Replica) -> None:
    """Whatever text it writes as the UID of a pod, it is a pod's of its own node, and its inventory counts."""
    old = world.placed("old")
    says(world, [report(old)])
    world.api.remove(old)
    assert one.free("n1") == [ALL - HALF, ALL]
    n2_says(world, replace(of_n2(old), pod=f"{old.uid}@n1"))
    assert (one.free("n1"), one.free("n2")) == ([ALL - HALF, ALL], [ALL - 1000, ALL])
    assert one.view.faults.keys("inventory") == set()
    n2_says(world)
    assert (one.free("n1"), one.free("n2")) == ([ALL - HALF, ALL], [ALL, ALL])


@pytest.mark.parametrize("seed", range(4))
def test_what_a_node_holds_depends_on_its_own_reports_whatever_uids_they_name(seed: int) -> None:
    rng, world = random.Random(seed), World()
    one = world.one
    gone, ended, lives = (world.placed(name) for name in ("gone", "ended", "lives"))
    world.api.remove(gone)
    world.api.end(ended)
    one.wait(REPORT_SECONDS)
    one.turn()
    uids = [gone.uid, ended.uid, lives.uid, "stranger"]
    uids += [f"{uid}{mark}{node}" for uid in uids[:2] for node in ("n1", "n2") for mark in "@/"]
    uids += [f"n2{mark}{uid}" for uid in uids for mark in "@/"] + [str(ReportHolder("n1", gone.uid))]
    for _ in range(60):
        before = one.free("n1")
        named = rng.sample(uids, rng.randint(0, 4))
        n2_says(world, *(
            replace(of_n2(gone), pod=uid, slices=(Slice("n2-0", 1000, (core,)),)) for core, uid in enumerate(named)
        ))  # fmt: skip
        assert one.free("n2") == [ALL - 1000 * len(named), ALL], named
        assert one.free("n1") == before
        if rng.random() < 0.5:
            says(world, rng.sample([report(gone), report(ended)], rng.randint(0, 2)))
        fresh = Replica(world.api, world.clock, "vgpu-1")
        fresh.follow()
        world.api.watchers.remove(fresh)
        assert fresh.view.ledger == one.view.ledger


def test_an_agent_takes_no_cpu_from_what_runs_on_other_nodes(world: World, one: Replica) -> None:
    """A pod without slices is known by its host amounts only."""
    plain = Pod("default", "plain", "uid-plain", node="n1", host=HostAmounts(1500))
    world.api.put(plain)
    one.view.pod_news.see(plain, watched=True)
    n2_says(world, replace(of_n2(world.placed("old")), pod=plain.uid))
    held = one.view.ledger.holding(plain.uid)
    assert held is not None
    assert (held.node, held.host) == ("n1", HostAmounts(1500))


@pytest.mark.parametrize("first", ["n1", "n2"])
def test_a_replica_that_starts_anew_believes_each_agent_of_its_own_node(
    world: World, one: Replica, first: str
) -> None:
    old = world.placed("old")
    n2_says(world, of_n2(old))
    world.api.remove(old)
    says(world, [report(old)])
    fresh = Replica(world.api, world.clock, "vgpu-1")
    for node in sorted(world.api.nodes(), key=lambda node: node.name != first):
        fresh.view.node_news.see(node)
    fresh.follow()
    assert (fresh.free("n1"), fresh.free("n2")) == ([ALL - HALF, ALL], [ALL - 1000, ALL])
    assert fresh.view.ledger == one.view.ledger


def test_a_pod_that_vanishes_while_another_node_names_it_is_free_in_time(world: World, one: Replica) -> None:
    old = world.placed("old")
    n2_says(world, of_n2(old))
    world.api.remove(old)
    one.wait(REPORT_SECONDS)
    one.turn()
    assert (one.free("n1"), one.free("n2")) == ([ALL, ALL], [ALL - 1000, ALL])


@pytest.mark.parametrize("spoken", [True, False])
def test_an_agent_that_is_down_holds_up_nobody_for_long(world: World, one: Replica, *, spoken: bool) -> None:
    """Reported slices are held until the agent is back; slices that it did not report, for some seconds."""
    old = world.placed("old")
    world.api.remove(old)
    reports = [report(old)] if spoken else []
    world.node("n1", Inventory(inventory("n1").cards, serving=False, slices=tuple(reports)))
    one.view.node_news.sync(world.api.nodes())
    one.wait(REPORT_SECONDS)
    one.turn()
    assert one.free()[0] == (ALL - HALF if spoken else ALL)


@pytest.mark.parametrize("setting", ["report", "delete"])
def test_a_pod_whose_files_are_covered_is_deleted_if_so_set(world: World, one: Replica, setting: str) -> None:
    covered, other = world.placed("covered"), world.placed("other")
    leader = Replica(world.api, world.clock, "vgpu-1", setting)
    leader.follow()
    says(world, [report(covered, SliceState.COVERED)])
    one.housekeeping.step()
    assert world.api.warnings == [], "it does not lead any more"
    leader.lead()
    for _ in range(3):
        leader.housekeeping.step()
    deleted = [name for verb, name in world.api.written if verb == "delete"]
    if setting == "report":
        assert (deleted, world.api.warnings) == ([], [])
        assert "(something covers the files that limit it)" in as_text(leader.explainer.view())
        return
    assert deleted == ["covered"]
    ((about, text),) = world.api.warnings
    assert about == "covered CoveredPodDeleted"
    assert text.startswith("something covers the files that limit container main on n1")
    assert set(leader.view.ledger.grants()) == {other.uid}


@pytest.mark.parametrize("end", [False, True])
def test_a_pod_that_uses_its_card_past_the_library_is_deleted_if_its_agent_says_so(
    world: World, one: Replica, end: bool
) -> None:
    loose, other = world.placed("loose"), world.placed("other")
    one.lead()
    says(world, [replace(report(loose, SliceState.UNENFORCED), end=end)])
    for _ in range(3):
        one.housekeeping.step()
    deleted = [name for verb, name in world.api.written if verb == "delete"]
    if not end:
        assert (deleted, world.api.warnings) == ([], [])
        assert "(bypasses the library that limits it)" in as_text(one.explainer.view())
        return
    assert deleted == ["loose"]
    ((about, text),) = world.api.warnings
    assert about == "loose UnenforcedPodDeleted"
    assert "container main uses its card on n1 and bypasses the library" in text
    assert set(one.view.ledger.grants()) == {other.uid}


def test_a_node_accuses_only_pods_of_its_own(world: World) -> None:
    """Whatever a node writes into its inventory, no other node's pods are deleted for it."""
    covered = world.placed("covered")
    accused = report(covered, SliceState.COVERED), replace(report(covered, SliceState.UNENFORCED), end=True)
    world.node("n2", Inventory((), slices=(replace(accused[0], container="other"), accused[1])))
    leader = Replica(world.api, world.clock, "vgpu-1", "delete")
    leader.follow()
    leader.lead()
    leader.housekeeping.step()
    assert ("delete", "covered") not in world.api.written


def of_model(name: str, *, healthy: bool = True, reports: Sequence[ReportedSlice] = ()) -> Inventory:
    """The cards of n2 are of this model; one of them may be sick."""
    first, second = (structs.replace(card, model=name) for card in inventory("n2").cards)
    return Inventory((structs.replace(first, healthy=healthy), second), slices=tuple(reports))


def shows(world: World, cards: Inventory | None) -> None:
    world.node("n2", cards)
    world.one.view.node_news.see(world.api.by_node["n2"])


def test_cards_that_change_all_the_time_are_laid_out_anew_a_few_times_only(
    world: World, one: Replica
) -> None:
    """An agent writes another inventory four times a second, or takes it back."""
    layouts, told = set(), []
    for number in range(4 * 60):
        shows(world, of_model(f"model-{number}") if number % 3 else None)
        layouts.add(one.allocator.placer.supply())
        told.append(one.ask(world.pod(f"p-{number}", 1, 1), "n2"))
        world.clock.now += 0.25
        one.renew()
        one.turn()
    assert len(layouts) <= CHANGES + 60 / CHANGE_SECONDS + 1
    assert one.view.faults.counts()["inventory"] == 1
    assert told[-20:] == [""] * 20, "it gets nothing new"
    shows(world, of_model("last"))
    one.wait(CHANGES * CHANGE_SECONDS)
    one.turn()
    assert one.ask(world.pod("after", 1, 1, annotations={"vgpu.io/card-model": "last"})) == "n2"
    assert one.view.faults.counts()["inventory"] == 0


def test_health_and_reports_count_at_once_however_often_cards_change(world: World, one: Replica) -> None:
    old = world.placed("old")
    for number in range(2 * CHANGES):
        shows(world, of_model(f"model-{number}"))
    shows(
        world,
        of_model("another", reports=[replace(report(old), pod="gone", slices=(Slice("n2-0", 1000, (0,)),))]),
    )
    assert one.free("n2") == [ALL - 1000, ALL]
    one.wait(CHANGES * CHANGE_SECONDS)
    one.turn()
    for healthy in (False, True) * CHANGES:
        shows(world, of_model("another", healthy=healthy))
        assert one.ask(world.pod(f"{healthy}", 1, 1, annotations={"vgpu.io/card-uuid": "n2-0"})) == (
            "n2" if healthy else ""
        )


def test_a_node_that_says_nothing_new_wakes_nobody(world: World, one: Replica) -> None:
    news = one.allocator.news()
    one.view.node_news.sync(world.api.nodes())
    assert one.allocator.news() == news
