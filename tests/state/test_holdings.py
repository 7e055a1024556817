"""The ledger as the job engine reads it."""

import pytest

from device_plugin.core.requests import Request
from device_plugin.state.holdings import ViewedHoldings
from device_plugin.state.nodes import KnownNodes
from tests.builders.cards import FAMILY
from tests.cluster.world import Replica


@pytest.mark.parametrize(
    ("asked", "share"),
    [
        (Request(FAMILY, mem=8, cores=15), 0.5),
        (Request(FAMILY, mem=4, cores=30), 0.5),
        (Request(FAMILY, mem=99, cores=1), 1.0),
        (Request("amd.com/gpu", mem=1, cores=1), 1.0),
    ],
)
def test_a_slice_takes_the_larger_share_of_memory_and_core_groups(
    one: Replica, asked: Request, share: float
) -> None:
    assert ViewedHoldings(one.view, KnownNodes()).share(asked) == pytest.approx(share)
