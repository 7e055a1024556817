"""Pods that ask by ResourceClaims: only nodes that prepare claims get them, and there they are placed as by limits."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.requests import PodRequest
from tests.builders.cards import inventory
from tests.builders.refusals import by_node
from tests.builders.requests import slice_request, whole_request
from tests.core.placement.test_oracle import NODES, mixed_node, mixed_request

CLAIMED = (("main", "uid-claim"),)
HOST = HostAmounts(4000, 8000)


def by_claim(request: PodRequest) -> PodRequest:
    """A request that differs only in this: each of its containers asks by a ResourceClaim."""
    return replace(request, claims=tuple((name, f"claim-{name}") for name, _ in request.containers))


def shown(ledger: Ledger, name: str, cards: Inventory, *, claims: bool) -> None:
    ledger.set_node(name, replace(cards, claims=claims), HOST)


def place(placer: Placer, request: PodRequest, nodes: Sequence[str] | None) -> Grant | None:
    """The grant without its claims; None if the request is refused."""
    answer = placer.place(request, nodes)
    return structs.replace(answer, claims={}) if isinstance(answer, Grant) else None


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(6))
def test_claims_are_placed_as_limits_are_on_the_nodes_that_prepare_claims(seed: int) -> None:
    rng, counts = random.Random(seed), [0, 0]
    for _ in range(25):
        ledger = Ledger()
        cards = {name: mixed_node(rng, name) for name in NODES}
        placer = Placer(ledger)
        for number in range(25):
            if number % 5 == 0:
                # Each node begins, or ceases, to prepare claims; sometimes all of them do.
                everywhere = rng.random() < 0.3
                serving = [name for name in NODES if everywhere or rng.random() < 0.5]
                for name in NODES:
                    shown(ledger, name, cards[name], claims=name in serving)
            host = rng.choice((HostAmounts(), HostAmounts(500, 500)))
            request = replace(mixed_request(rng, f"p{number}"), host=host)
            nodes = rng.choice((None, NODES, ("a", "b"), ("c", "ghost")))
            there = [name for name in NODES if name in serving and name in (nodes or NODES)]
            expected = place(placer, request, None if everywhere and nodes is None else there)
            assert place(placer, by_claim(request), nodes) == expected
            counts[expected is None] += 1
            if rng.random() < 0.5 and (held := place(placer, request, nodes)) is not None:
                ledger.hold(held, host)
    assert min(counts) > 20


def test_the_refusal_says_that_a_node_prepares_no_claims() -> None:
    ledger = Ledger()
    shown(ledger, "n1", inventory("n1"), claims=False)
    shown(ledger, "n2", inventory("n2", 1), claims=True)
    refused = Placer(ledger).place(slice_request("p", 16, claims=CLAIMED), ["n1"])
    assert isinstance(refused, Refusal)
    assert refused.text == "2 cards: 2 on nodes that prepare no ResourceClaims"
    assert refused.main is Reason.CLAIMS
    ledger.hold(Placer(ledger).place(slice_request("q", 16, claims=CLAIMED)))  # type: ignore[arg-type]
    refused = Placer(ledger).place(slice_request("p", 16, claims=CLAIMED))
    assert isinstance(refused, Refusal)
    assert refused.main is Reason.MEMORY
    assert by_node(refused, ["n1", "n2"]) == {
        "n1": "on nodes that prepare no ResourceClaims",
        "n2": "lack memory (largest free 0 MiB)",
    }


def test_what_no_agent_can_change_comes_before_claims() -> None:
    ledger = Ledger()
    shown(ledger, "n1", inventory("n1"), claims=False)
    refused = Placer(ledger).place(slice_request("p", 17, claims=CLAIMED))
    assert isinstance(refused, Refusal)
    assert refused.cards == {Reason.TOO_LARGE: 2}


def test_a_refusal_for_claims_lasts_until_an_inventory_changes() -> None:
    ledger = Ledger()
    shown(ledger, "n1", inventory("n1"), claims=False)
    placer = Placer(ledger)
    refused = placer.decide(slice_request("p", 4, claims=CLAIMED))
    assert not isinstance(refused, Grant)
    assert refused().lasting
    assert refused.everywhere
    before = ledger.restocked, ledger.gained, ledger.freed
    shown(ledger, "n1", inventory("n1"), claims=True)
    assert (ledger.restocked, ledger.gained, ledger.freed) == tuple(count + 1 for count in before)
    assert isinstance(placer.place(slice_request("p", 4, claims=CLAIMED)), Grant)


def test_pods_by_limits_do_not_look_at_claims() -> None:
    ledger = Ledger()
    shown(ledger, "n1", inventory("n1"), claims=False)
    placer = Placer(ledger)
    assert not isinstance(placer.place(slice_request("p", 4, claims=CLAIMED)), Grant)
    for request in (slice_request("q", 4), whole_request("w", 1)):
        assert isinstance(placer.place(request), Grant)
