"""What ends a reservation before it is bound, in virtual time."""

import random
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from device_plugin.core.pods import Pod
from device_plugin.kube.errors import UnknownError
from tests.builders.pods import HALF, pod
from tests.cluster.gang_pods import gang, member, placed
from tests.cluster.world import RESERVATION_SECONDS, Replica, World, refuse

ALL = [16368, 16368]


def test_it_expires_and_does_not_come_back(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    one.wait(RESERVATION_SECONDS - 0.1)
    one.housekeeping.step()
    assert one.free() == [16368 - HALF, 16368]
    one.wait(0.1)
    one.housekeeping.step()
    assert one.free() == ALL
    # News of the pod bring nothing back: only another /filter does.
    world.api.put(replace(made, annotations={"other.io/note": "x"}))
    assert one.free() == ALL


def test_what_expired_is_free_for_the_next_without_any_housekeeping(world: World, one: Replica) -> None:
    one.ask(world.pod("first", mem=16, cores=60))
    one.ask(world.pod("second", mem=16, cores=60))
    one.wait(RESERVATION_SECONDS)
    assert one.ask(world.pod("third", mem=16, cores=60)) == "n1"


def test_asking_again_gives_the_full_time_again(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    one.wait(RESERVATION_SECONDS - 1)
    one.ask(made)
    one.wait(RESERVATION_SECONDS - 1)
    one.housekeeping.step()
    assert one.free() == [16368 - HALF, 16368]


def test_it_ends_with_its_pod(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    world.api.end(made)
    assert one.free() == ALL
    # Old news cannot bring it back.
    one.hear(made)
    assert one.filter(made, ["n1"]).hopeless == {"n1": "pod default/p is gone"}
    assert one.free() == ALL


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_it_ends_when_its_pod_ended_unbound(world: World, one: Replica, phase: str) -> None:
    made = world.pod("p")
    one.ask(made)
    world.api.put(replace(made, phase=phase))
    assert one.free() == ALL


def test_it_ends_when_the_request_changes(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    world.api.put(replace(made, annotations={"unrelated": "1"}))
    assert one.free() == [16368 - HALF, 16368]
    world.api.put(replace(made, annotations={"vgpu.io/card-uuid": "!n1-0"}))
    assert one.free() == ALL


def test_it_ends_when_the_request_becomes_malformed(world: World, one: Replica) -> None:
    one.ask(world.pod("p"))
    world.api.put(pod("p", mem=0))
    assert one.free() == ALL


def test_a_pod_of_the_same_name_does_not_inherit_it(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    world.api.end(made)
    again = world.pod("p", uid="another")
    assert one.bind(again) == ""
    assert set(one.view.ledger.grants()) == {"another"}


def test_a_list_that_lacks_its_pod_ends_it(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    one.view.pod_news.sync([])
    assert one.free() == ALL


def waits(world: World, made: Pod, node: str = "n1") -> Pod:
    """kube-scheduler has the pod wait before its binding, for a volume, and says where it is to go."""
    return world.api.put(replace(made, nominated=node))


def test_a_pod_that_is_taken_back_before_its_binding_gives_back_what_it_had(
    world: World, one: Replica
) -> None:
    """As kube-scheduler 1.36 writes it for a pod that is preempted while it waits for a volume, in one patch."""
    made = world.pod("p")
    one.ask(made)
    waiting = waits(world, made)
    one.wait(30)
    assert one.free() == [16368 - HALF, 16368]
    world.api.put(replace(waiting, nominated="", refused=1))
    assert one.free() == ALL
    assert one.bind(made, one.ask(made)) == "", "it may be asked for again"


def test_a_refusal_that_was_known_when_it_was_asked_for_gives_nothing_back(
    world: World, one: Replica
) -> None:
    before = world.pod("p", refused=7)
    one.ask(before)
    world.api.put(replace(before, annotations={"other.io/note": "x"}))
    waits(world, before)
    assert one.free() == [16368 - HALF, 16368]


def test_a_kube_scheduler_that_names_no_node_says_that_it_refused_the_pod(world: World, one: Replica) -> None:
    """Before 1.35 the condition is all there is."""
    before = world.pod("p", refused=7)
    one.ask(before)
    world.api.put(replace(before, refused=8))
    assert one.free() == ALL


def test_a_gang_is_refused_while_it_gathers_and_keeps_its_places(world: World, one: Replica) -> None:
    """The first was refused before the last came, and is told so only after the last has reserved for both."""
    first = world.api.put(member("train-0", 2))
    assert one.ask(first) == ""
    assert one.ask(world.api.put(member("train-1", 2))) == "n1"
    world.api.put(replace(first, refused=3))
    assert one.free() == [0, 16368]
    world.api.put(replace(waits(world, replace(first, refused=3)), nominated="", refused=4))
    assert one.free() == ALL, "a gang that was taken back before anybody was bound holds nothing"


def test_of_a_gang_that_is_half_bound_the_others_keep_their_places(world: World, one: Replica) -> None:
    first, last = gang(world, 2)
    placed(one, [first, last])
    assert one.bind(last) == ""
    world.api.put(replace(waits(world, first), nominated="", refused=4))
    assert one.free() == [0, 16368]


@pytest.mark.parametrize("watched", [True, False])
def test_the_cards_of_a_preempted_pod_are_free_for_the_one_that_preempts_it(
    world: World, one: Replica, *, watched: bool
) -> None:
    """It was never bound: kube-scheduler takes it back and deletes nobody."""
    low = world.pod("low", 16, 60)
    other = world.pod("other", 16, 60, priority=20)
    assert one.bind(other, one.ask(other)) == ""
    assert one.ask(low) == "n1"
    low = waits(world, low)
    vip = world.pod("vip", 16, 60, priority=10)
    assert one.ask(vip) == ""
    assert one.preemption.advise(vip, {"n1": [low.uid]}) == {"n1": [low.uid]}
    if watched:
        world.api.put(replace(low, nominated="", refused=1))
    assert one.ask(low) == "", "what it had is nominated for the other"
    assert one.bind(vip, one.ask(vip)) == ""
    assert set(one.view.ledger.grants()) == {other.uid, vip.uid}


class Storm:
    """Two replicas lead in turn; Bindings are sent twice, are lost, and land late; news come in any order."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.world, self.shown, self.born = rng, World(), list[Pod](), 0
        self.api = self.world.api
        self.api.watchers.clear()
        self.one = self.world.one
        self.other = Replica(self.api, self.world.clock, "vgpu-1")
        self.other.view.node_news.sync(self.api.nodes())
        self.other.view.pod_news.sync(self.api.pods())
        self.sent: list[tuple[Pod, str, Mapping[str, str]]] = []
        self.read, self.reading = self.api.pod, False
        self.api.pod = self.slowly  # type: ignore[method-assign]

    def slowly(self, namespace: str, name: str) -> Pod:
        """A read of a pod, during which another /bind may bind it."""
        found = self.read(namespace, name)
        if not self.reading and self.rng.random() < 0.3:
            self.reading, self.api.on_bind = True, None
            self.one.bind(found, "n1")
            self.reading = False
        return found

    def flies(self, *call: object) -> None:
        """A Binding lands, perhaps later or never, perhaps after news or another /bind; nobody hears of it."""
        pod, node, grant = call
        assert isinstance(pod, Pod)
        assert isinstance(node, str)
        if self.rng.random() < 0.5:
            self.api.land(pod, node, grant)  # type: ignore[arg-type]  # as the fake calls it
            if self.rng.random() < 0.5:
                self.one.hear(self.api.by_name[pod.namespace, pod.name])
        else:
            self.sent.append((pod, node, grant))  # type: ignore[arg-type]
        if self.rng.random() < 0.3:
            self.api.on_bind = None
            self.one.bind(pod, node)
        raise UnknownError("no answer")

    def event(self) -> None:
        pods = list(self.api.by_name.values()) or [self.created()]
        some = self.rng.choice(pods)
        self.shown.append(some)
        happens = self.rng.choices(
            [self.created, lambda: self.asked(some), lambda: self.bound(some, "n1"), self.news,
             lambda: self.ended(some), self.one.turn, self.later, self.handed_over],
            [15, 25, 10, 20, 10, 10, 8, 2],
        )  # fmt: skip
        happens[0]()
        if self.sent and self.rng.random() < 0.3:
            self.land(*self.sent.pop())

    def created(self) -> Pod:
        self.born += 1
        name, mem, priority = f"p{self.born}", self.rng.choice([4, 8, 16]), self.rng.choice([0, 0, 9])
        if self.born % 4 > 1:
            return self.api.put(member(name, 2, f"g{self.born // 4}", mem=mem, priority=priority))
        return self.api.put(pod(name, mem, priority=priority))

    def asked(self, some: Pod) -> None:
        node = self.one.ask(some)
        if node and self.rng.random() < 0.7:
            self.bound(some, node)

    def bound(self, some: Pod, node: str) -> None:
        self.api.on_bind = self.rng.choice([None, refuse, self.flies, self.flies])
        self.one.bind(some, node)

    def news(self) -> None:
        self.one.view.pod_news.see(self.rng.choice(self.shown), watched=self.rng.random() < 0.5)

    def ended(self, some: Pod) -> None:
        self.api.end(some)
        if self.rng.random() < 0.5:
            self.one.lose(some)

    def later(self) -> None:
        self.one.wait(self.rng.choice([0.5, 4.0, RESERVATION_SECONDS]))

    def handed_over(self) -> None:
        self.one, self.other = self.other, self.one
        self.other.leadership.step()
        self.one.lead()

    def land(self, made: Pod, node: str, grant: Mapping[str, str]) -> None:
        found = self.api.by_name.get((made.namespace, made.name))
        if found is not None and not found.node:
            self.api.land(made, node, grant)

    def check(self) -> int:
        """No pod that is known to be bound has a reservation; returns how many such pods there are."""
        for replica in (self.one, self.other):
            for reservation in replica.view.ledger.reservations():
                known = replica.view.pods.get(reservation.pod.uid)
                assert known is None or not known.node, reservation
        return sum(bool(known.node) for known in self.one.view.pods.all())


def test_what_is_known_to_be_bound_has_no_reservation(rng: random.Random) -> None:
    storm, bound = Storm(rng), 0
    for _ in range(2000):
        storm.event()
        bound += storm.check()
    assert bound > 500
