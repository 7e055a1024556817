"""The reasons of a refusal: what is found for all cards together equals what is found for each of them."""

import random
from dataclasses import replace

import msgspec
import pytest

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.placement.refusal import Causes, Refusal
from device_plugin.core.requests import Selector
from tests.core.placement.test_oracle import NODES, mixed_node, mixed_request


def _alike(rng: random.Random, shown: Inventory) -> Inventory:
    """The inventory, or one in which all cards are like the first: then all have one reason more often."""
    if rng.random() < 0.3 or not shown.cards:
        return shown
    first = shown.cards[0]
    return Inventory(tuple(msgspec.structs.replace(first, uuid=card.uuid) for card in shown.cards))


def _one_by_one(placer: Placer, causes: Causes, uuids: Selector) -> Refusal:
    """The refusal if the uuids are thought to matter, so that each card is looked at."""
    causes._named, causes._none_named = placer.table.named(uuids), False
    return causes.refusal()


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(4))
def test_reasons_of_all_cards_together_equal_those_of_each_card(seed: int) -> None:
    rng, together = random.Random(seed), 0
    for _ in range(40):
        ledger = Ledger()
        for name in rng.sample(NODES, rng.randint(1, len(NODES))):
            ledger.set_node(name, _alike(rng, mixed_node(rng, name)))
        placer = Placer(ledger)
        for number in range(12):
            uuids = Selector(rng.choice(("", "ghost", "!ghost", "a-0", "!a-0,!b-0")))
            request = replace(mixed_request(rng, f"p{number}"), uuids=uuids)
            nodes = rng.choice((None, NODES, ("a", "b"), ("ghost", "c")))
            answer = placer.place(request, nodes)
            if isinstance(answer, Grant):
                ledger.hold(answer)
                continue
            found, each = (Causes(placer.table, request, nodes) for _ in range(2))
            need = found._hardest()[1]
            together += found._common(found._ranks_by_state(need)) is not None
            told, expected = found.refusal(), _one_by_one(placer, each, uuids)
            assert told == expected
            assert told.of_nodes.ranks == expected.of_nodes.ranks
            assert (told.lasting, told.main) == (expected.lasting, expected.main)
    assert together > 20
