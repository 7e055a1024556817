"""The leader changes while a Binding is on its way: two replicas on one API server, in virtual time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from device_plugin.allocator.explain import as_text
from device_plugin.cluster.filter import NOT_YET
from device_plugin.core.pods import Pod
from device_plugin.kube.errors import UnknownError
from device_plugin.kube.leases import Lease
from tests.cluster.world import Clock, FakeApi, Replica, World


@dataclass
class InFlight:
    """Bindings that the API server received and did not execute yet; their senders hear nothing."""

    api: FakeApi
    sent: list[tuple[Pod, str, Mapping[str, str]]] = field(default_factory=list)

    def hold(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        self.sent.append((pod, node, annotations))
        raise UnknownError("read timed out")

    def land(self) -> None:
        for call in self.sent:
            self.api.land(*call)


@pytest.fixture
def two(world: World) -> Replica:
    made = Replica(world.api, world.clock, "vgpu-1")
    made.follow()
    made.leadership.step()
    return made


@pytest.fixture
def in_flight(world: World, one: Replica) -> InFlight:
    """The first leader sent a Binding of a whole card, and nobody knows what became of it."""
    held = InFlight(world.api)
    world.api.on_bind = held.hold
    for name in ("held", "other"):
        made = world.pod(name, mem=16, cores=60)
        assert one.ask(made) == "n1"
        if name == "held":
            assert one.bind(made)
    world.api.on_bind = None
    return held


def test_a_released_lease_is_not_used_before_the_last_binding_landed(
    world: World, one: Replica, two: Replica, in_flight: InFlight
) -> None:
    # kube-scheduler gives the Lease up on SIGTERM, and the next takes it at once: no fence has run out by then.
    world.api.held = Lease("", world.api.time())
    two.renew()
    one.leadership.step()
    rival = world.pod("rival", mem=16, cores=60)
    for _ in range(4):
        assert two.ask(rival) == ""
        two.wait(1.0)
    in_flight.land()
    two.lead()
    # "other" was reserved by the old leader and never bound: its card is free, the landed one's is not.
    assert two.ask(rival) == "n1"
    assert two.bind(rival) == ""
    assert one.bind(world.api.by_name["default", "other"]).endswith(", not by this replica")
    first, *_ = as_text(one.explainer.view()).splitlines()
    holder = world.api.held.holder
    assert first == f"this replica does not lead: the Lease is held by {holder}, not by this replica"
    grants = [pod.grant() for pod in world.api.by_name.values() if pod.node]
    cards = [s.card for grant in grants if grant for s in grant.slices()]
    assert sorted(cards) == ["n1-0", "n1-1"]
    assert two.view.suspects() == set()


def test_a_restarted_process_does_not_place_before_its_predecessors_last_binding_landed(
    world: World, in_flight: InFlight
) -> None:
    world.api.watchers.clear()
    again = Replica(world.api, world.clock)
    again.follow()
    again.renew()
    world.clock.now += 2.0
    again.renew()
    rival = world.pod("rival", mem=16, cores=60)
    assert again.ask(rival) == ""
    in_flight.land()
    again.lead()
    assert again.ask(rival) == "n1"
    assert sorted(s.card for g in again.view.ledger.grants().values() for s in g.slices()) == [
        "n1-0",
        "n1-1",
    ]


def test_the_very_first_leader_waits_for_nobody() -> None:
    api, clock = FakeApi(), Clock()
    first = Replica(api, clock)
    first.follow()
    first.leadership.step()
    clock.now += 1.0
    first.renew()
    assert first.leader.why_not() == ""


def test_losing_the_lease_frees_what_was_only_reserved(
    one: Replica, two: Replica, in_flight: InFlight
) -> None:
    two.renew()
    one.leadership.step()
    # What is on its way stays held until it is known.
    assert [r.pod.name for r in one.view.ledger.reservations()] == ["held"]
    in_flight.land()
    one.housekeeping.step()
    assert one.view.ledger.reservations() == []
    assert set(one.view.ledger.grants()) == {"uid-held"}


def test_a_new_leader_lists_before_its_first_place(world: World, two: Replica) -> None:
    # Its watch is behind: it has not shown the pod that the old leader bound.
    world.api.watchers.remove(two)
    world.placed("p")
    assert two.free() == [16368, 16368]
    two.lead()
    assert two.free() == [16368 - 8184, 16368]


def test_a_new_leader_that_cannot_list_does_not_place(
    world: World, two: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> list[Pod]:
        raise UnknownError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(world.api, "pods", fails)
        for _ in range(20):
            two.wait(1.0)
            assert two.filter(world.pod("p"), ["n1"]).hopeless == {"n1": NOT_YET}
    two.renew()
    assert two.ask(world.pod("p")) == "n1"


def test_a_lease_is_read_while_pods_are_listed(
    world: World, two: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = world.api.pods

    def slowly() -> Sequence[Pod]:
        found = listed()
        for _ in range(20):
            world.clock.now += 1.0
            world.api.held = Lease("vgpu-1_x", world.api.time())
            two.leadership.step()
        return found

    monkeypatch.setattr(world.api, "pods", slowly)
    two.lead()
    assert two.ask(world.pod("p")) == "n1"


def test_a_list_from_before_the_fence_fell_begins_no_term(
    world: World, two: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Lease was another replica's for a moment, while we listed: what it bound is not on our list."""
    listed = world.api.pods
    lists = []

    def while_another_leads() -> Sequence[Pod]:
        lists.append(found := listed())
        if len(lists) == 1:
            world.clock.now += 60.0
            for holder in ("vgpu-0_x", "vgpu-1_x", "vgpu-1_x"):
                world.api.held = Lease(holder, world.api.time())
                two.leadership.step()
            assert two.leader.fenced()
        return found

    monkeypatch.setattr(world.api, "pods", while_another_leads)
    two.lead()
    assert len(lists) == 2


def test_a_term_that_was_interrupted_begins_anew_with_a_list(world: World, one: Replica) -> None:
    one.ask(world.pod("p"))
    # Suspended, say: nothing ran for a minute, and another one led meanwhile.
    world.api.watchers.remove(one)
    world.clock.now += 60.0
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()
    two.lead()
    stranger = world.pod("stranger", mem=16, cores=60)
    assert two.bind(stranger, two.ask(stranger)) == ""
    one.lead()
    assert one.view.ledger.reservations() == []
    assert one.view.ledger.grant("uid-stranger") is not None
