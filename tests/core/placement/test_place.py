"""place(): the right card, all or nothing, and a refusal that helps."""

import itertools

import pytest
from msgspec.structs import replace
from pytest_mock import MockerFixture

from device_plugin.core.contract.annotations import MAX_INT
from device_plugin.core.contract.cards import MAX_UNITS, Card, Inventory
from device_plugin.core.contract.grants import MAX_CONTAINERS, Grant, Slice
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.placement.fit import LOOKS, fit
from device_plugin.core.placement.policies import OFFERED
from device_plugin.core.requests import MAX_COUNT, PodRequest, Request, Selector
from tests.builders.cards import FAMILY, card, inventory
from tests.builders.refusals import by_node
from tests.builders.requests import slice_request, whole_request


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


def test_a_cordoned_card_gets_no_new_slice_and_the_refusal_says_so() -> None:
    ledger = Ledger()
    ledger.set_node("n", Inventory((replace(card("a"), cordoned=True), card("b"))))
    assert only(granted(ledger, slice_request("p", 16))).card == "b"
    found = refusal(ledger, slice_request("q", 16))
    assert (found.cards, found.nodes) == ({Reason.CORDONED: 1, Reason.MEMORY: 1}, {})
    assert "1 cordoned" in found.text


def test_a_pod_without_cards_is_refused_for_its_host_alone(ledger: Ledger) -> None:
    for node in ("n1", "n2"):
        ledger.set_node(node, inventory(node), HostAmounts(2000, 1024))
    placer = Placer(ledger)
    assert isinstance(placer.place(PodRequest("p", (), host=HostAmounts(2000, 1))), Grant)
    found = placer.place(PodRequest("q", (), host=HostAmounts(2001, 1)))
    assert isinstance(found, Refusal)
    assert (found.cards, found.nodes) == ({Reason.HOST: 4}, {})


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


def test_the_card_that_fits_best_counts_before_the_fuller_node(ledger: Ledger) -> None:
    for uuid, mib in (("n1-0", 8184), ("n1-1", 8184), ("n2-0", 12276)):
        ledger.hold(Grant(f"on-{uuid}", uuid[:2], {"main": (Slice(uuid, mib, tuple(range(30))),)}))
    assert only(granted(ledger, slice_request("p", 4, 15))).card == "n2-0"


def test_spread_takes_the_emptiest_node(ledger: Ledger) -> None:
    granted(ledger, slice_request("a", 8))
    assert granted(ledger, slice_request("b", 4, policy="spread")).node == "n2"


def test_an_unknown_policy_is_refused_with_the_known_ones(ledger: Ledger) -> None:
    no = refusal(ledger, slice_request("a", 4, policy="fastest"))
    assert no.main is Reason.POLICY
    assert no.text == f"no placement policy 'fastest': write {', '.join(OFFERED)}"


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
        granted(ledger, slice_request(f"c{i}", 1, 50, uuids=Selector(node)))
    assert (
        refusal(ledger, slice_request("x", 1, 20), ["n1"]).text
        == "2 cards: 2 lack core groups (most free core groups 10)"
    )
    assert refusal(ledger, whole_request("w", 1), ["n1"]).text == "2 cards: 2 not wholly free"
    for i in range(6):
        granted(ledger, slice_request(f"s{i}", 1, 1, uuids=Selector("n1-0,n1-1")))
    full = refusal(ledger, slice_request("x", 1, 1), ["n1"])
    assert full.main is Reason.SLICES
    assert full.text == "2 cards: 2 full (4 of 4 slices, 24552 MiB free)"
    assert by_node(full, ["n1"]) == {"n1": "full (4 of 4 slices)"}


def test_shares_that_sum_to_100_percent_are_refused_with_the_cause_where_they_do_not_fit() -> None:
    """The example of docs/requests.md: core groups are whole, and slices came and went."""
    ledger = Ledger()
    ledger.set_node("n", Inventory((card("c", groups=38, slices=8),)))

    def share(name: str, percent: int) -> PodRequest:
        return PodRequest(name, (("main", Request(FAMILY, percent=percent)),))

    held = [granted(ledger, share(f"p{n}", percent)) for n, percent in enumerate((20, 20, 20, 30))]
    assert [len(only(grant).cores) for grant in held] == [7, 8, 7, 12]
    ledger.release("p0")
    ledger.release("p2")
    cause = "a share is of whole core groups, so shares of 100 % in all do not always fit"
    no = refusal(ledger, share("late", 50))
    assert no.text == f"1 card: 1 lack core groups (most free core groups 18; {cause})"
    assert by_node(no, ["n"]) == {"n": f"lack core groups (most free core groups at least 16; {cause})"}
    assert len(only(granted(ledger, share("less", 48))).cores) == 18


def test_selectors_family_serving_and_silent_nodes(ledger: Ledger) -> None:
    assert refusal(ledger, slice_request("m", 1, models=Selector("K100"))).main is Reason.MODEL
    assert refusal(ledger, slice_request("m", 1, models=Selector("!Z100"))).main is Reason.MODEL
    other = refusal(ledger, slice_request("m", 1, models=Selector("MI300X,!K100")))
    assert other.text == "4 cards: 4 of another model (asked: MI300X, !K100; there are: Z100)"
    assert by_node(other, ["n1"]) == {"n1": "of another model (asked: MI300X, !K100; there are: Z100)"}
    hostile = refusal(
        ledger, slice_request("m", 1, models=Selector(",".join(f"{n:0>99}" for n in range(64))))
    )
    assert len(hostile.text) < 300
    assert only(granted(ledger, slice_request("u", 1, uuids=Selector("!n1-0,!n1-1,!n2-0")))).card == "n2-1"
    foreign = PodRequest("f", (("main", Request("amd.com/gpu", 0, 1)),))
    assert refusal(ledger, foreign).main is Reason.FAMILY
    ledger.set_node("n1", Inventory(inventory("n1").cards, serving=False))
    no = refusal(ledger, slice_request("big", 16), ["n1", "ghost"])
    assert no.text == "2 cards: 2 whose agent is not serving; 1 node showing no card"
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
        "4 cards: 1 fit a part of the pod, but no node fits all of it (needs 2 free cards on one node; the most:"
        " n1 with 1), 3 not wholly free"
    )


