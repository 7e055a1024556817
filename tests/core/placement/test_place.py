"""place(): the right card, all or nothing, and a refusal that helps."""

import itertools
import random

import pytest

from device_plugin.core.cards import Card, Inventory
from device_plugin.core.grants import Grant, Slice
from device_plugin.core.ledger import CardState, Ledger
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.placement.fit import fit, take
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import PodRequest, Request, Selector
from tests.core.clusters import FAMILY, card, inventory, random_request, slice_request, whole_request


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    for node in ("n1", "n2"):
        ledger.set_node(node, inventory(node))
    return ledger


def granted(ledger: Ledger, request: PodRequest) -> Grant:
    grant = Placer(ledger).place(request)
    assert isinstance(grant, Grant), grant.text
    assert ledger.hold(grant) == ()
    return grant


def only(grant: Grant) -> Slice:
    (given,) = grant.slices()
    return given


def refusal(ledger: Ledger, request: PodRequest, nodes: list[str] | None = None) -> Refusal:
    found = Placer(ledger).place(request, nodes)
    assert isinstance(found, Refusal)
    return found


@pytest.mark.parametrize(("mem", "cores"), [(4, None), (None, 15), (4, 15)])
def test_four_quarters_of_a_16368_mib_card_fit(mem: int | None, cores: int | None) -> None:
    ledger = Ledger()
    ledger.set_node("n", inventory("n", 1))
    quarters = [only(granted(ledger, slice_request(f"p{i}", mem, cores))) for i in range(4)]
    assert {q.mem_mib for q in quarters} == {4092}
    assert sorted(core for q in quarters for core in q.cores) == list(range(60))


def test_a_slice_goes_where_it_fits_best_then_to_the_fullest_node(ledger: Ledger) -> None:
    first = granted(ledger, slice_request("a", 8))
    assert (first.node, only(first).card) == ("n1", "n1-0")
    assert only(granted(ledger, slice_request("b", 8))).card == "n1-0"
    # All other cards are alike: the node that already works comes first, then the lower name.
    assert only(granted(ledger, slice_request("c", 4))).card == "n1-1"


def test_spread_takes_the_emptiest_node(ledger: Ledger) -> None:
    granted(ledger, slice_request("a", 8))
    assert granted(ledger, slice_request("b", 4, policy="spread")).node == "n2"


def test_an_unknown_policy_is_refused_with_the_known_ones(ledger: Ledger) -> None:
    no = refusal(ledger, slice_request("a", 4, policy="fastest"))
    assert no.main is Reason.POLICY
    assert "'fastest': known are pack, spread" in no.text


def test_the_text_counts_cards_and_says_the_largest_remainder() -> None:
    ledger = Ledger()
    cards = [card(f"c{i}") for i in range(4)] + [card("sick-1", healthy=False), card("sick-2", healthy=False)]
    ledger.set_node("n", Inventory(tuple(cards)))
    for i in range(4):
        ledger.hold(Grant(f"p{i}", "n", {"main": (Slice(f"c{i}", 16368 - 3072, (0,)),)}))
    no = refusal(ledger, slice_request("late", 4, 1))
    assert no.text == "6 cards: 4 lack memory (largest free 3 GiB), 2 unhealthy"
    assert no.advice == "wait for slices to end, or ask for less memory"
    assert no.main is Reason.MEMORY


def test_a_request_beyond_every_card_says_the_most_that_one_offers(ledger: Ledger) -> None:
    no = refusal(ledger, slice_request("big", 17))
    assert (
        no.text
        == "4 cards: 4 too small for the request (at most hygon.com/dcu-mem: 16, hygon.com/dcu-cores: 60)"
    )


def test_core_groups_slices_and_whole_cards_have_reasons_of_their_own(ledger: Ledger) -> None:
    for i, node in enumerate(("n1-0", "n1-1")):
        granted(ledger, slice_request(f"c{i}", 1, 50, uuids=Selector(frozenset({node}))))
    assert (
        refusal(ledger, slice_request("x", 1, 20), ["n1"]).text
        == "2 cards: 2 lack core groups (most free core groups 10)"
    )
    assert refusal(ledger, whole_request("w", 1), ["n1"]).text == "2 cards: 2 not wholly free"
    for i in range(6):
        granted(ledger, slice_request(f"s{i}", 1, 1, uuids=Selector(frozenset({"n1-0", "n1-1"}))))
    assert refusal(ledger, slice_request("x", 1, 1), ["n1"]).main is Reason.SLICES


