"""The ledger: what remains, clashes, trials, and its equality with one rebuilt from grants."""

import random
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from device_plugin.core.contract.cards import Card, Inventory, ReportedSlice, SliceState
from device_plugin.core.contract.grants import CardSize, Grant, Slice
from device_plugin.core.contract.masks import core_mask
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import CardPart, CardState, Holding, Ledger
from device_plugin.core.placement import Placer, Refusal
from tests.builders.cards import card, inventory
from tests.builders.requests import random_request, slice_request
from tests.effort import TIMES

EVENTS = 10_000 * TIMES
FULL = CardSize(16368, 4)
# Reading one text again and again would be most of the time of all events.
read_grant = lru_cache(1024)(Grant.decode)
read_inventory = lru_cache(1024)(Inventory.decode)


def ledger_of(*nodes: str, count: int = 2, **shape: int) -> Ledger:
    ledger = Ledger()
    for node in nodes:
        ledger.set_node(node, inventory(node, count, **shape))
    return ledger


def grant(
    pod: str,
    mib: int,
    *cores: int,
    node: str = "n",
    uuid: str = "n-0",
    size: CardSize | None = FULL,
) -> Grant:
    return Grant(pod, node, {"main": (Slice(uuid, mib, cores),)}, cards={uuid: size} if size else {})


