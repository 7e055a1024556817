"""/bind of pods with claims: the claim's writes, then the Binding; and crashes, conflicts and lost answers."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec import structs

from device_plugin.core.contract.claims import FINALIZER, Claim, Device, read_claim
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.kube.errors import ConflictError, UnknownError
from device_plugin.kube.leases import Lease
from tests.builders.cards import inventory, preparing
from tests.builders.claims import CLASS, claim, claim_pod
from tests.builders.pods import HALF, pod
from tests.cluster.world import Replica, World, refuse

ALL, HELD = [16368, 16368], [16368 - HALF, 16368]
FIRST, SECOND = "card-0000-19-00-0", "card-0000-1a-00-0"
WRITES = [("claim", "slice"), ("claim status", "slice"), ("bind", "p")]


class CrashError(Exception):
    """The process is killed here."""


@pytest.fixture
def world() -> World:
    made = World(claims=True)
    made.api.put_claim(claim())
    return made


def stored(world: World, name: str = "slice") -> Claim:
    return read_claim(world.api.claims["default", name])


def placed(world: World, name: str = "p") -> Pod:
    """A pod with the claim, for which slices are reserved."""
    made = world.api.put(claim_pod(name))
    assert world.one.ask(made) == "n1"
    world.api.written.clear()
    return made


def crashing(what: str) -> Callable[[str], None]:
    """A hook that ends the process after the write of this subresource."""

    def crash(subresource: str) -> None:
        if subresource == what:
            raise CrashError

    return crash


def never_answers(world: World, seconds: float) -> Callable[[str], None]:
    """A hook by which each write takes this time, and gets no answer."""

    def slow(_: str) -> None:
        world.clock.now += seconds
        raise UnknownError("read timed out")

    return slow


def another_leader(world: World) -> Replica:
    """The replica that leads after the first one was killed."""
    world.api.watchers.remove(world.one)
    world.api.after_claim = world.api.on_claim = lambda _: None
    world.api.on_bind = None
    two = Replica(world.api, world.clock, "vgpu-1", claims=True)
    two.follow()
    two.lead()
    world.api.written.clear()
    return two


def consistent(world: World, name: str = "p") -> None:
    """The claim says what the grant on the pod says."""
    bound = world.api.by_name["default", name]
    grant, found = bound.grant(), stored(world)
    assert grant is not None
    cards = {each.uuid: each for each in inventory("n1").cards} | {
        each.uuid: each for each in inventory("n2").cards
    }
    devices = ["card-" + cards[each.card].pci.replace(":", "-").replace(".", "-") for each in grant.slices()]
    assert grant.claims == {"main": found.uid}
    assert found.devices == tuple(Device(CLASS, bound.node, each) for each in devices)
    assert found.reserved == (bound.uid,)
    assert found.protected


def test_the_claim_is_written_twice_and_then_the_binding(world: World, one: Replica) -> None:
    made = placed(world)
    assert one.bind(made) == ""
    assert world.api.written == WRITES
    consistent(world)
    found = world.api.claims["default", "slice"]
    (result,) = found["status"]["allocation"]["devices"]["results"]
    assert result["consumedCapacity"] == {"memory": "8192Mi", "cores": "30"}
    assert found["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    assert found["metadata"]["finalizers"] == [FINALIZER]
    assert one.counts.outcomes == {"bound": 1}


@pytest.fixture
def ready(world: World) -> Pod:
    """A pod with slices reserved, whose claim has the finalizer already, as the policy makes it."""
    world.api.put_claim(protected())
    return placed(world)


def protected() -> dict[str, Any]:
    made = claim()
    made["metadata"]["finalizers"] = [FINALIZER]
    return made


def test_a_claim_with_the_finalizer_is_written_once(world: World, one: Replica, ready: Pod) -> None:
    assert one.bind(ready) == ""
    assert world.api.written == WRITES[1:]
    consistent(world)


def test_a_claim_that_has_changed_since_it_was_seen_is_read_first(
    world: World, one: Replica, ready: Pod
) -> None:
    """Without its finalizer the claim would not be freed."""
    world.api.watchers.clear()
    world.api.put_claim(claim())
    assert one.bind(ready) == ""
    assert world.api.written == WRITES
    consistent(world)


def test_a_claim_with_the_finalizer_that_is_being_deleted_is_not_written(
    world: World, one: Replica, ready: Pod
) -> None:
    found = protected()
    found["metadata"]["deletionTimestamp"] = "2026-11-21T07:00:00Z"
    world.api.put_claim(found)
    assert "it is being deleted" in one.bind(ready)
    assert world.api.written == []


def test_a_claim_of_another_uid_is_not_written_by_the_version_of_the_old_one(
    world: World, one: Replica, ready: Pod
) -> None:
    world.api.watchers.clear()
    again = protected()
    again["metadata"]["uid"] = "again"
    world.api.put_claim(again)
    assert one.bind(ready) == "ResourceClaim slice was created again after the pod was placed"
    assert world.api.written == []
    assert one.free() == ALL


@pytest.mark.parametrize("carried_out", [True, False])
def test_after_a_single_write_without_an_answer_the_claim_is_read(
    world: World, one: Replica, ready: Pod, carried_out: bool
) -> None:
    lost = [UnknownError("read timed out")]

    def unheard(_: str) -> None:
        if lost:
            raise lost.pop()

    if carried_out:
        world.api.watchers.clear()
        world.api.after_claim = unheard
    else:
        world.api.on_claim = unheard
    assert one.bind(ready) == ""
    assert world.api.written == WRITES[1:]
    consistent(world)


def test_a_single_write_is_fenced_and_has_the_deadline_of_all(world: World, one: Replica, ready: Pod) -> None:
    began = world.clock.now
    world.api.on_claim = never_answers(world, 3.0)
    assert "was not written in time" in one.bind(ready)
    assert world.clock.now - began <= 6.0
    one.ask(ready)
    world.api.held = Lease("vgpu-1_x", world.api.time())
    one.leadership.step()
    assert one.bind(ready).startswith("the Lease is held by vgpu-1_x")
    assert world.api.written == []


def test_slices_of_several_cards_are_in_one_claim(world: World, one: Replica) -> None:
    world.api.put_claim(claim(count=2))
    assert one.bind(placed(world)) == ""
    assert [each.device for each in stored(world).devices] == [FIRST, SECOND]
    consistent(world)


def test_each_container_has_its_own_claim(world: World, one: Replica) -> None:
    world.api.put_claim(claim("more", {"memory": "4Gi"}))
    containers = tuple(
        Container(name, ContainerKind.MAIN, {}, (used,))
        for name, used in (("main", "gpu"), ("side", "other"))
    )
    made = world.api.put(claim_pod("p", containers=containers, claims={"gpu": "slice", "other": "more"}))
    one.ask(made)
    assert one.bind(made) == ""
    grant = world.api.by_name["default", "p"].grant()
    assert grant is not None
    assert grant.claims == {"main": "uid-slice", "side": "uid-more"}
    assert [stored(world, name).reserved for name in ("slice", "more")] == [("uid-p",), ("uid-p",)]


@pytest.mark.parametrize(
    ("crash", "left"),
    [("", ["claim status", "bind"]), ("status", ["bind"])],
)
def test_after_a_crash_a_new_leader_writes_only_what_is_missing(
    world: World, one: Replica, crash: str, left: list[str]
) -> None:
    made = placed(world)
    world.api.after_claim = crashing(crash)
    with pytest.raises(CrashError):
        one.bind(made)
    two = another_leader(world)
    assert two.ask(made) == "n1"
    assert two.bind(made) == ""
    assert [what for what, _ in world.api.written] == left
    consistent(world)


def test_after_a_crash_before_the_binding_another_node_gets_the_pod(world: World, one: Replica) -> None:
    made = placed(world)
    world.api.after_claim = crashing("status")
    with pytest.raises(CrashError):
        one.bind(made)
    world.node("n2", preparing("n2"))
    two = another_leader(world)
    assert two.ask(made, "n2") == "n2"
    assert two.bind(made, "n2") == ""
    assert [what for what, _ in world.api.written] == ["claim status", "claim status", "bind"]
    consistent(world)
    assert world.api.by_name["default", "p"].node == "n2"


def test_after_a_crash_behind_the_binding_the_pod_is_bound_and_nothing_is_written(
    world: World, one: Replica
) -> None:
    made = placed(world)

    def crash(pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        world.api.land(pod, node, annotations)
        raise CrashError

    world.api.on_bind = crash
    with pytest.raises(CrashError):
        one.bind(made)
    two = another_leader(world)
    assert two.bind(made) == ""
    assert world.api.written == []
    consistent(world)


def test_a_pod_that_is_gone_meanwhile_is_not_bound(world: World, one: Replica) -> None:
    made = placed(world)

    def goes(subresource: str) -> None:
        if subresource == "status":
            world.api.end(made)

    world.api.after_claim = goes
    assert "not found" in one.bind(made)
    assert one.counts.outcomes == {"gone": 1}
    assert one.free() == ALL


def test_a_claim_that_was_made_again_is_not_written(world: World, one: Replica) -> None:
    made = placed(world)
    world.api.watchers.clear()
    world.api.put_claim(claim(uid="again"))
    assert one.bind(made) == "ResourceClaim slice was created again after the pod was placed"
    assert world.api.written == []
    assert one.free() == ALL


def test_a_claim_that_is_gone_or_being_deleted_is_not_written(world: World, one: Replica) -> None:
    made = placed(world)
    world.api.watchers.clear()
    found = claim()
    found["metadata"] |= {"deletionTimestamp": "2026-11-21T07:00:00Z", "finalizers": [FINALIZER]}
    world.api.put_claim(found)
    assert one.bind(made) == "ResourceClaim slice is being deleted"
    one.ask(made)
    world.api.remove_claim("slice")
    assert "ResourceClaim slice is gone" in one.bind(made)
    assert world.api.written == []
    assert one.free() == ALL


def test_conflicts_with_the_claim_controller_are_met_by_reading_again(world: World, one: Replica) -> None:
    made, conflicts = placed(world), ["", "status"]

    def changed(subresource: str) -> None:
        if subresource in conflicts:
            conflicts.remove(subresource)
            world.api.put_claim(world.api.claims["default", "slice"])

    world.api.on_claim = changed
    assert one.bind(made) == ""
    consistent(world)
    assert not conflicts
    assert world.api.written == WRITES


def test_a_claim_that_changes_all_the_time_does_not_hold_bind_for_ever(world: World, one: Replica) -> None:
    made = placed(world)

    def changed(_: str) -> None:
        raise ConflictError("the object has been modified")

    world.api.on_claim = changed
    assert "could not be written in 8 tries" in one.bind(made)
    assert one.counts.outcomes == {"unread": 1}
    assert one.free() == ALL


def test_all_writes_share_one_deadline(world: World, one: Replica) -> None:
    made = placed(world)
    began = world.clock.now
    world.api.on_claim = never_answers(world, 1.5)
    assert "was not written in time" in one.bind(made)
    assert world.clock.now - began <= 5.0
    assert world.api.deadline == began + 4.0
    assert one.free() == ALL
    assert ("bind", "p") not in world.api.written


def test_a_write_that_was_carried_out_without_an_answer_is_not_repeated(world: World, one: Replica) -> None:
    made = placed(world)

    def lost(_: str) -> None:
        raise UnknownError("read timed out")

    world.api.after_claim = lost
    assert one.bind(made) == ""
    assert world.api.written == WRITES
    consistent(world)


@pytest.mark.parametrize("before", ["", "status", "bind"])
def test_each_write_is_fenced(world: World, one: Replica, before: str) -> None:
    made, until = placed(world), world.api.until
    written = ["", "status", "bind"].index(before)

    def lose_the_lease() -> None:
        if len(world.api.written) == written:
            world.api.held = Lease("vgpu-1_x", world.api.time())
            one.leadership.step()

    def begin(deadline: float) -> Any:
        lose_the_lease()
        return until(deadline)

    world.api.until = begin  # type: ignore[method-assign]
    world.api.after_claim = lambda _: lose_the_lease()
    assert one.bind(made).startswith("the Lease is held by vgpu-1_x")
    assert [what for what, _ in world.api.written] == ["claim", "claim status"][:written]
    assert one.counts.outcomes == {"fenced": 1}
    assert one.free() == ALL


def test_a_refused_binding_clears_the_claim(world: World, one: Replica) -> None:
    made = placed(world)
    world.api.on_bind = refuse
    assert "only the allocator" in one.bind(made)
    assert stored(world).devices == ()
    assert one.free() == ALL
    assert one.counts.outcomes == {"refused": 1}


def test_a_lost_binding_is_settled_by_reading_the_pod(world: World, one: Replica) -> None:
    made = placed(world)

    def unheard(pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        world.api.watchers.clear()
        world.api.land(pod, node, annotations)
        raise UnknownError("read timed out")

    world.api.on_bind = unheard
    assert one.bind(made) == ""
    consistent(world)


def test_a_claim_of_a_bound_pod_is_never_cleared_for_another_pod(world: World, one: Replica) -> None:
    """Kubernetes' claim controller reserves the claim for any bound pod that names it."""
    made = placed(world)
    other = world.api.put(structs.replace(claim_pod("other", scheduler="theirs"), node="n1"))
    found = world.api.claims["default", "slice"]
    found["metadata"]["finalizers"] = [FINALIZER]
    results = [{"request": "card", "driver": CLASS, "pool": "n9", "device": "d"}]
    found["status"] = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": "other", "uid": other.uid}],
    }
    world.api.put_claim(found)
    assert one.bind(made) == "ResourceClaim slice is used by pod other: give each pod a claim of its own"
    assert world.api.written == []
    world.api.remove(other)
    assert one.bind(made) == ""
    consistent(world)


