"""The touch: kube-scheduler is made to ask again for as many refused pods as there is room for, and for no others."""

import random
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from device_plugin.allocator.gangs import groups
from device_plugin.allocator.waiting.refusal_budget import BURST, SHARE
from device_plugin.allocator.waiting.refusals import WaitsFor
from device_plugin.cluster.filter import NOT_YET
from device_plugin.cluster.touch import (
    ASKED_SECONDS,
    GRACE_SECONDS,
    INHERITED_AFTER_SECONDS,
    TOUCHES,
)
from device_plugin.core.contract import annotations
from device_plugin.core.placement import Placer
from device_plugin.core.pods import Pod
from device_plugin.kube.errors import UnknownError
from tests.builders.cards import MEM, inventory
from tests.builders.pods import main, pod
from tests.cluster.gang_pods import gang, member
from tests.cluster.world import RESERVATION_SECONDS, Apart, Replica, World, refuse


def touched(world: World, one: Replica) -> list[str]:
    """The pods that are touched once others have had their time to ask."""
    before = len(world.api.written)
    one.touch.step()
    world.clock.now += 2 * GRACE_SECONDS
    one.renew()
    one.touch.step()
    assert {verb for verb, _ in world.api.written[before:]} <= {"touch"}
    return [name for _, name in world.api.written[before:]]


def full(world: World) -> list[Pod]:
    """Both cards of n1 are held by two pods each."""
    return [world.placed(f"held-{number}") for number in range(4)]


def refused(world: World, one: Replica, *names: str, **more: Any) -> list[Pod]:
    pods = [world.pod(name, **more) for name in names]
    assert [one.ask(made) for made in pods] == [""] * len(pods)
    return pods


def standby(world: World) -> Replica:
    """A second replica, which has listed and does not lead."""
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()
    two.leadership.step()
    return two


def test_a_slice_that_the_watch_shows_after_the_refusal_is_no_pods_loss(world: World, one: Replica) -> None:
    held = full(world)
    (first, _) = refused(world, one, "first", "second")
    assert touched(world, one) == []
    world.api.end(held[0])
    assert touched(world, one) == ["first"]
    assert one.ask(first) == "n1"
    assert touched(world, one) == []


