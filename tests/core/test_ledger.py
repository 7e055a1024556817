"""The ledger: what remains, clashes, trials, and its equality with one rebuilt from grants."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_plugin.core.cards import Inventory
from device_plugin.core.grants import Grant, Slice
from device_plugin.core.ledger import Clash, Ledger
from device_plugin.core.masks import core_mask
from device_plugin.core.placement import Placer
from tests.core.clusters import card, inventory, random_request

EVENTS = 100_000


def ledger_of(*nodes: str, **shape: int) -> Ledger:
    ledger = Ledger()
    for node in nodes:
        ledger.set_node(node, inventory(node, **shape))
    return ledger


def grant(pod: str, mib: int, *cores: int, node: str = "n", uuid: str = "n-0") -> Grant:
    return Grant(pod, node, {"main": (Slice(uuid, mib, cores),)})


def rebuilt(live: Ledger, inventories: dict[str, Inventory]) -> Ledger:
    """What a service that has just started makes of the annotations in the cluster."""
    fresh = Ledger()
    for text in sorted(held.encode() for held in live.grants().values()):
        fresh.hold(Grant.decode(text))
    for name, known in sorted(inventories.items(), reverse=True):
        fresh.set_node(name, Inventory.decode(known.encode()))
    return fresh


def test_a_slice_leaves_the_rest_and_comes_back() -> None:
    ledger = ledger_of("n")
    assert ledger.hold(grant("p", 4092, 0, 1)) == ()
    state = ledger.node("n")
    assert state is not None
    first, second = state.cards
    assert (first.free_mib, first.free_cores, first.free_slices) == (12276, (1 << 60) - 4, 3)
    assert second.untouched
    assert ledger.release("p") == grant("p", 4092, 0, 1)
    assert ledger.release("p") is None
    assert ledger == ledger_of("n")


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
        (grant("b", 1, 1, 2), Clash.CORES),
        (grant("b", 16000, 7), Clash.MEMORY),
    ],
)
def test_clashing_grants_are_both_kept_and_named(second: Grant, clash: Clash) -> None:
    ledger = ledger_of("n")
    ledger.hold(grant("a", 4092, 0, 1))
    (conflict,) = ledger.hold(second)
    assert (conflict.pod, conflict.other, conflict.clash) == ("b", "a", clash)
    assert set(ledger.grants()) == {"a", "b"}
    other_way = ledger_of("n")
    other_way.hold(second)
    other_way.hold(grant("a", 4092, 0, 1))
    assert ledger == other_way


def test_one_slice_too_many_clashes_with_every_holder() -> None:
    ledger = ledger_of("n")
    for i in range(4):
        assert ledger.hold(grant(f"p{i}", 1, i)) == ()
    assert {c.clash for c in ledger.hold(grant("p4", 1, 9))} == {Clash.SLICES}


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
@settings(max_examples=60, deadline=None)
def test_rollback_restores_exactly(seed: int, before: int, during: int) -> None:
    rng = random.Random(seed)
    ledger = ledger_of("n1", "n2")
    placer = Placer(ledger)
    _churn(ledger, placer, rng, before, "before")
    copy = rebuilt(ledger, {name: inventory(name) for name in ("n1", "n2")})
    mark = ledger.checkpoint()
    _churn(ledger, placer, rng, during, "during")
    inner = ledger.checkpoint()
    _churn(ledger, placer, rng, 5, "inner")
    ledger.rollback(inner)
    ledger.rollback(mark)
    assert ledger == copy
    with pytest.raises(ValueError, match="no checkpoint is open"):
        ledger.commit()


def _churn(ledger: Ledger, placer: Placer, rng: random.Random, steps: int, tag: str) -> None:
    for i in range(steps):
        if rng.random() < 0.6:
            found = placer.place(random_request(rng, f"{tag}-{i}"))
            if isinstance(found, Grant):
                ledger.hold(found)
        elif ledger.grants():
            ledger.release(rng.choice(sorted(ledger.grants())))


def assert_invariants(ledger: Ledger, inventories: dict[str, Inventory]) -> None:
    """Design, invariants 1 and 4, from the grants alone."""
    by_card: dict[tuple[str, str], list[Slice]] = {}
    for held in ledger.grants().values():
        for s in held.slices():
            by_card.setdefault((held.node, s.card), []).append(s)
    for (node, uuid), slices in by_card.items():
        known = (
            next((c for c in inventories[node].cards if c.uuid == uuid), None)
            if node in inventories
            else None
        )
        cores = [core for s in slices for core in s.cores]
        assert len(cores) == len(set(cores)), "a core group is held twice"
        if known is not None:
            assert sum(s.mem_mib for s in slices) <= known.mem_mib
            assert len(slices) <= known.max_slices
            assert core_mask(cores).bit_length() <= known.core_groups


def test_a_hundred_thousand_events_leave_the_ledger_equal_to_one_rebuilt_from_grants() -> None:
    """Place, finish, crash (rebuild, reservations lost), nodes and cards that come and go; checked after each."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    full = {"n1": Inventory((card("a"), card("b", groups=20, mem_mib=8184))), "n2": Inventory((card("c"),))}
    inventories = dict(full)
    ledger = rebuilt(Ledger(), inventories)
    placer = Placer(ledger)
    seen = dict.fromkeys(("place", "refuse", "finish", "restart", "inventory"), 0)
    for i in range(EVENTS):
        event = rng.random()
        if event < 0.5:
            found = placer.place(random_request(rng, f"p{i}"))
            seen["place" if isinstance(found, Grant) else "refuse"] += 1
            if isinstance(found, Grant):
                assert ledger.hold(found) == (), "place gave what somebody holds"
        elif event < 0.9:
            if ledger.grants():
                ledger.release(rng.choice(list(ledger.grants())))
                seen["finish"] += 1
        elif event < 0.95:
            ledger = rebuilt(ledger, inventories)
            placer = Placer(ledger)
            seen["restart"] += 1
        else:
            _change_inventory(rng, ledger, full, inventories)
            seen["inventory"] += 1
        assert ledger == rebuilt(ledger, inventories)
        assert_invariants(ledger, inventories)
    print(seen)
    assert min(seen.values()) > 1000, seen


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
    inventories[name] = Inventory(cards, serving=rng.random() < 0.9)
    ledger.set_node(name, inventories[name])
