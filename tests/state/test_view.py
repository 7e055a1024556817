"""What is known moves only forward, and nothing that anybody writes into an annotation moves the ledger wrongly."""

import itertools
import json
import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from pytest_mock import MockerFixture

from device_plugin.allocator.explain import as_text
from device_plugin.core.contract.cards import REPORT_SECONDS, Card, Inventory, ReportedSlice, SliceState
from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import RequestError
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Reservation
from device_plugin.core.placement import Refused
from device_plugin.core.pods import Node, Pod
from device_plugin.core.requests import DEFAULT_PREFIXES, PodRequest, pod_request
from device_plugin.state.news import BATCH
from device_plugin.state.view import ClusterView
from tests.builders.batch_jobs import queued_job
from tests.builders.cards import FAMILY, inventory
from tests.builders.pods import grant as slice_of
from tests.builders.pods import pod, with_grant
from tests.cluster.world import Clock, Memory, Replica, World

ALL, QUARTER = 16368, 4092


def node(name: str = "n1", cards: int = 1) -> Node:
    return Node(name, inventory(name, cards).encode())


def grant(made: Pod, card: str = "n1-0", cores: Sequence[int] = (0,)) -> Grant:
    return slice_of(made, card, cores, QUARTER)


def bound(made: Pod, held: Grant) -> Pod:
    return with_grant(made, held.encode(), held.node, "")


def altered(made: Pod, **fields: object) -> Pod:
    """The pod bound with its grant's JSON changed."""
    return with_grant(made, json.dumps({**json.loads(grant(made).encode()), **fields}))


def state_of(*nodes: Node, clock: Clock | None = None) -> Memory:
    made = Memory(clock or Clock())
    made.view.node_news.sync(nodes or (node(),))
    made.view.pod_news.sync(())
    return made


def free(view: ClusterView) -> int:
    found = view.ledger.node("n1")
    assert found is not None
    return found.cards[0].free_mib


def request_of(state: Memory, made: Pod) -> PodRequest:
    found = state.view.pods.request_of(made)
    assert found is not None
    return found


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_news_of_a_pod_may_come_in_any_order(order: tuple[int, ...]) -> None:
    """The unbound pod, the binding as we know it ourselves, the binding as the watch shows it."""
    a = pod("a")
    held = bound(a, grant(a))
    news = [(a, True), (held, False), (structs.replace(held, bound="2026-01-01T00:00:00Z"), True)]
    state = state_of()
    for i in order:
        state.view.pod_news.see(news[i][0], watched=news[i][1])
    assert state.view.ledger.grant(a.uid) == grant(a)