def test_in_whatever_order_they_are_asked_for_no_more_are_touched_than_there_is_room_for() -> None:
    """The first that is asked for gets the place that was found for another one, and each that is bound wakes all."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    for number in range(30):
        rng, world = random.Random(seed + number), World()
        holders = [world.pod(f"holder-{card}", 16, 60) for card in range(2)]
        assert all(map(world.one.ask, holders))
        names = [made.name for made in refused(world, world.one, *(f"half-{each}" for each in range(5)))]
        for holder in holders:
            world.api.put(structs.replace(holder, annotations={annotations.CARD_UUID: "none"}))
        world.api.written.clear()
        scheduled(world, names, rng)
        assert sum(verb == "touch" for verb, _ in world.api.written) <= 4, number


def scheduled(world: World, names: list[str], rng: random.Random) -> None:
    """kube-scheduler asks for touched pods, and for all once one is bound: within 4 s, and in any order."""
    woken: dict[str, float] = {}
    for _ in range(100):
        before = len(world.api.written)
        world.clock.now += PERIOD_SECONDS
        world.one.renew()
        world.one.touch.step()
        woken |= {name: world.clock.now for _, name in world.api.written[before:] if name not in woken}
        for name in rng.sample(sorted(woken), len(woken)):
            made = world.api.by_name["default", name]
            if rng.random() < 0.6 and world.clock.now < woken[name] + 4.0:
                continue
            del woken[name]
            if world.one.ask(made):
                assert world.one.bind(made) == ""
                left = [each for each in names if not world.api.by_name["default", each].node]
                woken = dict.fromkeys(left, world.clock.now) | woken
        if sum(verb == "bind" for verb, _ in world.api.written) == 4:
            return
    raise AssertionError("there is room for four")


def test_there_is_nothing_to_write_while_nothing_changes_or_pods_are_asked_for_anyway(
    world: World, one: Replica
) -> None:
    held = full(world)
    (made,) = refused(world, one, "p")
    for _ in range(10):
        assert touched(world, one) == []
    world.api.end(held[0])
    one.touch.step()
    assert one.ask(made) == "n1"
    assert touched(world, one) == []


def test_as_many_are_touched_as_there_is_room_for_in_the_order_of_the_queue(
    world: World, one: Replica
) -> None:
    held = full(world)
    refused(world, one, "young", created="2026-11-21T07:00:09Z")
    refused(world, one, "old", created="2026-11-21T07:00:01Z")
    refused(world, one, "large", mem=16, cores=60, priority=9, preempts=False)
    refused(world, one, "dear", created="2026-11-21T07:00:09Z", priority=5, preempts=False)
    for gone in held[:2]:
        world.api.end(gone)
    free = one.free()
    assert touched(world, one) == (["large"] if 16368 in free else ["dear", "old"])


def test_a_touched_pod_that_is_not_asked_for_leaves_its_room_to_the_next(world: World, one: Replica) -> None:
    held = full(world)
    refused(world, one, "first", "second")
    world.api.end(held[0])
    assert touched(world, one) == ["first"]
    world.api.end(world.pod("first"))
    assert touched(world, one) == ["second"]
    world.api.end(held[1])
    refused(world, one, "third", mem=17)
    world.clock.now += ASKED_SECONDS
    one.renew()
    assert touched(world, one) == [], "each is refused again before it is touched again"


@pytest.mark.parametrize("cause", ["expired", "failed bind", "gang dissolved"])
def test_room_that_comes_without_an_event_of_the_api(world: World, one: Replica, cause: str) -> None:
    for number in range(3):
        world.placed(f"held-{number}")
    if cause == "gang dissolved":
        world.api.end(world.api.by_name["default", "held-2"])
        pods = gang(world, 2)
        assert one.ask(pods[0]) == "n1"
    else:
        last = world.pod("last")
        assert one.ask(last) == "n1"
    refused(world, one, "waits")
    assert touched(world, one) == []
    if cause == "failed bind":
        world.api.on_bind = refuse
        assert one.bind(last)
    else:
        one.wait(RESERVATION_SECONDS + 1)
        one.allocator.expire()
    assert touched(world, one) == ["waits"]


def test_a_gang_whose_last_pod_the_watch_shows_late_is_asked_for_again(world: World, one: Replica) -> None:
    world.api.watchers.remove(one)
    late = gang(world, 3)
    one.hear(late[0])
    assert one.ask(late[2]) == ""
    assert touched(world, one) == []
    one.hear(late[1])
    assert touched(world, one) == ["train-2"]
    assert one.ask(late[2]) == "n1"
    assert [one.ask(made) for made in late] == ["n1"] * 3


def test_a_gang_that_found_no_room_is_decided_again_and_its_pods_are_touched(
    world: World, one: Replica
) -> None:
    held = full(world)
    pods = gang(world, 2)
    assert [one.ask(made) for made in pods] == ["", ""]
    world.api.end(held[0])
    assert touched(world, one) == []
    world.api.end(held[1])
    assert touched(world, one) == ["train-0", "train-1"]
    assert [one.ask(made) for made in pods] == ["n1", "n1"]


def test_a_standby_touches_nobody_and_a_new_leader_those_that_the_old_one_refused(
    world: World, one: Replica
) -> None:
    held = full(world)
    refused(world, one, "waits")
    world.pod("waits", refused=1)
    world.pod("gated")
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()
    world.api.end(held[0])
    assert touched(world, one) == ["waits"]
    two.touch.step()
    two.lead()
    two.wait(INHERITED_AFTER_SECONDS)
    assert touched(world, two) == ["waits"]
    assert touched(world, two) == []


def test_pods_that_were_asked_for_before_the_term_began_are_touched_at_once(world: World) -> None:
    """The one that fits nowhere as well: perhaps it may preempt others."""
    two = standby(world)
    pods = [world.pod("fits"), world.pod("large", mem=1000), *gang(world, 2)]
    assert [two.ask(made) for made in pods] == [""] * 4
    assert touched(world, two) == []
    two.lead()
    assert sorted(touched(world, two)) == ["fits", "large", "train-0", "train-1"]
    assert [two.ask(made) for made in pods[:2]] == ["n1", ""]
    assert touched(world, two) == []


def test_a_pod_that_is_postponed_after_the_terms_first_touches_is_touched_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its /filter had found that there is no term, and was slow."""
    two = standby(world)
    put = two.allocator.waiting.postponed.put

    def once_the_term_has_begun(*call: Any) -> None:
        two.lead()
        assert touched(world, two) == []
        put(*call)

    with monkeypatch.context() as patched:
        patched.setattr(two.allocator.waiting.postponed, "put", once_the_term_has_begun)
        assert two.ask(world.pod("late")) == ""
    assert touched(world, two) == ["late"]
    assert two.ask(world.api.by_name["default", "late"]) == "n1"
    assert touched(world, two) == []


