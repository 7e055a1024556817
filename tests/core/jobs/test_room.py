"""LedgerRoom: replicas are taken together or not at all, and trials leave nothing behind."""

import random
from dataclasses import replace

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.room import LedgerRoom
from device_plugin.core.ledger import Ledger
from device_plugin.core.node_constraints import (
    NodeConstraints,
    NodeIndex,
    NodeTraits,
    Operator,
    Requirement,
    Taint,
)
from device_plugin.core.placement import Placer
from device_plugin.core.requests import PodRequest, Selector
from tests.builders.cards import card, inventory
from tests.builders.jobs import job_spec
from tests.builders.requests import slice_request, whole_request


def ledger(*nodes: str, cards: int = 2) -> Ledger:
    made = Ledger()
    for name in nodes:
        made.set_node(name, inventory(name, cards), HostAmounts(cpu_milli=8000, memory_mib=8192))
    return made


def test_replicas_are_taken_together_or_not_at_all() -> None:
    held = ledger("a", "b")
    room, job = LedgerRoom(held, Placer(held), {}), job_spec("j", most=8)
    assert room.free(job) == room.capacity(job) == 4
    assert not room.take(job, 5)
    assert held.holdings() == {}
    assert room.take(job, 3)
    assert (room.free(job), room.capacity(job)) == (1, 4)
    assert len(held.holdings()) == 3


def test_cards_that_do_not_lie_together_are_no_room_for_a_replica_of_several() -> None:
    held = ledger("a", "b")
    room = LedgerRoom(held, Placer(held), {})
    pair = replace(job_spec("pair"), request=whole_request("", 2))
    assert room.take(replace(job_spec("one"), request=whole_request("", 1)), 1)
    assert room.take(pair, 1)
    assert (room.free(pair), room.take(pair, 1)) == (0, False)
    assert room.free(job_spec("other")) == 1


def test_the_last_replicas_leave() -> None:
    held = ledger("a", "b")
    job = job_spec("j", most=4)
    room = LedgerRoom(held, Placer(held), {})
    assert room.take(job, 4)
    again = LedgerRoom(held, Placer(held), {job.key: sorted(map(str, held.holdings()))})
    again.give(job, 3)
    assert list(held.holdings()) == ["default/j/0"]
    assert again.take(job, 1)
    assert sorted(held.holdings()) == ["default/j/0", "default/j/1"]


def test_a_job_of_which_fewer_replicas_hold_cards_gives_what_it_has() -> None:
    held = ledger("a", "b")
    job = job_spec("j", most=4)
    assert LedgerRoom(held, Placer(held), {}).take(job, 2)
    again = LedgerRoom(held, Placer(held), {job.key: sorted(map(str, held.holdings()))})
    again.give(job, 3)
    assert again.free(job) == 4
    LedgerRoom(held, Placer(held), {}).give(job, 1)


def test_a_trial_is_undone_unless_it_is_committed() -> None:
    held = ledger("a", "b")
    job = job_spec("j", most=4)
    room = LedgerRoom(held, Placer(held), {})
    with room.trial() as outer:
        assert room.take(job, 1)
        with room.trial():
            room.give(job, 1)
            assert room.take(job, 4)
        assert sorted(held.holdings()) == ["default/j/0"]
        outer.commit()
    with room.trial():
        room.give(job, 1)
    room.give(job, 1)
    assert held.holdings() == {}


def test_the_capacity_does_not_count_what_is_held_and_does_count_hosts() -> None:
    held = ledger("a", cards=4)
    room = LedgerRoom(held, Placer(held), {})
    asked = slice_request("", 4, 15, host=HostAmounts(cpu_milli=4000))
    job = replace(job_spec("j", most=4), request=asked)
    assert room.take(job_spec("whole"), 4)
    assert (room.free(job), room.capacity(job)) == (0, 2)


def test_a_job_without_cards_needs_no_room() -> None:
    held = ledger()
    room = LedgerRoom(held, Placer(held), {})
    job = replace(job_spec("ps", most=3), request=PodRequest("", ()), cards=0.0)
    assert room.take(job, 3)
    room.give(job, 2)
    assert room.free(job) == room.capacity(job) > 1000
    assert held.holdings() == {}


def test_cards_in_use_are_those_of_the_scarcer_resource_without_what_takes_no_slices() -> None:
    held = ledger("a", "b")
    held.set_node("c", Inventory(inventory("c").cards, serving=False), HostAmounts())
    room = LedgerRoom(held, Placer(held), {})
    assert (room.cards(), room.idle()) == (4.0, 4.0)
    assert room.take(replace(job_spec("j"), request=slice_request("", 4, 30), cards=0.5), 1)
    assert room.idle() == 3.5


def test_replicas_that_are_counted_again_after_a_change_are_those_that_fit_then() -> None:
    held = ledger("a", "b")
    room, job = LedgerRoom(held, Placer(held), {}), job_spec("j", most=4)
    assert room.free(job) == 4
    with room.trial():
        assert room.take(job, 3)
        assert room.free(job) == 1
    assert room.free(job) == 4


