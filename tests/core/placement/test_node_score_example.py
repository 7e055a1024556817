"""The example of docs/node-score.md, through the real ledger, loads and policy."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from device_plugin.core.app_types import TYPES, Scoring
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Holding, Ledger
from device_plugin.core.loads import Load, Loads
from device_plugin.core.placement import Placer
from device_plugin.core.placement.node_score import NodeScore
from device_plugin.core.placement.table import NodeView
from tests.builders.cards import card
from tests.builders.requests import slice_request

PAGE = (Path(__file__).parents[3] / "docs/node-score.md").read_text()
MIB, GROUPS = 16000, 60
WHOLE = HostAmounts(64_000, 256 * 1024, 1000 * 1024)
REQUESTED = {
    "gpu-1": HostAmounts(16_000, 64 * 1024, 100 * 1024),
    "gpu-2": HostAmounts(32_000, 64 * 1024, 100 * 1024),
}


def rows(first: str) -> Iterator[list[str]]:
    """The cells of the table whose first column is called so."""
    lines = iter(PAGE[PAGE.index(f"| {first} |") :].splitlines()[2:])
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture
def placer() -> Placer:
    """The two nodes, as the page describes them."""
    ledger, loads = Ledger(), Loads()
    cards: dict[str, dict[str, list[float]]] = {}
    for name, *shares in rows("card"):
        cards.setdefault(name.split()[0], {})[name] = [float(share) for share in shares]
    for node, known in cards.items():
        ledger.set_node(node, Inventory(tuple(card(name, mem_mib=MIB) for name in known)), WHOLE)
        ledger.put(Holding(holder=f"others on {node}", node=node, host=REQUESTED[node]))
        for name, (memory, groups, *_) in known.items():
            if memory:
                held = Slice(name, round(memory * MIB), tuple(range(round(groups * GROUPS))))
                ledger.hold(Grant(f"pod on {name}", node, {"main": (held,)}))
        state = ledger.node(node)
        assert state is not None
        loads.put(state, {name: Load(used, load) for name, (_, _, used, load, _) in known.items()})
    return Placer(ledger, loads=loads)


def scores(placer: Placer, scoring: Scoring) -> Mapping[str, Mapping[str, float]]:
    """By application type, of each node."""
    placer.table.refresh()
    view = NodeView(placer.table, np.arange(len(placer.table.nodes)))
    return {
        name: dict(
            zip(
                placer.table.nodes,
                NodeScore(scoring.weights[name], scoring).score(view).tolist(),
                strict=True,
            )
        )
        for name in TYPES
    }


def test_each_card_is_as_free_as_the_page_says(placer: Placer) -> None:
    placer.table.refresh()
    policy = NodeScore(Scoring().weights["gpu"], Scoring())
    view = NodeView(placer.table, np.arange(len(placer.table.nodes)))
    free = policy.free(view)[view.there].tolist()
    told = [float(cells[-1]) for cells in rows("card")]
    assert free == pytest.approx(told)
    assert told[0] == 0.15, "a card that strangers use at 85 %"


def test_each_node_scores_what_the_page_says(placer: Placer) -> None:
    found = scores(placer, Scoring())
    for node, gpu, cpu, memory, disk, *told in rows("node"):
        assert [found[name][node] for name in TYPES] == pytest.approx([float(score) for score in told])
        shares = NodeView(placer.table, np.array([placer.table.position[node]])).shares[:, 0].tolist()
        assert shares == pytest.approx([float(cpu), float(memory), float(disk)])
        weights = Scoring().weights["gpu"]
        beside = weights.cpu * shares[0] + weights.memory * shares[1] + weights.disk * shares[2]
        assert (found["gpu"][node] - beside) / weights.gpu == pytest.approx(float(gpu))


def test_a_pod_of_each_type_goes_where_the_page_says(placer: Placer) -> None:
    match = re.search(r"A pod of each type goes to `([-a-z0-9]+)`", PAGE)
    assert match
    for name in TYPES:
        placed = placer.place(slice_request("new", 1, 1, policy="node-score", app_type=name))
        assert isinstance(placed, Grant)
        assert placed.node == match[1]


def test_counts_are_amounts_and_the_disk_outweighs_all_cards(placer: Placer) -> None:
    counted = scores(placer, Scoring(counts=True))["gpu"]
    cards = {name: 4 * float(gpu) for name, gpu, *_ in rows("node")}
    assert counted == pytest.approx(
        {
            "gpu-1": 0.6 * cards["gpu-1"] + 0.2 * 48 + 0.1 * 192 + 0.1 * 900,
            "gpu-2": 0.6 * cards["gpu-2"] + 0.2 * 32 + 0.1 * 192 + 0.1 * 900,
        }
    )
    assert 0.1 * 900 > 0.6 * 4
