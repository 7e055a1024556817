"""EmptyPool: what the cards of a pool could hold, open or closed, and which of them are closed."""

from dataclasses import replace

import pytest

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.jobs.empty_pool import EmptyPool
from device_plugin.core.ledger import Ledger
from device_plugin.core.node_constraints import NodeIndex, NodeTraits, Taint
from device_plugin.core.requests import Selector
from tests.builders.cards import card, inventory
from tests.builders.jobs import job_spec
from tests.builders.requests import slice_request, whole_request


def pool(*taints: Taint, **inventories: Inventory) -> EmptyPool:
    """Nodes with these inventories, the first of them with the taints."""
    ledger = Ledger()
    for name, each in inventories.items():
        ledger.set_node(name, each, HostAmounts(cpu_milli=8000, memory_mib=8192))
    first, *others = inventories
    index = NodeIndex([NodeTraits(first, {}, taints), *(NodeTraits(name, {}) for name in others)])
    return EmptyPool(ledger.snapshot().records(), index)


@pytest.mark.parametrize(
    ("closed", "taints", "said"),
    [
        (inventory("a").cordon({"a-1"}), (), "card a-1 of node a is cordoned"),
        (Inventory((card("a-0"), card("a-1", healthy=False))), (), "card a-1 of node a is unhealthy"),
        (
            Inventory(inventory("a", 1).cards, serving=False), (), "card a-0 of node a has no agent that serves",
        ),
        (
            inventory("a", 1), (Taint("node.kubernetes.io/unschedulable"),),
            "card a-0 of node a is on a node that is cordoned",
        ),
        (
            inventory("a", 1), (Taint("node.kubernetes.io/not-ready", effect="NoExecute"),),
            "card a-0 of node a is on a node that is tainted node.kubernetes.io/not-ready",
        ),
    ],
)  # fmt: skip
def test_a_closed_card_counts_only_where_closed_ones_do_and_is_named_with_the_reason(
    closed: Inventory, taints: tuple[Taint, ...], said: str
) -> None:
    empty, job = pool(*taints, a=closed, b=inventory("b", 1)), job_spec("j", least=2, most=8)
    cards = len(closed.cards) + 1
    assert (empty.capacity(job), empty.capacity(job, closed=True)) == (cards - 1, cards)
    group = [replace(job, least=cards - 1), replace(job, least=1)]
    assert (empty.may_hold(group), empty.may_hold(group, closed=True)) == (False, True)
    assert empty.closed_cards([job]) == said


def test_a_taint_that_an_operator_wrote_stays() -> None:
    empty, job = pool(Taint("team", "x"), a=inventory("a"), b=inventory("b")), job_spec("j")
    assert (empty.capacity(job), empty.capacity(job, closed=True)) == (2, 2)
    assert empty.closed_cards([job]) == ""


def test_only_closed_cards_that_a_job_could_use_are_named_and_three_of_them() -> None:
    empty = pool(a=inventory("a", 5).cordon({f"a-{number}" for number in range(5)}))
    assert empty.closed_cards([job_spec("j")]) == (
        "card a-0 of node a is cordoned, card a-1 of node a is cordoned, card a-2 of node a is cordoned, and 2 more"
    )
    third = replace(job_spec("j"), request=replace(whole_request("", 1), uuids=Selector("a-3")))
    assert empty.closed_cards([third]) == "card a-3 of node a is cordoned"
    large = replace(job_spec("j"), request=slice_request("", mem=64, cores=1))
    assert empty.closed_cards([large]) == ""


def test_without_an_index_jobs_may_go_anywhere() -> None:
    ledger = Ledger()
    ledger.set_node("a", inventory("a").cordon({"a-0"}))
    empty = EmptyPool(ledger.snapshot().records())
    assert (empty.capacity(job_spec("j")), empty.capacity(job_spec("j"), closed=True)) == (1, 2)
    assert empty.closed_cards([job_spec("j")]) == "card a-0 of node a is cordoned"