def test_a_pod_that_is_refused_between_its_postponement_and_its_touch_waits_for_room(world: World) -> None:
    full(world)
    two = standby(world)
    late = world.pod("late")
    assert two.ask(late) == ""
    two.lead()
    assert two.ask(late) == ""
    assert touched(world, two) == []


@pytest.mark.parametrize("seed", range(3))
def test_no_pod_that_is_asked_for_as_a_term_begins_is_lost(world: World, seed: int) -> None:
    rng, two = random.Random(seed), standby(world)
    pods = [world.pod(f"p{number:02}", mem=1, cores=1) for number in range(2 * TOUCHES)]
    rng.shuffle(pods)
    start, apart = threading.Barrier(5), Apart()
    decided: set[str] = set()

    def ask(mine: list[Pod]) -> None:
        start.wait()
        decided.update(made.name for made in mine if two.filter(made, ["n1"]).hopeless != {"n1": NOT_YET})

    for number in range(4):
        apart.run(partial(ask, pods[number::4]))
    start.wait()
    two.lead()
    found = touched(world, two)
    apart.join()
    found += touched(world, two)
    assert decided.union(found) == {made.name for made in pods}
    assert len(decided) + len(found) == len(pods)


def test_a_new_leader_touches_the_pods_of_a_gang_that_the_old_one_refused(world: World, one: Replica) -> None:
    held = full(world)
    for made in gang(world, 2):
        assert one.ask(made) == ""
        world.api.put(structs.replace(made, refused=1))
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()
    two.lead()
    two.wait(INHERITED_AFTER_SECONDS)
    assert touched(world, two) == []
    for gone in held[:2]:
        world.api.end(gone)
    assert touched(world, two) == ["train-0", "train-1"]