class Turns:
    """A lock that counts what is done each time that it is held."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self.done: list[int] = []

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1:
            self.done.append(0)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        self._lock.release()

    def counted(self, call: Callable[..., object]) -> Callable[..., object]:
        """The call, which is made only with the lock held."""

        def made(*args: Any, **named: Any) -> object:
            assert self._depth, "the lock is not held"
            self.done[-1] += 1
            return call(*args, **named)

        return made


def test_others_can_have_the_lock_while_a_list_is_taken(mocker: MockerFixture) -> None:
    """A list of all pods takes seconds, and no /filter waits for the whole of it."""
    view, turns = ClusterView(DEFAULT_PREFIXES, Clock()), Turns()
    for news in (view.pod_news, view.node_news, view.job_news):
        mocker.patch.object(news, "_lock", turns)
    for owner, name in (
        (view.pods, "see"),
        (view.pods, "forget"),
        (view.ledger, "set_node"),
        (view.ledger, "drop_node"),
        (view.promises, "see_job"),
        (view.promises, "forget_job"),
    ):
        mocker.patch.object(owner, name, side_effect=turns.counted(getattr(owner, name)))
    pods = [pod(f"p{number}") for number in range(3 * BATCH + 1)]
    nodes = [node(f"n{number}") for number in range(2 * BATCH)]
    jobs = [queued_job(f"{number}") for number in range(2 * BATCH + 1)]
    for listed in (nodes, ()):
        view.node_news.sync(listed)
    for shown in (pods, ()):
        view.pod_news.sync(shown)
    for queued in (jobs, ()):
        view.job_news.sync(queued)
    assert sum(turns.done) == 2 * (len(nodes) + len(pods) + len(jobs))
    assert max(turns.done) == BATCH
    assert view.pods.all() == []


def test_a_request_is_read_once_while_its_pod_is_unbound_and_again_where_it_is_shown_otherwise() -> None:
    a, view = pod("a"), state_of().view
    view.pod_news.see(a, watched=True)
    found = view.pods.request_of(a)
    assert view.pods.request_of(pod("a", nominated="n1")) is found
    view.pod_news.see(structs.replace(a, refused=7), watched=True)
    assert view.pods.request_of(a) is found
    for other in (
        structs.replace(a, annotations={"vgpu.io/policy": "spread"}),
        structs.replace(a, labels={"vgpu.io/group": "g", "vgpu.io/group-size": "2"}),
        structs.replace(a, containers=pod("a", 9).containers),
        structs.replace(a, host=HostAmounts(1, 1)),
    ):
        assert view.pods.request_of(other) == pod_request(other, DEFAULT_PREFIXES) != found
        view.pod_news.see(other, watched=True)
        assert view.pods.request_of(other) is view.pods.request_of(structs.replace(other, priority=1))
    with pytest.raises(RequestError):
        view.pods.request_of(structs.replace(a, annotations={"vgpu.io/policy": "x" * 64}))
    view.pod_news.see(bound(a, grant(a)), watched=True)
    assert view.pods.request_of(a) == found
    assert view.pods.request_of(a) is not found


@pytest.mark.parametrize("cores", [(0,), (7,)])
def test_what_is_written_counts_and_not_what_was_reserved(cores: tuple[int, ...]) -> None:
    a, state = pod("a"), state_of()
    assert isinstance(state.allocator.reserve(a, request_of(state, a), ("n1",)), Reservation)
    written = grant(a, cores=cores)
    state.view.pod_news.see(bound(a, written), watched=True)
    assert state.view.ledger.grant(a.uid) == written
    again = pod("b")
    state.allocator.reserve(again, request_of(state, again), ("n1",))
    state.view.pod_news.see(with_grant(again, "{", "n1", ""), watched=True)
    assert state.view.ledger.grant(again.uid) is None


def test_a_terminal_phase_frees_the_slice_and_a_deletion_mark_does_not() -> None:
    a = pod("a")
    state = state_of()
    held = bound(a, grant(a))
    state.view.pod_news.see(structs.replace(held, deleting=True), watched=True)
    assert free(state.view) == ALL - QUARTER
    state.view.pod_news.see(structs.replace(held, deleting=True, phase="Failed"), watched=True)
    assert free(state.view) == ALL
    state.view.pod_news.see(held, watched=False)
    assert free(state.view) == ALL, "old news brought an ended pod back"


def test_the_watch_alone_takes_an_end_back() -> None:
    """Its news is in order: somebody has forged the end, and the kubelet has written again that it runs."""
    a, state = pod("a"), state_of()
    held = structs.replace(bound(a, grant(a)), phase="Running")
    for phase, left in (("Running", ALL - QUARTER), ("Failed", ALL), ("Running", ALL - QUARTER)):
        state.view.pod_news.see(structs.replace(held, phase=phase), watched=True)
        assert free(state.view) == left
    assert state.view.ledger.grants() == {a.uid: grant(a)}


ENDS: Mapping[str, Callable[[ClusterView, Pod], None]] = {
    "terminal phase": lambda view, pod: view.pod_news.see(
        structs.replace(pod, phase="Succeeded"), watched=True
    ),
    "deleted, and seen to end": lambda view, pod: view.pod_news.gone(pod.uid, ended=True),
    "not in the list": lambda view, _: view.pod_news.sync(()),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("slices", [True, False], ids=["slices", "only its host"])
def test_whatever_a_pod_holds_ends_in_one_way(
    end: Callable[[ClusterView, Pod], None], *, slices: bool
) -> None:
    """Without a follower too: the view needs nobody who decides."""
    clock, room = Clock(), HostAmounts(4000, 4096)
    view = ClusterView((FAMILY,), clock)
    view.node_news.sync([replace(node(), room=room)])
    before, a = view.ledger.node("n1"), structs.replace(pod("a"), host=HostAmounts(1000, 1024))
    holder = bound(a, grant(a)) if slices else structs.replace(a, node="n1", containers=())
    view.pod_news.see(holder, watched=True)
    held = view.ledger.node("n1")
    assert held is not None
    assert (held.left, free(view)) == (HostAmounts(3000, 3072), ALL - QUARTER * slices)
    end(view, holder)
    clock.now += REPORT_SECONDS
    view.expire()
    assert view.ledger.node("n1") == before
    assert not view.ledger.holdings()


def test_a_pod_that_is_gone_stays_gone() -> None:
    a = pod("a")
    state = state_of()
    state.view.pod_news.see(bound(a, grant(a)), watched=True)
    state.view.pod_news.gone(a.uid, ended=True)
    state.view.pod_news.see(bound(a, grant(a)), watched=False)
    assert free(state.view) == ALL


def test_a_list_without_a_pod_says_it_is_gone_unless_the_watch_never_showed_it() -> None:
    a, b = pod("a"), pod("b")
    clock = Clock()
    state = state_of(clock=clock)
    state.view.pod_news.see(bound(a, grant(a)), watched=True)
    state.view.pod_news.see(bound(b, grant(b, cores=(1,))), watched=False)
    state.view.pod_news.sync(())
    clock.now += REPORT_SECONDS
    state.allocator.expire()
    assert set(state.view.ledger.grants()) == {b.uid}, "b was bound after the list was made"


def test_pods_that_cannot_be_read_are_not_known_and_not_gone() -> None:
    a, b, waits, faulty = (pod(name) for name in ("a", "b", "waits", "faulty"))
    host = structs.replace(b, node="n1", containers=(), host=HostAmounts(1, 1))
    listed = [bound(a, grant(a)), host, waits, with_grant(faulty, "{", "n1", "")]
    view = state_of().view
    view.pod_news.sync(listed)
    held = dict(view.ledger.holdings())
    assert held.keys() == {a.uid, b.uid, faulty.uid}
    view.pod_news.go_without()
    assert (view.pods.all(), dict(view.ledger.holdings()), len(view.faults.standing())) == ([], {}, 0)
    assert free(view) == ALL
    view.pod_news.sync(listed)
    assert {each.name for each in view.pods.all()} == {"a", "waits", "faulty"}
    assert view.ledger.holdings() == held
    assert len(view.faults.standing()) == 1


def test_a_node_that_vanishes_and_returns_finds_its_slices_held() -> None:
    a = pod("a")
    state = state_of()
    state.view.pod_news.see(bound(a, grant(a)), watched=True)
    state.view.node_news.gone("n1")
    assert state.view.ledger.node("n1") is None
    state.view.node_news.see(node())
    assert free(state.view) == ALL - QUARTER


@pytest.mark.parametrize(
    "text",
    ["", "{", "[null]", "null", '{"v":2,"serving":true,"cards":[]}', "x" * 70_000, "[" * 60_000,
     '{"v":1,"serving":true,"cards":[null]}', '{"v":1,"serving":"yes","cards":[]}'],
    ids=["missing", "cut off", "list", "null", "future version", "70 KB", "deep", "card null", "wrong type"],
)  # fmt: skip
def test_a_bad_inventory_is_none_and_a_good_one_cures_it(text: str, caplog: pytest.LogCaptureFixture) -> None:
    a = pod("a")
    state = state_of()
    state.view.pod_news.see(bound(a, grant(a)), watched=True)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            state.view.node_news.see(Node("n1", text))
    said = 1 if text else 0
    assert len(caplog.records) == said
    assert state.view.faults.counts()["inventory"] == said
    assert state.view.ledger.node("n1") is None
    state.view.node_news.see(node())
    assert state.view.faults.counts()["inventory"] == 0
    assert free(state.view) == ALL - QUARTER


_SLICE = {"card": "n1-0", "memMiB": 1, "cores": [0]}


@pytest.mark.parametrize(
    "fields",
    [
        {"pod": "uid-other"}, {"node": "n2"}, {"v": 9}, {"gen": -1}, {"containers": {}},
        {"containers": {"stranger": [_SLICE]}}, {"containers": {"main": [{**_SLICE, "memMiB": -5}]}},
        {"containers": {"main": [{**_SLICE, "cores": [-1]}]}},
        {"containers": {"main": None}}, {"containers": [None]},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_grant_that_cannot_be_true_leaves_the_ledger_as_it_was(fields: dict[str, object]) -> None:
    a = pod("a")
    state = state_of()
    state.view.pod_news.see(altered(a, **fields), watched=True)
    assert free(state.view) == ALL
    assert state.view.faults.counts()["grant"] == 1
    state.view.pod_news.see(bound(a, grant(a)), watched=True)
    assert state.view.faults.counts()["grant"] == 0, "a sound grant cures it"
    assert free(state.view) == ALL - QUARTER


@pytest.mark.parametrize(
    "less", [{"mem_mib": ALL - 16}, {"groups": 56}, {"slices": 1}], ids=lambda less: next(iter(less))
)
def test_a_grant_is_held_whatever_its_card_reports_now(less: dict[str, int]) -> None:
    """A driver update: the card is not granted again, its holder stays, and nobody is suspected."""
    whole, state = pod("whole", 16, 60), state_of()
    made = state.allocator.reserve(whole, request_of(state, whole), ("n1",))
    assert isinstance(made, Reservation)
    state.view.pod_news.see(bound(whole, made.grant), watched=True)
    state.view.node_news.see(Node("n1", inventory("n1", 1, **less).encode()))
    assert state.view.ledger.grant(whole.uid) == made.grant
    assert free(state.view) == 0
    assert state.view.faults.counts()["grant"] == 0
    assert not state.view.suspects()
    after = pod("after", 1, 1)
    assert isinstance(state.allocator.reserve(after, request_of(state, after), ("n1",)), Refused)


def test_a_grant_on_a_card_that_nobody_shows_takes_nothing_from_the_others() -> None:
    a = pod("a")
    state = state_of()
    state.view.pod_news.see(bound(a, grant(a, card="nowhere")), watched=True)
    assert free(state.view) == ALL
    assert not state.view.suspects()


def test_overlapping_grants_make_their_node_suspect_once() -> None:
    a, b = pod("a"), pod("b")
    state = state_of()
    for each in (a, b):
        state.view.pod_news.see(bound(each, grant(each)), watched=True)
    assert state.view.suspects() == {"n1"}
    assert state.view.suspects() == set()


def reports(rng: random.Random, pods: Sequence[Pod], name: str) -> tuple[ReportedSlice, ...]:
    """What an agent may say of some pods of its node, whether they live or not."""
    found = []
    for each in pods:
        held = each.grant()
        if held is not None and held.node == name and rng.random() < 0.3:
            state = rng.choice(list(SliceState))
            found.append(
                ReportedSlice(each.uid, "default", each.name, "main", state, held.containers["main"])
            )
    return tuple(found)


def smaller(rng: random.Random, known: Card) -> Card:
    """The card with less of something, or as it is."""
    return structs.replace(
        known, mem_mib=known.mem_mib - rng.choice((0, 16, 8000)), core_groups=rng.choice((60, 56, 20)),
        max_slices=rng.randint(1, 4),
    )  # fmt: skip


@pytest.mark.no_cover
def test_a_ledger_rebuilt_after_a_restart_equals_the_live_one(rng: random.Random) -> None:
    """Pods come and end, cards shrink and grow, agents report slices that outlive their pods."""
    names, clock = ("n1", "n2"), Clock()
    live = state_of(*(node(name, 2) for name in names), clock=clock)
    existing: dict[str, Pod] = {}
    ever: list[Pod] = []
    nodes = {name: node(name, 2) for name in names}
    held = short = 0
    for turn in range(600):
        event = rng.random()
        if event < 0.2:
            name = rng.choice(names)
            cards = tuple(smaller(rng, each) for each in inventory(name, 2).cards)
            nodes[name] = Node(name, Inventory(cards, slices=reports(rng, ever[-20:], name)).encode())
            live.view.node_news.see(nodes[name])
        elif existing and event < 0.5:
            name = rng.choice(sorted(existing))
            if rng.random() < 0.5:
                existing[name] = structs.replace(existing[name], phase="Succeeded")
                live.view.pod_news.see(existing[name], watched=True)
            else:
                live.view.pod_news.gone(existing.pop(name).uid)
        else:
            new = pod(f"p{turn}", mem=rng.randint(1, 6), cores=None)
            request = live.view.pods.request_of(new)
            assert request is not None
            placed = live.allocator.reserve(new, request, names)
            if isinstance(placed, Reservation):
                existing[new.name] = bound(new, placed.grant)
                ever.append(existing[new.name])
                live.view.pod_news.see(existing[new.name], watched=rng.random() < 0.5)
        clock.now += REPORT_SECONDS
        live.allocator.expire()
        rebuilt = state_of(*rng.sample(list(nodes.values()), 2))
        rebuilt.view.pod_news.sync(rng.sample(list(existing.values()), len(existing)))
        assert rebuilt.view.ledger == live.view.ledger
        assert not live.view.suspects(), "nobody is to blame"
        assert not rebuilt.view.suspects()
        held += any(uid not in {each.uid for each in existing.values()} for uid in live.view.ledger.grants())
        short += any(c.short for name in names if (n := live.view.ledger.node(name)) for c in n.cards)
    assert held > 50, held
    assert short > 50, short


def test_a_card_that_the_nodes_annotation_cordons_gets_no_new_slices(world: World) -> None:
    first = world.placed("first")
    cordoned = replace(world.api.by_node["n1"], cordoned="n1-0, ghost")
    world.one.view.node_news.see(cordoned)
    lines = as_text(world.one.explainer.view()).splitlines()
    assert [line.endswith(", cordoned") for line in lines if line.startswith("  n1-")] == [True, False]
    second = world.pod("second")
    world.one.ask(second)
    held = world.one.view.ledger.grant(second.uid)
    assert held is not None
    assert [s.card for s in held.slices()] == ["n1-1"]
    kept = world.one.view.ledger.grant(first.uid)
    assert kept is not None, "who holds slices of it keeps them"
    world.one.view.node_news.see(replace(cordoned, cordoned=""))
    assert world.one.ask(world.pod("third")) == "n1"


def test_a_list_that_was_read_before_the_watch_showed_more_changes_nothing() -> None:
    view = ClusterView(DEFAULT_PREFIXES, Clock())
    after = replace(node(), version=7)
    view.node_news.see(after)
    view.node_news.sync([Node("n1", version=5)])
    assert view.node_news.inventory("n1") is not None
    view.node_news.gone("n1")
    assert view.node_news.inventory("n1") is None
    view.node_news.see(replace(after, version=9))
    assert view.node_news.inventory("n1") is not None
    view.node_news.see(Node("n1", version=10))
    assert view.node_news.inventory("n1") is None


def test_after_a_restored_etcd_a_list_of_nodes_with_lower_versions_counts() -> None:
    """Also for a node whose cards have just changed so often that the next change had to wait."""
    view = ClusterView(DEFAULT_PREFIXES, Clock())
    for number in range(10):
        view.node_news.see(replace(node(cards=1 + number % 2), version=900_000 + number))
    view.node_news.doubt()
    view.node_news.sync([replace(node(cards=3), version=1000)])
    found = view.node_news.inventory("n1")
    assert found is not None
    assert (len(found.cards), found.serving) == (3, True)
    view.node_news.see(replace(node(cards=4), version=999))
    assert view.node_news.inventory("n1") == found, "from now on the order counts again"


def test_after_a_restored_etcd_bindings_ends_and_deletions_that_it_lost_are_taken_back() -> None:
    state = state_of(node(cards=2))
    view = state.view
    a, b, c = pod("a"), pod("b"), pod("c")
    held = bound(b, grant(b, cores=(1,)))
    view.pod_news.see(bound(a, grant(a)), watched=True)
    view.pod_news.see(structs.replace(held, phase="Succeeded"), watched=True)
    view.pod_news.see(bound(c, grant(c, cores=(2,))), watched=True)
    view.pod_news.gone(c.uid, ended=True)
    view.pod_news.doubt()
    view.pod_news.sync([a, structs.replace(held, phase="Running"), c])
    assert view.ledger.grants() == {b.uid: grant(b, cores=(1,))}
    assert [view.pods.get(each.uid) for each in (a, c)] == [a, c]
    request = request_of(state, a)
    assert isinstance(state.allocator.reserve(a, request, ("n1",)), Reservation), "it can be placed again"


def test_bindings_that_were_sent_after_versions_fell_stay_though_the_list_does_not_show_them(
    world: World, one: Replica
) -> None:
    before, since, under_way = (world.pod(name, 4, 15) for name in ("before", "since", "under-way"))
    assert one.bind(before, one.ask(before)) == ""
    assert one.ask(since) == one.ask(under_way) == "n1"

    def landed_while_the_list_is_read(bound: Pod, node: str, annotations: Mapping[str, str]) -> None:
        world.api.watchers.clear()
        world.api.land(bound, node, annotations)
        if bound.uid == under_way.uid:
            one.view.pod_news.sync([before, since, under_way])

    one.view.pod_news.doubt()
    world.api.on_bind = landed_while_the_list_is_read
    assert one.bind(since) == ""
    assert one.bind(under_way) == ""
    assert set(one.view.ledger.grants()) == {since.uid, under_way.uid}


def test_after_a_restored_etcd_the_ledger_equals_one_that_is_made_anew() -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    for _ in range(200):
        old, new = (_some_pods(rng) for _ in range(2))
        clock = Clock()
        state = state_of(replace(node(cards=2), version=900), clock=clock)
        state.view.pod_news.sync(old)
        state.view.node_news.doubt()
        state.view.pod_news.doubt()
        cards = replace(node(cards=rng.choice((2, 3))), version=10)
        state.view.node_news.sync([cards])
        state.view.pod_news.sync(new)
        clock.now += REPORT_SECONDS
        state.view.expire()
        fresh = state_of(cards)
        fresh.view.pod_news.sync(new)
        assert state.view.ledger == fresh.view.ledger, f"seed {seed}"


def _some_pods(rng: random.Random) -> list[Pod]:
    """Some of ten pods, each unbound, bound to one of two cards, or ended there."""
    found = []
    for number in range(10):
        made = pod(f"p{number}")
        where = grant(made, f"n1-{rng.randrange(2)}", (number,))
        phase = rng.choice(("Pending", "Running", "Failed"))
        states = (made, structs.replace(bound(made, where), phase=phase))
        if rng.random() < 0.8:
            found.append(rng.choice(states))
    return found