def test_a_whole_card_leaves_the_large_one_to_the_slice_that_needs_it() -> None:
    ledger = Ledger()
    ledger.set_node("n", Inventory((card("large", mem_mib=65520), card("small"))))
    asked = (("whole", Request(FAMILY, 1)), ("slice", Request(FAMILY, 0, 20, 2)))
    grant = granted(ledger, PodRequest("p", asked))
    assert {name: slices[0].card for name, slices in grant.containers.items()} == {
        "whole": "small",
        "slice": "large",
    }


def test_grants_of_an_older_memory_unit_count_in_mib(ledger: Ledger) -> None:
    ledger.hold(Grant("old", "n1", {"main": (Slice("n1-0", 5000, (0,)),)}))
    on_it = Selector("n1-0")
    assert refusal(ledger, slice_request("p", 12, 1, uuids=on_it)).text == (
        "4 cards: 1 lack memory (largest free 11.1 GiB), 3 excluded by uuid"
    )
    assert only(granted(ledger, slice_request("p", 11, 1, uuids=on_it))).mem_mib == 11 * 16368 // 16


def test_nodes_of_one_reason_have_one_text_and_it_is_their_most_hopeful(ledger: Ledger) -> None:
    ledger.set_node("n2", Inventory((card("n2-0", healthy=False), card("n2-1"))))
    ledger.set_node("n3", Inventory(inventory("n3").cards, serving=False))
    ledger.set_node("n4", Inventory(()))
    for uuid in ("n1-0", "n1-1", "n2-1"):
        ledger.hold(Grant(f"on-{uuid}", uuid[:2], {"main": (Slice(uuid, 16368 - 2048, (0,)),)}))
    nodes = ["n1", "n2", "n3", "n4", "ghost"]
    assert by_node(refusal(ledger, slice_request("p", 4, 1), nodes), nodes) == {
        "n1": "lack memory (largest free at least 2 GiB)",
        "n2": "lack memory (largest free at least 2 GiB)",
        "n3": "whose agent is not serving",
        "n4": "showing no card",
        "ghost": "showing no card",
    }
    assert by_node(refusal(ledger, slice_request("p", 4, policy="fastest")), ["n1"])["n1"] == (
        f"no placement policy 'fastest': write {', '.join(OFFERED)}"
    )


def test_the_most_absurd_card_that_an_inventory_can_name_is_reckoned_exactly() -> None:
    huge = replace(card("huge"), mem_mib=MAX_INT, units=MAX_UNITS)
    ledger = Ledger()
    ledger.set_node("n", Inventory((huge,)))
    assert (
        only(granted(ledger, slice_request("p", MAX_UNITS - 1, 1))).mem_mib == MAX_INT - MAX_INT // MAX_UNITS
    )
    assert refusal(ledger, slice_request("q", MAX_COUNT)).main is Reason.TOO_LARGE
    assert refusal(ledger, slice_request("q", None, MAX_COUNT)).main is Reason.TOO_LARGE
    assert refusal(ledger, whole_request("q", MAX_COUNT)).main is Reason.WHOLE


def test_a_pod_of_more_containers_than_a_grant_can_name_is_refused(ledger: Ledger) -> None:
    asked = tuple((f"c{i}", Request(FAMILY, 0, 1, 1)) for i in range(MAX_CONTAINERS + 1))
    no = refusal(ledger, PodRequest("many", asked))
    assert no.main is Reason.MALFORMED
    assert no.text == f"257 containers ask for slices: at most {MAX_CONTAINERS} of a pod can: split the pod"


def test_a_pod_made_to_be_searched_for_ever_is_decided_in_bounded_looks(mocker: MockerFixture) -> None:
    ledger = Ledger()
    for n in range(20):
        cards = tuple(card(f"{n:02}-{i:02}", mem_mib=65520, slices=16) for i in range(16))
        ledger.set_node(f"n{n:02}", Inventory(cards))
        for i, c in enumerate(cards):  # No two cards are alike, so none can be left out.
            ledger.hold(Grant(f"{n}-{i}", f"n{n:02}", {"main": (Slice(c.uuid, 1000 + 16 * n + i, (0,)),)}))
    looks = mocker.patch("device_plugin.core.placement.fit.fit", wraps=fit)
    asked = tuple((f"c{i}", Request(FAMILY, 0, 33 + i % 14, 1 + i)) for i in range(17))
    assert refusal(ledger, PodRequest("hostile", asked)).main is Reason.TOGETHER
    assert LOOKS // 2 < looks.call_count <= LOOKS


def test_the_fixed_order_does_not_depend_on_who_came_first() -> None:
    cards: list[Card] = [card(f"c{i}") for i in range(3)]
    choices = set()
    for order in itertools.permutations(cards):
        ledger = Ledger()
        ledger.set_node("n", Inventory(order))
        choices.add(only(granted(ledger, slice_request("a", 4))).card)
    assert choices == {"c0"}