def test_selectors_family_serving_and_silent_nodes(ledger: Ledger) -> None:
    assert refusal(ledger, slice_request("m", 1, models=Selector.parse("K100"))).main is Reason.MODEL
    assert refusal(ledger, slice_request("m", 1, models=Selector.parse("!Z100"))).main is Reason.MODEL
    assert (
        only(granted(ledger, slice_request("u", 1, uuids=Selector.parse("!n1-0,!n1-1,!n2-0")))).card == "n2-1"
    )
    other = PodRequest("f", (("main", Request("amd.com/gpu", 0, 1)),))
    assert refusal(ledger, other).main is Reason.FAMILY
    ledger.set_node("n1", Inventory(inventory("n1").cards, serving=False))
    no = refusal(ledger, slice_request("big", 16), ["n1", "ghost"])
    assert no.text == "2 cards: 2 whose agent is not serving; 1 node without a card inventory"
    assert granted(ledger, slice_request("p", 4)).node == "n2"


def test_several_containers_share_one_node_or_nothing_is_given(ledger: Ledger) -> None:
    asked = tuple((f"c{i}", Request(FAMILY, 0, 9)) for i in range(2))
    grant = granted(ledger, PodRequest("two", asked))
    assert {s.card for s in grant.slices()} == {"n1-0", "n1-1"}
    three = PodRequest("three", tuple((f"c{i}", Request(FAMILY, 0, 9)) for i in range(3)))
    assert refusal(ledger, three).main is Reason.TOGETHER


def test_whole_cards_are_wholly_free_and_take_everything(ledger: Ledger) -> None:
    granted(ledger, slice_request("a", 1))
    grant = granted(ledger, whole_request("w", 2))
    assert grant.node == "n2"
    assert [(s.mem_mib, len(s.cores)) for s in grant.slices()] == [(16368, 60)] * 2
    assert refusal(ledger, whole_request("v", 2)).text == (
        "4 cards: 1 fit a part of the pod, but no node fits all of it, 3 not wholly free"
    )


def test_a_hostile_pod_of_many_containers_is_decided_in_bounded_steps() -> None:
    ledger = Ledger()
    ledger.set_node("n", inventory("n", 16, slices=16))
    asked = tuple((f"c{i}", Request(FAMILY, 0, 3 + i % 5, 7)) for i in range(200))
    assert refusal(ledger, PodRequest("hostile", asked)).main is Reason.TOGETHER


@pytest.mark.parametrize("seed", range(20))
def test_place_finds_a_grant_exactly_when_brute_force_does(seed: int) -> None:
    rng = random.Random(seed)
    print(f"seed {seed}")
    ledger = Ledger()
    ledger.set_node("n1", Inventory((card("a"), card("b", mem_mib=8184, groups=20))))
    ledger.set_node("n2", Inventory((card("c", slices=2),)))
    placer = Placer(ledger)
    for i in range(120):
        request = random_request(rng, f"p{i}")
        found = placer.place(request)
        possible = any(
            _brute_force(list(state.cards), list(request.containers))
            for name in ledger.nodes()
            if (state := ledger.node(name)) is not None
        )
        assert isinstance(found, Grant) == possible, (request, found)
        if isinstance(found, Grant):
            assert ledger.hold(found) == ()
        if rng.random() < 0.5 and ledger.grants():
            ledger.release(rng.choice(sorted(ledger.grants())))


def _brute_force(cards: list[CardState], containers: list[tuple[str, Request]]) -> bool:
    if not containers:
        return True
    (_, request), *rest = containers
    for chosen in itertools.combinations(range(len(cards)), max(1, request.whole)):
        given = [fit(cards[i], request) for i in chosen]
        if all(isinstance(g, Slice) for g in given):
            after = list(cards)
            for i, g in zip(chosen, given, strict=True):
                assert isinstance(g, Slice)
                after[i] = take(cards[i], g)
            if _brute_force(after, rest):
                return True
    return False


def test_the_fixed_order_does_not_depend_on_who_came_first() -> None:
    cards: list[Card] = [card(f"c{i}") for i in range(3)]
    choices = set()
    for order in itertools.permutations(cards):
        ledger = Ledger()
        ledger.set_node("n", Inventory(order))
        choices.add(only(granted(ledger, slice_request("a", 4))).card)
    assert choices == {"c0"}
