"""Searches: what they remember is what another look would find, and what they cost is bounded for each user."""

import random
from dataclasses import replace
from weakref import ref

import pytest

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.job import JobSpec, JobState
from device_plugin.core.jobs.plan import Admit
from device_plugin.core.jobs.room import LedgerRoom
from device_plugin.core.jobs.round_budget import ROUND_LOOKS
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.jobs.search import Search
from device_plugin.core.ledger import Ledger
from device_plugin.core.node_constraints import NodeConstraints, NodeIndex, NodeTraits, Operator, Requirement
from device_plugin.core.placement import Placer
from device_plugin.core.placement.fit import SearchBudget
from device_plugin.core.requests import PodRequest, Request
from tests.builders.cards import FAMILY, card, inventory
from tests.builders.jobs import job_spec
from tests.builders.requests import slice_request, whole_request

HOST = HostAmounts(64_000, 640_000)
NAMES = [f"n{number}" for number in range(10)]


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger()
    for name in NAMES:
        made.set_node(name, inventory(name), HOST)
    return made


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The nodes of each search for one replica: None for all."""
    found, find = list[object](), Placer.find

    def noted(placer: Placer, request: PodRequest, nodes: object = None, **more: object) -> object:
        found.append(nodes)
        return find(placer, request, nodes, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Placer, "find", noted)
    return found


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The looks that were taken, added up."""
    taken, spend = [0], SearchBudget.spend

    def counted(budget: SearchBudget, count: int) -> bool:
        taken[0] += count
        return spend(budget, count)

    monkeypatch.setattr(SearchBudget, "spend", counted)
    return taken


def grant(pod: str, node: str, uuid: str, mem_mib: int = 16368, cores: int = 60) -> Grant:
    return Grant(pod, node, {"main": (Slice(uuid, mem_mib, tuple(range(cores))),)})


def full(ledger: Ledger, *names: str) -> None:
    for name in names:
        for slot in range(2):
            ledger.hold(grant(f"p-{name}-{slot}", name, f"{name}-{slot}"))


def test_a_refusal_is_remembered_until_a_node_changes_and_then_only_that_one_is_looked_at(
    ledger: Ledger, searched: list[object]
) -> None:
    full(ledger, *NAMES)
    search, job = Search(ledger, Placer(ledger)), job_spec("j")
    for _ in range(3):
        search.begin({"a"})
        assert search.take(job, ["j/0"], None) is None
    assert searched == [None]
    with ledger.transaction():
        ledger.release("p-n3-0")
    assert search.take(job, ["j/0"], None) is None
    assert searched == [None], "what was rolled back is no change"
    ledger.release("p-n7-1")
    made = search.take(job, ["j/0"], None)
    assert made is not None
    assert [each.node for each in made] == ["n7"]
    assert searched == [None, ("n7",)]
    assert search.take(replace(job, key=("b", "j")), ["b/0"], None) is None
    assert searched == [None, ("n7",), ("n7",)], "another job that asks for as much"