class Written:
    """Annotations as the cluster keeps them: each is written once, when its grant or inventory is new."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Grant | Inventory, str]] = {}

    def text(self, value: Grant | Inventory) -> str:
        """The annotation of `value`, which never changes."""
        # The value is kept beside its text, so that no other object gets its id.
        kept = self._texts.get(id(value))
        if kept is None:
            kept = self._texts[id(value)] = value, value.encode()
        return kept[1]


def rebuilt(live: Ledger, inventories: dict[str, Inventory], written: Written | None = None) -> Ledger:
    """What a service that has just started makes of the annotations in the cluster."""
    fresh, text = Ledger(), (written or Written()).text
    for each in sorted(map(text, live.grants().values())):
        fresh.hold(read_grant(each))
    for name, known in sorted(inventories.items(), reverse=True):
        fresh.set_node(name, read_inventory(text(known)))
    return fresh


def test_a_slice_leaves_the_rest_and_comes_back() -> None:
    ledger = ledger_of("n")
    assert ledger.hold(grant("p", 4092, 0, 1)) == ()
    state = ledger.node("n")
    assert state is not None
    first, second = state.cards
    assert (first.free_mib, first.free_cores, first.free_slices) == (12276, (1 << 60) - 4, 3)
    assert second.untouched
    assert ledger.release("p") == Holding.of(grant("p", 4092, 0, 1))
    assert ledger.release("p") is None
    assert ledger == ledger_of("n")


def test_reports_of_an_agent_do_not_say_that_more_fits() -> None:
    ledger = ledger_of("n")
    counts = ledger.gained, ledger.freed, ledger.version
    reported = ReportedSlice("uid", "default", "p", "main", SliceState.COVERED, (Slice("n-0", 1, (0,)),))
    ledger.set_node("n", replace(inventory("n", 2), slices=(reported,)))
    assert (ledger.gained, ledger.freed, ledger.version) == counts
    assert ledger.inventories()["n"].slices == (reported,)
    ledger.set_node("n", replace(inventory("n", 2), serving=False))
    assert ledger.gained > counts[0]


def test_a_node_that_only_pods_name_leaves_nothing_behind() -> None:
    """A tenant may create pods with any number of invented names in `spec.nodeName`."""
    ledger = ledger_of("n")
    for number in range(100):
        ledger.put(Holding(holder="plain", node=f"invented-{number}", host=HostAmounts(100)))
    ledger.release("plain")
    assert list(ledger.changed_since(0)) == ["n"]
    ledger.put(Holding(holder="plain", node="late", host=HostAmounts(100)))
    ledger.set_node("late", inventory("late", 1), HostAmounts(4000))
    assert next(ledger.changed_since(0)) == "late"
    node = ledger.node("late")
    assert node is not None
    assert node.taken == HostAmounts(100)


def test_holding_again_replaces() -> None:
    ledger = ledger_of("n")
    ledger.hold(grant("p", 8000, 0))
    ledger.hold(grant("p", 4000, 5))
    state = ledger.node("n")
    assert state is not None
    assert state.cards[0].free_mib == 12368
    assert ledger == rebuilt(ledger, {"n": inventory("n")})


@pytest.mark.parametrize(
    ("second", "clash"),
    [
        (grant("b", 1, 1, 2), CardPart.CORES),
        (grant("b", 16000, 7), CardPart.MEMORY),
    ],
)
def test_clashing_grants_are_both_kept_and_named(second: Grant, clash: CardPart) -> None:
    ledger = ledger_of("n")
    ledger.hold(grant("a", 4092, 0, 1))
    (conflict,) = ledger.hold(second)
    assert (conflict.holder, conflict.other, conflict.over) == ("b", "a", clash)
    assert set(ledger.grants()) == {"a", "b"}
    other_way = ledger_of("n")
    other_way.hold(second)
    other_way.hold(grant("a", 4092, 0, 1))
    assert ledger == other_way


def test_one_slice_too_many_clashes_with_every_holder() -> None:
    ledger = ledger_of("n")
    for i in range(4):
        assert ledger.hold(grant(f"p{i}", 1, i)) == ()
    assert {c.over for c in ledger.hold(grant("p4", 1, 9))} == {CardPart.SLICES}


def only_card(ledger: Ledger) -> CardState:
    state = ledger.node("n")
    assert state is not None
    return state.cards[0]


@pytest.mark.parametrize(
    "less",
    [{"mem_mib": 16352}, {"slices": 1}, {"groups": 56}],
    ids=lambda less: next(iter(less)),
)
def test_a_card_that_reports_less_keeps_its_holders_and_closes(less: dict[str, int]) -> None:
    """Two halves fitted the card; whichever of its figures shrinks, they keep what they hold and get no neighbours."""
    ledger = ledger_of("n", count=1)
    halves = (grant("a", 8184, *range(30)), grant("b", 8184, *range(30, 60)))
    for half in halves:
        ledger.hold(half)
    ledger.set_node("n", inventory("n", 1, **less))
    assert [ledger.conflicts(half) for half in halves] == [(), ()]
    assert only_card(ledger).short
    assert not only_card(ledger).open
    assert isinstance(refused := Placer(ledger).place(slice_request("c", 1, 1)), Refusal)
    assert refused.main is Reason.SHORT
    ledger.release("b")
    assert only_card(ledger).open, "what the card has is enough for the other"
    ledger.release("a")
    assert isinstance(Placer(ledger).place(slice_request("c", 1, 1)), Grant)


def test_a_card_that_reports_its_old_size_again_is_open() -> None:
    ledger = ledger_of("n", count=1)
    ledger.hold(grant("a", 8184, *range(40, 60)))
    ledger.set_node("n", inventory("n", 1, groups=50))
    assert only_card(ledger).short
    ledger.set_node("n", inventory("n", 1))
    assert (only_card(ledger).short, only_card(ledger).free_mib) == (False, 8184)


@pytest.mark.parametrize("size", [CardSize(16368, 4), None], ids=["recorded", "not recorded"])
def test_a_rebuilt_ledger_accuses_nobody_because_a_card_shrank(size: CardSize | None) -> None:
    """To a new leader every grant is new, and only the grants say how large the card was."""
    ledger = ledger_of("n", count=1, mem_mib=8192, slices=1)
    for pod, cores in (("a", range(30)), ("b", range(30, 60))):
        assert ledger.hold(grant(pod, 8000, *cores, size=size)) == ()
    (conflict,) = ledger.hold(grant("c", 1, 0, size=size))
    assert conflict.over is CardPart.CORES, "a core group is never granted twice, whatever the card reports"


def test_what_no_size_of_the_card_explains_is_a_conflict() -> None:
    """The card grew after the first grant: the later of two that never fitted together is found all the same."""
    ledger = ledger_of("n", count=1, mem_mib=8192)
    ledger.hold(grant("a", 8184, *range(30)))
    (conflict,) = ledger.hold(grant("b", 16000, 40, size=CardSize(20000, 4)))
    assert conflict.over is CardPart.MEMORY


def test_in_the_way_is_whoever_leaves_too_little_of_the_card_as_it_is_now() -> None:
    ledger = ledger_of("n", count=1, mem_mib=8192)
    ledger.hold(grant("a", 8184, *range(30)))
    wanted = grant("b", 8184, *range(30, 60))
    assert ledger.conflicts(wanted) == ()
    (conflict,) = ledger.in_the_way(wanted)
    assert (conflict.other, conflict.over) == ("a", CardPart.MEMORY)


def test_a_grant_on_a_card_that_is_away_counts_when_the_card_returns() -> None:
    ledger = ledger_of("n")
    ledger.hold(grant("p", 4092, 0))
    ledger.drop_node("n")
    assert ledger.node("n") is None
    ledger.set_node("n", inventory("n"))
    state = ledger.node("n")
    assert state is not None
    assert state.cards[0].free_mib == 12276


@given(st.integers(0, 2**32), st.integers(0, 30), st.integers(0, 30))
@settings(max_examples=60)
def test_rollback_restores_exactly(seed: int, before: int, during: int) -> None:
    rng = random.Random(seed)
    ledger = ledger_of("n1", "n2")
    placer = Placer(ledger)
    _churn(ledger, placer, rng, before, "before")
    copy = rebuilt(ledger, {name: inventory(name) for name in ("n1", "n2")})
    with ledger.transaction():
        _churn(ledger, placer, rng, during, "during")
        with ledger.transaction() as inner:
            _churn(ledger, placer, rng, 5, "inner")
            if rng.random() < 0.5:
                inner.commit()
    assert ledger == copy


def _churn(ledger: Ledger, placer: Placer, rng: random.Random, steps: int, tag: str) -> None:
    for i in range(steps):
        if rng.random() < 0.6:
            found = placer.place(random_request(rng, f"{tag}-{i}"))
            if isinstance(found, Grant):
                ledger.hold(found)
        elif ledger.grants():
            ledger.release(rng.choice(sorted(ledger.grants())))


def assert_invariants(ledger: Ledger, inventories: dict[str, Inventory]) -> None:
    """No core group twice and no memory beyond a card, from the grants alone; a card that shrank may hold more."""
    by_card: dict[tuple[str, str], list[Slice]] = {}
    sizes: dict[tuple[str, str], list[CardSize]] = {}
    for held in ledger.grants().values():
        for s in held.slices():
            by_card.setdefault((held.node, s.card), []).append(s)
            sizes.setdefault((held.node, s.card), []).append(held.cards[s.card])
    states = {
        (n, state.card.uuid): state for n in inventories if (shown := ledger.node(n)) for state in shown.cards
    }
    for key, slices in by_card.items():
        cores = [core for s in slices for core in s.cores]
        assert len(cores) == len(set(cores)), "a core group is held twice"
        memory = sum(s.mem_mib for s in slices)
        assert memory <= max(size.mem_mib for size in sizes[key])
        assert len(slices) <= max(size.max_slices for size in sizes[key])
        state = states.get(key)
        if state is not None:
            known = state.card
            beyond = (
                memory > known.mem_mib
                or len(slices) > known.max_slices
                or core_mask(cores).bit_length() > known.core_groups
            )
            assert state.short == beyond


@pytest.mark.no_cover
def test_random_events_leave_the_ledger_equal_to_one_rebuilt_from_grants() -> None:
    """Place, finish, crash (rebuild, reservations lost), nodes and cards that come, go, shrink and grow; checked after
    each, and nobody is ever found in conflict."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    full = {"n1": Inventory((card("a"), card("b", groups=20, mem_mib=8184))), "n2": Inventory((card("c"),))}
    inventories = dict(full)
    written = Written()
    ledger = rebuilt(Ledger(), inventories, written)
    placer = Placer(ledger)
    seen = dict.fromkeys(("place", "refuse", "finish", "restart", "inventory"), 0)
    short = 0
    for i in range(EVENTS):
        event = rng.random()
        if event < 0.5:
            # Not `place`: nobody reads why a request is refused.
            found = placer.decide(random_request(rng, f"p{i}"))
            seen["place" if isinstance(found, Grant) else "refuse"] += 1
            if isinstance(found, Grant):
                assert ledger.hold(found) == (), "place gave what somebody holds"
        elif event < 0.9:
            if ledger.grants():
                ledger.release(rng.choice(list(ledger.grants())))
                seen["finish"] += 1
        elif event < 0.95:
            ledger = rebuilt(ledger, inventories, written)
            placer = Placer(ledger)
            seen["restart"] += 1
        else:
            _change_inventory(rng, ledger, full, inventories)
            seen["inventory"] += 1
        short += any(state.short for n in inventories if (shown := ledger.node(n)) for state in shown.cards)
        assert ledger == rebuilt(ledger, inventories, written)
        assert_invariants(ledger, inventories)
    print(seen, "short", short)
    assert min(seen.values()) > EVENTS // 100, seen
    assert short > EVENTS // 1000, "hardly ever was a card smaller than what is held of it"