def test_writes_are_bounded_in_time(world: World, one: Replica) -> None:
    held = full(world)
    names = [f"p{number:03}" for number in range(3 * TOUCHES)]
    refused(world, one, *names)
    for number in range(3 * TOUCHES // 4):
        world.node(f"m{number:02}", inventory(f"m{number:02}"))
    one.view.node_news.sync(world.api.nodes())
    refused(world, one, "odd", mem=17)
    one.allocator.waiting.pods.clear()
    for name in names:
        made = world.api.by_name["default", name]
        one.allocator.waiting.pods.inherit(made, WaitsFor.ANYTHING)
    world.api.end(held[0])
    assert touched(world, one) == names[:TOUCHES]
    one.touch.step()
    assert [name for verb, name in world.api.written if verb == "touch"] == names[:TOUCHES]
    assert all(one.ask(world.api.by_name["default", name]) for name in names[:TOUCHES])
    one.touch.step()
    assert [name for verb, name in world.api.written if verb == "touch"] == names[: 2 * TOUCHES]


def test_a_write_that_fails_is_not_fatal(world: World, one: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    held = full(world)
    refused(world, one, "first")
    world.api.end(held[0])

    def fails(*_: object, **__: object) -> None:
        raise UnknownError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(world.api, "patch", fails)
        assert touched(world, one) == []
    assert one.ask(structs.replace(world.api.by_name["default", "first"])) == "n1"


def test_who_waits_for_a_pod_that_was_taken_back_unbound_is_touched(world: World, one: Replica) -> None:
    """It waited for a volume and failed, which shows on that pod alone: kube-scheduler asks for nobody else by it."""
    world.placed("held-0"), world.placed("held-1")
    low = world.pod("low", 16, 60)
    assert one.ask(low) == "n1"
    low = world.api.put(structs.replace(low, nominated="n1"))
    (waiting,) = refused(world, one, "waiting")
    assert touched(world, one) == []
    world.api.put(structs.replace(low, nominated="", refused=1))
    assert touched(world, one) == ["waiting"]
    assert one.bind(waiting, one.ask(waiting)) == ""


# Steps of the touch in a second, and seconds within which a pod that fits is touched on an otherwise idle scheduler.
PERIOD_SECONDS, PROMPT_SECONDS = 0.25, 2.0


def until_touched(
    world: World, one: Replica, name: str, between: Callable[[], object] = lambda: None
) -> float:
    """Seconds until the pod is touched, or infinity; each step comes after `between`."""
    for step in range(int(60 / PERIOD_SECONDS)):
        between()
        one.touch.step()
        if ("touch", name) in world.api.written:
            return step * PERIOD_SECONDS
        world.clock.now += PERIOD_SECONDS
        one.renew()
    return float("inf")


def something_becomes_free(world: World, one: Replica) -> None:
    """It serves nobody who waits."""
    world.node("other", inventory("other", mem_mib=1024 + int(world.clock.now * 4) % 400))
    one.view.node_news.sync(world.api.nodes())


def in_namespaces(count: int, names: Iterable[str], **more: Any) -> list[Pod]:
    """Pods of `count` namespaces of one tenant, as many in each."""
    return [
        pod(name, namespace=f"tenant-{number % count}", priority=9, preempts=False, **more)
        for number, name in enumerate(names)
    ]


def ask_for(world: World, one: Replica, *pods: Pod) -> None:
    for each in pods:
        assert one.ask(world.api.put(each)) == ""


@pytest.mark.no_cover
@pytest.mark.parametrize("namespaces", [1, 20])
def test_no_tenants_hopeless_pods_stand_before_a_pod_that_fits(
    world: World, one: Replica, namespaces: int
) -> None:
    """Each of them asks for something else, is older and of a higher priority, and may fit again at every step."""
    held = full(world)
    names = [f"hopeless-{number:04}" for number in range(4000)]
    hopeless = in_namespaces(namespaces, names)
    ask_for(
        world, one,
        *(structs.replace(each, annotations={annotations.CARD_UUID: f"none-{each.name}"}) for each in hopeless),
    )  # fmt: skip
    refused(world, one, "fits", created="2026-11-21T07:00:09Z")

    for _ in range(20):
        one.touch.step()
        world.clock.now += PERIOD_SECONDS
        one.renew()
    world.api.end(held[0])
    assert until_touched(world, one, "fits", partial(something_becomes_free, world, one)) <= PROMPT_SECONDS
    assert [name for verb, name in world.api.written if verb == "touch"] == ["fits"]


def test_a_pod_behind_hopeless_ones_of_its_own_namespace_has_its_turn_however_often_something_changes(
    world: World, one: Replica
) -> None:
    held = full(world)
    for number in range(300):
        only = {annotations.CARD_UUID: f"none-{number}"}
        refused(world, one, f"h-{number:03}", priority=9, preempts=False, annotations=only)
    refused(world, one, "fits")
    world.api.end(held[0])

    assert until_touched(world, one, "fits", partial(something_becomes_free, world, one)) <= 5.0


def test_tries_of_pods_of_many_containers_take_a_tenth_of_the_time_at_most(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes 0.05 s, and their tenant makes room that is too small all the time."""
    full(world)
    several = tuple(main({MEM: "16"}, f"c{number}") for number in range(3))
    for number in range(40):
        only = {annotations.CARD_UUID: f"none-{number}"}
        refused(world, one, f"large-{number}", containers=several, annotations=only)
    find, busy, seconds = Placer.find, 0.0, 200.0

    def slow(*args: Any, **more: Any) -> Any:
        nonlocal busy
        world.clock.now += 0.05
        busy += 0.05
        return find(*args, **more)

    monkeypatch.setattr(Placer, "find", slow)
    started = world.clock.now
    while world.clock.now < started + seconds:
        something_becomes_free(world, one)
        one.touch.step()
        world.clock.now += PERIOD_SECONDS
        one.renew()
    assert 0 < busy <= 1.2 * (SHARE * seconds + BURST)


@pytest.mark.parametrize("namespaces", [1, 3])
def test_touched_pods_that_nobody_asks_for_keep_no_room_from_others(
    world: World, one: Replica, namespaces: int
) -> None:
    """A volume of theirs is gone, say: kube-scheduler refuses them before it asks us."""
    held = full(world)
    tenants = in_namespaces(namespaces, (f"absent-{number:03}" for number in range(100)))
    ask_for(world, one, *tenants)
    refused(world, one, "fits", created="2026-11-21T07:00:09Z")
    world.api.end(held[0])
    assert until_touched(world, one, "fits") <= PROMPT_SECONDS * namespaces
    absent = sum(verb == "touch" for verb, _ in world.api.written) - 1
    assert absent <= namespaces
    # They are late: whoever comes goes before them, at once.
    assert one.ask(world.api.by_name["default", "fits"]) == "n1"
    refused(world, one, "next", created="2026-11-21T07:00:10Z")
    world.api.end(held[1])
    assert until_touched(world, one, "next") <= 1.0


def test_a_namespace_whose_pods_came_late_is_heard_again_once_one_comes(world: World, one: Replica) -> None:
    held = full(world)
    first, second = in_namespaces(1, ("first", "second"))
    ask_for(world, one, first, second)
    world.api.end(held[0])
    assert until_touched(world, one, "first") <= 1.0
    one.wait(ASKED_SECONDS + 1)
    assert until_touched(world, one, "second") <= 1.0
    assert one.ask(second) == "n1"


def test_the_memory_of_refused_pods_is_shared_between_namespaces(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one.allocator.waiting.pods, "most", 16)
    monkeypatch.setattr(one.allocator.waiting.pods, "most_of_namespace", 8)
    held = full(world)
    tenants = in_namespaces(2, (f"hopeless-{number:02}" for number in range(20)))
    ask_for(
        world,
        one,
        *(structs.replace(each, annotations={annotations.CARD_UUID: "none"}) for each in tenants),
    )
    assert len(one.allocator.waiting.pods) == 16
    refused(world, one, "fits")
    assert len(one.allocator.waiting.pods) == 16
    world.api.end(held[0])
    assert until_touched(world, one, "fits") <= PROMPT_SECONDS


def test_whoever_takes_over_touches_pods_of_all_namespaces(world: World) -> None:
    """The pods of one tenant that another process refused do not stand before those of others."""
    two = Replica(world.api, world.clock, "vgpu-1")
    held = full(world)
    for each in in_namespaces(1, (f"absent-{number:03}" for number in range(200))):
        world.api.put(structs.replace(each, refused=1))
    world.pod("fits", refused=1, created="2026-11-21T07:00:09Z")
    two.follow()
    world.api.end(held[0])
    two.lead()
    two.touch.step()
    two.wait(INHERITED_AFTER_SECONDS)
    assert until_touched(world, two, "fits") <= PROMPT_SECONDS


def test_a_touch_that_could_not_be_written_is_tried_again(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = full(world)
    refused(world, one, "first")
    world.api.end(held[0])
    with monkeypatch.context() as patched:
        patched.setattr(world.api, "patch", refuse)
        assert touched(world, one) == []
    assert until_touched(world, one, "first") <= ASKED_SECONDS + 1.0


def test_a_gang_is_not_kept_waiting_by_touched_pods_that_nobody_asks_for(world: World, one: Replica) -> None:
    held = full(world)
    ask_for(world, one, *in_namespaces(1, ("absent",)))
    pods = gang(world, 2)
    assert [one.ask(made) for made in pods] == ["", ""]
    for gone in held[:3]:
        world.api.end(gone)
    assert until_touched(world, one, "train-0") <= PROMPT_SECONDS


def test_a_touched_gang_that_nobody_asks_for_leaves_its_room_to_others(world: World, one: Replica) -> None:
    held = full(world)
    ask_for(
        world,
        one,
        *(structs.replace(each, namespace="tenant", priority=9) for each in gang_of("absent", 2)),
    )
    refused(world, one, "fits")
    for gone in held[:2]:
        world.api.end(gone)
    assert until_touched(world, one, "absent-0") <= PROMPT_SECONDS
    assert ("touch", "fits") not in world.api.written
    assert until_touched(world, one, "fits") <= PROMPT_SECONDS
    assert one.ask(world.api.by_name["default", "fits"]) == "n1"


def test_the_pods_of_a_large_gang_are_touched_once_one_of_them_was_asked_for(
    world: World, one: Replica
) -> None:
    pods = gang(world, TOUCHES + 4)
    assert [one.ask(made) for made in pods] == [""] * len(pods)
    world.node("n1", inventory("n1", TOUCHES))
    one.view.node_news.sync(world.api.nodes())
    assert until_touched(world, one, pods[0].name) <= PROMPT_SECONDS
    assert one.ask(pods[0]) != ""
    assert max(until_touched(world, one, made.name) for made in pods) <= PROMPT_SECONDS


def gang_of(group: str, count: int) -> list[Pod]:
    return [member(f"{group}-{number}", count, group, preempts=False) for number in range(count)]


def relabelled(made: Pod, **labels: str) -> Pod:
    written = {f"vgpu.io/{key.replace('_', '-')}": text for key, text in labels.items()}
    return structs.replace(made, labels={**(made.labels or {}), **written})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda made: relabelled(made, group_size="3"),
        lambda made: relabelled(made, group_size="two"),
        lambda made: relabelled(made, group="trian"),
        lambda made: relabelled(made, group=""),
        lambda made: structs.replace(made, annotations={"vgpu.io/role-order": "ps,worker"}),
        None,
    ],
    ids=["another size", "no size", "another name", "no name", "another role order", "no pod"],
)
@pytest.mark.parametrize("asked", [True, False])
def test_a_gang_whose_pods_are_right_at_last_is_asked_for_again(
    world: World, one: Replica, wrong: Callable[[Pod], Pod] | None, *, asked: bool
) -> None:
    ordered = {"vgpu.io/role-order": "worker"}
    first, last = (
        relabelled(member(name, 2, annotations=ordered), role="worker-0") for name in ("first", "last")
    )
    world.api.put(first)
    if wrong is not None:
        world.api.put(wrong(last))
        if asked:
            one.ask(wrong(last))
            one.allocator.release(last.uid)
    assert one.ask(first) == ""
    assert touched(world, one) == []
    world.api.put(last)
    assert "first" in touched(world, one)
    assert [one.ask(first), one.ask(last)] == ["n1", "n1"]


def test_a_group_that_agrees_on_its_order_or_is_small_enough_is_asked_for_again(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {"vgpu.io/group": "train", "vgpu.io/role": "worker"}
    scored = {"vgpu.io/policy": "node-score"}
    odd = world.pod("odd", labels=labels, annotations={**scored, "vgpu.io/role-order": "worker"})
    (first,) = refused(world, one, "first", labels=labels, annotations=scored)
    assert touched(world, one) == []
    world.api.put(structs.replace(odd, annotations=scored))
    assert touched(world, one) == ["first"]
    monkeypatch.setattr(groups, "MOST", 1)
    assert one.ask(first) == ""
    assert touched(world, one) == []
    world.api.end(odd)
    assert touched(world, one) == ["first"]