def test_a_refusal_on_some_nodes_is_none_on_others(ledger: Ledger) -> None:
    full(ledger, *NAMES[:5])
    index = NodeIndex(NodeTraits(name, {"half": str(number // 5)}) for number, name in enumerate(NAMES))
    search, job = Search(ledger, Placer(ledger)), job_spec("j")

    def going(value: str) -> object:
        nodes = index.allowed(NodeConstraints((Requirement("half", Operator.IN, (value,)),)))
        return search.take(job, [f"j/{value}"], nodes)

    assert going("0") is None
    assert going("1") is not None
    assert going("0") is None
    ledger.release("p-n9-0")
    assert going("0") is None, "it changed where the job does not go"


def test_a_refusal_goes_with_its_job(ledger: Ledger) -> None:
    search, request = Search(ledger, Placer(ledger)), whole_request("", 3)
    job = job_spec("j", request=request)
    pool = search.empty_pool(None)
    assert (search.take(job, ["j/0"], None), search.capacity(job, pool, closed=False)) == (None, 0)
    kept = ref(request)
    del job, request
    assert kept() is None, "a tenant may create and delete as many Jobs as he likes"


def test_what_is_known_of_an_empty_pool_lasts_as_long_as_its_nodes(ledger: Ledger) -> None:
    search = Search(ledger, Placer(ledger))
    pool = search.empty_pool(None)
    full(ledger, "n0")
    assert search.empty_pool(None) is pool
    assert search.capacity(job_spec("j"), pool, closed=False) == 20
    ledger.set_node("n0", inventory("n0", 1), HOST)
    again = search.empty_pool(None)
    assert again is not pool
    assert search.capacity(job_spec("j"), again, closed=False) == 19
    assert search.empty_pool(NodeIndex()) is not again


@pytest.mark.parametrize("count", [1, 2])
def test_free_room_is_counted_down_by_replicas_of_whole_cards(
    ledger: Ledger, looks: list[int], count: int
) -> None:
    """Of 10 nodes with 2 cards each, n0 has one card left, and n1 has CPU for one replica only."""
    ledger.hold(grant("p", "n0", "n0-0"))
    ledger.set_node("n1", inventory("n1"), HostAmounts(1000, 640_000))
    request = replace(whole_request("", count), host=HostAmounts(1000))
    search, job = Search(ledger, Placer(ledger)), job_spec("j", request=request, cards=float(count))
    free = search.free(job, None)
    assert free == {1: 18, 2: 9}[count]
    for taken in range(1, free + 1):
        assert search.take(job, [f"r-{taken}"], None) is not None
        before = looks[0]
        assert search.free(job, None) == free - taken
        assert looks[0] == before
        assert Search(ledger, Placer(ledger)).free(job, None) == free - taken
    assert search.take(job, ["r"], None) is None


def test_the_answers_are_those_of_another_look_whatever_happened_between() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(6):
        ledger = Ledger()
        for name in NAMES[:4]:
            ledger.set_node(name, inventory(name), HostAmounts(4000, 8192))
        search = Search(ledger, Placer(ledger))
        jobs = [job_spec(f"j{number}", request=_request(rng), cards=0.5) for number in range(12)]
        for turn in range(60):
            search.begin({"a"})
            with ledger.transaction() as change:
                for _ in range(rng.randint(1, 4)):
                    _happens(rng, ledger)
                    job, name = rng.choice(jobs), f"r-{rng.random()}"
                    wanted = Placer(ledger).find(replace(job.request, pod=name))
                    made = search.take(job, [name], None)
                    assert (made is None) is (wanted is None), (turn, job.request)
                    assert search.free(job, None) == LedgerRoom(ledger, Placer(ledger), {}).free(job)
                if rng.random() < 0.6:
                    change.commit()


def _request(rng: random.Random) -> PodRequest:
    host = HostAmounts(cpu_milli=rng.choice((0, 1000, 3000)))
    if rng.random() < 0.3:
        return replace(whole_request("", rng.randint(1, 3)), host=host)
    if rng.random() < 0.5:
        return slice_request("", rng.randint(1, 16), rng.randint(1, 60), host=host)
    asked = tuple((f"c{at}", Request(FAMILY, 0, rng.randint(1, 8), rng.randint(1, 30))) for at in range(3))
    return PodRequest("", asked, host=host)


def _happens(rng: random.Random, ledger: Ledger) -> None:
    name = rng.choice(NAMES[:4])
    match rng.randint(0, 5):
        case 0:
            ledger.drop_node(name)
        case 1 | 2:
            healthy = rng.random() < 0.8
            cards = Inventory(
                tuple(card(f"{name}-{slot}", healthy=healthy) for slot in range(rng.choice((1, 2))))
            )
            ledger.set_node(name, cards, HostAmounts(4000, 8192))
        case 3 | 4:
            for holder in [holder for holder in ledger.holdings() if rng.random() < 0.4]:
                ledger.release(holder)
        case _:
            pass


# What it costs


def containers(number: int, count: int = 20) -> PodRequest:
    """A pod whose containers fit one by one on half-used cards, and not together; no other asks for as much."""
    asked = tuple(
        (f"c{at}", Request(FAMILY, mem=(5, 4, 3, 2)[at % 4], cores=(21, 17, 13, 11)[(at + number) % 4]))
        for at in range(count)
    )
    return PodRequest("", asked, host=HostAmounts(1000 + number, 1000))


@pytest.fixture
def half_used() -> Ledger:
    rng, made = random.Random(1), Ledger()
    for node in (f"n{number}" for number in range(20)):
        made.set_node(node, inventory(node, 8, slices=16), HostAmounts(256_000, 2_000_000))
        for slot in range(8):
            taken = grant(
                f"p-{node}-{slot}", node, f"{node}-{slot}", rng.randint(1000, 9000), rng.randint(4, 30)
            )
            made.hold(taken)
    return made


def waiting(user: str, number: int, request: PodRequest) -> JobState:
    spec = JobSpec(key=(user, f"j{number:04}"), uid=f"{user}{number}", request=request, user=user, queue=user)
    return JobState(spec=spec, since=1000.0)


def test_the_searches_of_a_round_are_bounded_and_one_users_cost_no_other(
    half_used: Ledger, looks: list[int]
) -> None:
    """Those of one user need 20,000 looks each; the other one asks for cards that are there."""
    search = Search(half_used, Placer(half_used))
    hopeless = [waiting("evil", number, containers(number)) for number in range(40)]
    good = [waiting("good", number, slice_request("", 1, 1, host=HostAmounts(number))) for number in range(3)]
    search.begin({"evil", "good"})
    plan = plan_round(
        2000.0, [*hopeless, *good], LedgerRoom(half_used, Placer(half_used), {}, search=search), Rules()
    )
    assert {step.job[0] for step in plan.steps if isinstance(step, Admit)} == {"good"}
    assert len(plan.steps) == 3
    assert search.cut
    assert looks[0] < 2 * ROUND_LOOKS


def test_what_was_not_looked_at_for_one_user_is_no_answer_to_another(half_used: Ledger) -> None:
    search = Search(half_used, Placer(half_used))
    same = slice_request("", 1, 1)
    evil = [waiting("evil", number, containers(number)) for number in range(60)] + [waiting("evil", 99, same)]
    search.begin({"evil", "good"})
    room = LedgerRoom(half_used, Placer(half_used), {}, search=search)
    # One user's jobs come first: he has had no service, and the other one has had some.
    had = replace(waiting("good", 1, containers(99)), attained=1e6)
    every = (*evil, waiting("good", 0, same), had)
    jobs = [replace(job, spec=replace(job.spec, queue="default", priority=0)) for job in every]
    plan = plan_round(2000.0, jobs, room, Rules())
    assert search.used_up("evil")
    assert ("good", "j0000") in [step.job for step in plan.steps if isinstance(step, Admit)]


def test_all_are_looked_at_after_some_rounds_and_then_nothing_is(half_used: Ledger, looks: list[int]) -> None:
    placer = Placer(half_used)
    search, jobs = (
        Search(half_used, placer),
        [waiting("a", number, containers(number)) for number in range(16)],
    )
    for _ in range(16):
        search.begin({"a"})
        with half_used.transaction():
            assert (
                plan_round(2000.0, jobs, LedgerRoom(half_used, placer, {}, search=search), Rules()).steps
                == ()
            )
        if not search.cut:
            break
    assert not search.cut
    before = looks[0]
    search.begin({"a"})
    with half_used.transaction():
        plan_round(2000.0, jobs, LedgerRoom(half_used, placer, {}, search=search), Rules())
    assert looks[0] - before < ROUND_LOOKS / 100, "all of them were refused, and nothing has changed"