def _change_inventory(
    rng: random.Random, ledger: Ledger, full: dict[str, Inventory], inventories: dict[str, Inventory]
) -> None:
    name = rng.choice(sorted(full))
    kind = rng.random()
    if kind < 0.3 and name in inventories:
        del inventories[name]
        ledger.drop_node(name)
        return
    cards = full[name].cards
    if kind < 0.5:
        cards = tuple(
            card(c.uuid, groups=c.core_groups, mem_mib=c.mem_mib, healthy=rng.random() < 0.5) for c in cards
        )
    elif kind < 0.6:
        cards = cards[: rng.randint(0, len(cards))]
    elif kind < 0.8:
        cards = tuple(_smaller(rng, c) for c in cards)
    inventories[name] = Inventory(cards, serving=rng.random() < 0.9)
    ledger.set_node(name, inventories[name])


def _smaller(rng: random.Random, full: Card) -> Card:
    """The card as it reports itself after a driver's update: with a part of its memory, core groups and slices."""
    return card(
        full.uuid,
        mem_mib=rng.randint(full.mem_mib // 3, full.mem_mib),
        groups=rng.randint(full.core_groups // 3, full.core_groups),
        slices=rng.randint(1, 6),
    )


def test_the_holders_of_a_claim_follow_the_grants_through_trials_and_restores() -> None:
    ledger = ledger_of("n")
    first = replace_claims(grant("a", 1024, 0), {"main": "claim"})
    ledger.hold(first)
    before = ledger.snapshot()
    with ledger.transaction():
        ledger.hold(replace_claims(grant("b", 1024, 1), {"main": "claim"}))
        assert ledger.claimed("claim") == ("a", "b")
        ledger.release("a")
        assert ledger.claimed("claim") == ("b",)
    assert ledger.claimed("claim") == ("a",)
    ledger.hold(replace_claims(first, {"main": "another"}))
    assert (ledger.claimed("claim"), ledger.claimed("another")) == ((), ("a",))
    ledger.restore(before)
    assert (ledger.claimed("claim"), ledger.claimed("another")) == (("a",), ())
    ledger.release("a")
    assert ledger.claimed("claim") == ()


def replace_claims(made: Grant, claims: dict[str, str]) -> Grant:
    return structs.replace(made, claims=claims)
