from collections.abc import Iterator

import pytest

from tests.cluster.world import Replica, World


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    ledger = made.one.view.ledger
    for name in ledger.nodes():
        node = ledger.node(name)
        assert node is not None
        # Whatever happened: nothing was given out twice, and nothing was given back twice.
        for card in node.cards:
            assert 0 <= card.free_mib <= card.card.mem_mib


@pytest.fixture
def one(world: World) -> Replica:
    return world.one