def test_a_claim_of_a_form_that_cannot_be_read_is_refused(world: World, one: Replica) -> None:
    made = placed(world)
    results = [{"request": "card", "driver": CLASS, "pool": "n9", "device": "d"}]
    world.api.put_claim({**claim(), "status": {"allocation": {"devices": {"results": results}}}})
    world.api.get = lambda *_: {"metadata": {"name": 1}}  # type: ignore[method-assign]
    assert one.bind(made).startswith("ResourceClaim slice: Expected")
    assert one.free() == ALL


def test_amounts_that_the_api_server_writes_in_its_own_way_are_the_same(world: World, one: Replica) -> None:
    made = placed(world)
    world.api.on_bind = refuse_unclear
    assert one.bind(made)
    found = world.api.claims["default", "slice"]
    found["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"] = {
        "memory": "8Gi",
        "cores": "30",
    }
    world.api.put_claim(found)
    world.clock.now += 6.0
    one.renew()
    one.binder.settle()
    world.api.on_bind = None
    world.api.written.clear()
    assert one.bind(made) == ""
    assert world.api.written == [("bind", "p")]


def refuse_unclear(*_: object) -> None:
    raise UnknownError("read timed out")


def test_a_pod_that_asks_for_nothing_gets_a_binding_without_a_grant(world: World, one: Replica) -> None:
    made = world.api.put(pod("plain", containers=()))
    assert one.bind(made) == ""
    bound = world.api.by_name["default", "plain"]
    assert (bound.node, bound.annotations) == ("n1", {})
    assert one.bind(made) == ""
    assert world.api.written == [("bind", "plain")]
    assert "is bound to n1 already" in one.bind(made, "n2")
    assert one.free() == ALL


def test_a_binding_without_a_grant_is_fenced_and_refused_in_words(world: World, one: Replica) -> None:
    made = world.api.put(pod("plain", containers=()))
    world.api.on_bind = refuse
    assert "only the allocator" in one.bind(made)
    world.api.on_bind = refuse_unclear
    assert "read timed out" in one.bind(made)
    world.api.end(made)
    assert "not found" in one.bind(made)
    world.clock.now += 20.0
    assert "the Lease" in one.bind(made)
    assert one.counts.outcomes == {"refused": 1, "unknown": 1, "gone": 1, "fenced": 1}


def test_where_claims_are_not_served_a_pod_that_asks_for_nothing_is_not_bound() -> None:
    without = World()
    made = without.api.put(pod("plain", containers=()))
    assert without.one.bind(made) == "pod default/plain asks for no slice"
    assert without.api.written == []