def test_an_empty_pool_may_hold_jobs_whose_shares_of_memory_and_of_core_groups_sum_to_its_cards() -> None:
    held = ledger("a")
    room = LedgerRoom(held, Placer(held), {})

    def job(name: str, least: int, request: PodRequest) -> JobSpec:
        return replace(job_spec(name, least=least, most=least), request=request)

    memory, cores = slice_request("", mem=12, cores=1), slice_request("", mem=1, cores=45)
    whole = job("whole", 1, whole_request("", 1))
    assert room.may_hold([job("memory", 2, memory), job("cores", 2, cores)])
    assert room.may_hold([job("memory", 1, memory), whole])
    assert not room.may_hold([job("memory", 2, memory), whole])
    assert not room.may_hold([job("cores", 2, cores), whole])
    master = replace(job("master", 9, PodRequest("", ())), cards=0.0)
    assert room.may_hold([master, whole, job("other", 1, whole_request("", 1))])
    assert not room.may_hold([master, whole, job("other", 2, whole_request("", 1))])
    assert room.take(whole, 1)
    assert room.may_hold([whole, job("other", 1, whole_request("", 1))])


def test_cards_that_only_one_of_the_jobs_may_use_count_too() -> None:
    held = ledger("a", "b", cards=1)
    room = LedgerRoom(held, Placer(held), {})
    one = replace(job_spec("one"), request=replace(whole_request("", 1), uuids=Selector("a-0")))
    assert room.may_hold([one, job_spec("any")])


def on_nodes(*names: str) -> NodeConstraints:
    """A node affinity to the nodes of these names."""
    return NodeConstraints((Requirement("metadata.name", Operator.IN, names, by_name=True),))


def test_replicas_go_only_where_their_constraints_let_them() -> None:
    held = ledger("a", "b", "c")
    index = NodeIndex([NodeTraits("a", {}), NodeTraits("b", {}), NodeTraits("c", {}, (Taint("k"),))])
    room = LedgerRoom(held, Placer(held), {}, index)
    on_b, anywhere = job_spec("b", most=8, nodes=on_nodes("b")), job_spec("any", most=8)
    assert (room.free(on_b), room.capacity(on_b), room.free(anywhere), room.capacity(anywhere)) == (
        2,
        2,
        4,
        4,
    )
    assert not room.take(on_b, 3)
    assert room.take(on_b, 1)
    assert room.take(on_b, 1)
    assert not room.take(on_b, 1)
    assert (room.free(on_b), room.capacity(on_b), room.free(anywhere)) == (0, 2, 2)
    assert {holding.node for holding in held.holdings().values()} == {"b"}
    assert room.givers([job_spec("x", nodes=on_nodes("a", "c"))]) == set()
    assert room.givers([job_spec("x", nodes=on_nodes("a")), job_spec("y", nodes=on_nodes("b"))]) == {on_b.key}
    nowhere = job_spec("x", nodes=on_nodes("gone"))
    assert (room.free(nowhere), room.capacity(nowhere), room.take(nowhere, 1)) == (0, 0, False)
    assert "metadata.name=b (1 of 3 nodes)" in room.limits(on_b)
    assert "1 of 3 nodes are cordoned" in room.limits(anywhere)
    assert LedgerRoom(held, Placer(held), {}).limits(on_b) == ""
    untainted = LedgerRoom(held, Placer(held), {}, NodeIndex([NodeTraits(name, {}) for name in "abc"]))
    assert untainted.givers([anywhere]) is None


def test_an_empty_pool_may_hold_jobs_by_the_cards_of_the_nodes_where_they_may_go() -> None:
    held = ledger("a", "b")
    room = LedgerRoom(held, Placer(held), {}, NodeIndex([NodeTraits("a", {}), NodeTraits("b", {})]))
    one, other = (job_spec(name, least=2, most=2, nodes=on_nodes("a")) for name in ("x", "y"))
    assert not room.may_hold([one, other])
    assert room.may_hold([one, replace(other, nodes=on_nodes("b"))])


def test_a_node_that_the_index_does_not_know_yet_is_not_used_by_constrained_jobs() -> None:
    held = ledger("a", "b")
    room = LedgerRoom(
        held, Placer(held), {}, NodeIndex([NodeTraits("b", {}), NodeTraits("z", {}, (Taint("k"),))])
    )
    assert room.free(job_spec("j")) == 2
    assert room.take(job_spec("j"), 2)
    assert {holding.node for holding in held.holdings().values()} == {"b"}


def test_whole_cards_are_taken_of_the_fullest_node_as_place_takes_them() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(30):
        rooms, ledgers = [], [ledger(*(f"n{number}" for number in range(4)), cards=4) for _ in range(2)]
        for held in ledgers:
            held.set_node("sick", Inventory((card("sick-0", healthy=False), card("sick-1"))))
            rooms.append(LedgerRoom(held, Placer(held), {}))
        spread = rng.random() < 0.2
        for number in range(20):
            asked = replace(
                whole_request("", rng.randint(1, 3)), host=HostAmounts(cpu_milli=rng.choice((0, 1500)))
            )
            job = job_spec(f"j{number}", request=replace(asked, policy="spread" if spread else ""))
            # A list of cards, even of all, is decided by place().
            named = replace(asked, uuids=Selector("!no-such-card"), policy=job.request.policy)
            count = rng.choice((1, 1, 2, 5))
            taken = [
                room.take(replace(job, request=each), count)
                for room, each in zip(rooms, (job.request, named), strict=True)
            ]
            assert taken[0] == taken[1]
            if number % 5 == 4:
                for room in rooms:
                    room.give(job, 1)
        one, other = ({name: set(made.slices()) for name, made in held.grants().items()} for held in ledgers)
        assert one == other
