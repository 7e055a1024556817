"""The index after any changes equals one that is built afresh, and does not rebuild for a mere grant."""

import random

import numpy as np
import pytest
from pytest_mock import MockerFixture

from device_plugin.core.cards import Inventory
from device_plugin.core.grants import Grant
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.placement.index import Index
from device_plugin.core.requests import Selector
from tests.core.clusters import FAMILY, inventory, random_request, slice_request
from tests.core.placement.test_oracle import NODES, changed, mixed_node, mixed_request

COLUMNS = (
    "free_mib",
    "free_cores",
    "free_slices",
    "mib",
    "units",
    "groups",
    "most",
    "serving",
    "usable",
)
LISTS = ("nodes", "cards", "names", "uuids")


@pytest.mark.parametrize("seed", range(3))
def test_an_index_that_followed_equals_a_fresh_one(seed: int) -> None:
    rng = random.Random(seed)
    ledger = Ledger()
    index, placer = Index(ledger), Placer(ledger)
    known: dict[str, Inventory] = {}
    for i in range(300):
        for _ in range(rng.randint(1, 3)):
            name = rng.choice(NODES)
            if rng.random() < 0.1:
                known.pop(name, None)
                ledger.drop_node(name)
            elif rng.random() < 0.3 or name not in known:
                known[name] = changed(rng, name, known[name]) if name in known else mixed_node(rng, name)
                ledger.set_node(name, known[name])
            elif isinstance(grant := placer.place(mixed_request(rng, f"p{i}")), Grant):
                ledger.hold(grant)
        index.refresh()
        fresh = Index(ledger)
        for column in COLUMNS:
            assert np.array_equal(getattr(index, column), getattr(fresh, column)), column
        assert all(getattr(index, name) == getattr(fresh, name) for name in LISTS)
        for family in (FAMILY, "amd.com/gpu", "nobody.com/card"):
            assert np.array_equal(index.of_family(family), fresh.of_family(family))


def test_a_grant_writes_only_the_rows_of_its_own_cards(mocker: MockerFixture) -> None:
    ledger = Ledger()
    for i in range(10):
        ledger.set_node(f"n{i}", inventory(f"n{i}", 4))
    placer = Placer(ledger)
    rng = random.Random(1)
    written = mocker.patch.object(Index, "_column", autospec=True, side_effect=Index._column)
    held = 0
    for i in range(30):
        found = placer.place(random_request(rng, f"p{i}"))
        if isinstance(found, Grant):
            ledger.hold(found)
            held += len(list(found.slices()))
    assert 0 < written.call_count <= held


def test_rows_of_nodes_and_sums_over_them() -> None:
    ledger = Ledger()
    for name, count in (("a", 2), ("b", 0), ("c", 1)):
        ledger.set_node(name, inventory(name, count))
    index = Index(ledger)
    assert [index.rows(name) for name in ("a", "b", "c", "ghost")] == [(0, 2), (2, 2), (2, 3), (0, 0)]
    assert index.on(["c", "ghost"]).tolist() == [False, False, True]
    assert not index.on([]).any()
    assert index.by_node(np.array([1, 2, 4])).tolist() == [3, 0, 4]
    assert index.named(Selector("!a-0")).tolist() == [False, True, True]
    assert Placer(ledger).place(slice_request("p", 1), ["c"]).node == "c"  # type: ignore[union-attr]
