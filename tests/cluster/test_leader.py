"""Who may act, and from when: the Lease as one replica sees it."""

import pytest

from device_plugin.cluster.filter import NOT_YET
from device_plugin.cluster.leader import Leader
from device_plugin.kube.errors import ApiError, UnknownError
from device_plugin.kube.leases import Lease
from tests.builders.pods import grant, with_grant
from tests.cluster.world import Clock, Replica, World


def _renewed(clock: Clock, holder: str = "vgpu-1_x") -> Leader:
    """A leader whose Lease was seen to change between two reads at this moment."""
    leader = Leader("vgpu-1", clock)
    leader.observe(Lease(holder, "before"), clock())
    leader.observe(Lease(holder, "now"), clock())
    return leader


@pytest.mark.parametrize(("age", "allowed"), [(0.0, True), (9.9, True), (10.1, False)])
def test_the_fence_falls_ten_seconds_after_the_renewal(age: float, *, allowed: bool) -> None:
    clock = Clock()
    leader = _renewed(clock)
    clock.now += age
    assert leader.fenced() is allowed


@pytest.mark.parametrize("holder", ["vgpu-10_x", "vgpu_x", "vgpu-1", "", "xvgpu-1_x"])
def test_a_name_that_merely_begins_alike_is_another_ones(holder: str) -> None:
    assert "held by" in _renewed(Clock(), holder).why_not()


def test_the_age_counts_from_the_start_of_the_last_read_that_did_not_show_the_renewal() -> None:
    clock = Clock()
    leader = Leader("vgpu-1", clock)
    leader.observe(Lease("vgpu-1_x", "before"), clock())
    assert not leader.fenced(), "a Lease that was never seen to change has no known age"
    asked = clock.now
    clock.now += 4
    leader.observe(Lease("vgpu-1_x", "now"), clock())
    clock.now = asked + 9.9
    assert leader.fenced()
    clock.now = asked + 10.1
    assert not leader.fenced()


def test_a_lease_that_cannot_be_read_is_trusted_until_its_age_ends() -> None:
    clock = Clock()
    leader = _renewed(clock)
    leader.missed("no answer")
    assert leader.fenced()
    assert "no answer" in leader.unread()
    clock.now += 10.1
    assert not leader.fenced()


def test_a_new_leader_lists_before_its_first_place(world: World) -> None:
    """What the former leader bound a moment ago is on no watch of the new one yet."""
    two = Replica(world.api, world.clock, "vgpu-1")
    two.view.node_news.sync(world.api.nodes())
    two.view.pod_news.sync(world.api.pods())
    two.view.job_news.sync(())
    last = world.placed("last")
    assert two.view.ledger.grant(last.uid) is None
    two.lead()
    assert two.view.ledger.grant(last.uid) is not None


def test_the_nodes_are_in_the_table_before_a_pod_is_placed(world: World) -> None:
    """Thousands of nodes take most of a second, for which the first pods would wait."""
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()
    table = two.allocator.placer.table
    assert not table.nodes
    two.lead()
    assert table.nodes == tuple(world.api.by_node)


def test_a_leader_that_cannot_list_places_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()

    def fail() -> None:
        raise UnknownError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(world.api, "pods", fail)
        for _ in range(3):
            two.renew()
        assert "before the first pod is placed" in two.leader.why_not()
        assert two.filter(world.pod("p"), ["n1"]).hopeless == {"n1": NOT_YET}
    two.lead()
    assert two.ask(world.pod("q")) == "n1"


def test_losing_the_lease_drops_what_waits(world: World, one: Replica) -> None:
    made = world.pod("p")
    assert one.ask(made) == "n1"
    Replica(world.api, world.clock, "vgpu-1").renew()
    one.leadership.step()
    assert one.free() == [16368, 16368]
    assert one.filter(made, ["n1"]).hopeless == {"n1": NOT_YET}
    assert "vgpu-1" in one.bind(made)
    assert world.api.written == []


def test_a_fence_that_fell_unseen_ends_the_term(world: World, one: Replica) -> None:
    """Another replica may have led and given the Lease back between two of our reads."""
    made = world.pod("p")
    one.ask(made)
    one.clock.now += 60
    world.api.put(with_grant(theirs := world.pod("theirs"), grant(theirs).encode()))
    one.renew()
    assert one.view.ledger.reservation(made.uid) is None
    one.lead()
    assert one.view.ledger.grant(theirs.uid) is not None


def test_a_binding_in_flight_over_a_change_of_leaders_is_never_granted_twice(
    world: World, one: Replica
) -> None:
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()
    flying = world.pod("flying", mem=16, cores=60)

    def late(*call: object) -> None:
        """It lands, its answer is lost, and meanwhile the other replica takes over."""
        world.api.land(*call)  # type: ignore[arg-type]  # as the fake calls it
        world.api.on_bind = None
        two.lead()
        raise UnknownError("no answer")

    assert one.ask(flying) == "n1"
    world.api.on_bind = late
    one.bind(flying)
    for name in ("a", "b", "c"):
        made = world.pod(name, mem=16, cores=60)
        if where := two.ask(made):
            assert two.bind(made, where) == ""
    assert set(two.view.ledger.grants()) == {flying.uid, "uid-a"}
    assert two.view.suspects() == set()


def test_no_api_error_ends_the_loop(world: World, one: Replica) -> None:
    world.api.away = True
    for _ in range(20):
        world.clock.now += 1
        try:
            one.leadership.step()
            one.leadership.begin()
            one.housekeeping.step()
        except ApiError as error:
            pytest.fail(f"the loop would end: {error}")
    assert one.leader.why_not()
    world.api.away = False
    one.lead()
