"""node-score: the formula against one that is written out card by card, thresholds, loads, and groups."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest

from device_plugin.core.app_types import DEFAULT_WEIGHTS, TYPES, Scoring, Weights
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Holding, Ledger, NodeState
from device_plugin.core.loads import Load, Loads
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.placement.node_score import NodeScore
from device_plugin.core.placement.place import BY_DEFAULT
from device_plugin.core.placement.table import NodeTable, NodeView
from device_plugin.core.requests import PodRequest, Request
from device_plugin.core.roles import Rank
from tests.builders.cards import FAMILY, inventory
from tests.builders.refusals import by_node
from tests.builders.requests import slice_request

MIB, GROUPS = 16368, 60


class Cluster:
    """Nodes of two cards of 16 units and 60 core groups, alike but for what a test does to them."""

    def __init__(self, *names: str, scoring: Scoring = BY_DEFAULT) -> None:
        self.scoring = scoring
        self.ledger, self.loads = Ledger(), Loads()
        for name in names:
            self.ledger.set_node(name, inventory(name), HostAmounts(64_000, 65_536, 102_400))
        self.placer = Placer(self.ledger, loads=self.loads, scoring=scoring)

    def hold(self, card: str, mem: int, cores: int) -> None:
        """Somebody holds so many units and core groups."""
        node = card.rpartition("-")[0]
        free = next(c for c in self.state(node).cards if c.card.uuid == card).free_cores
        ids = [i for i in range(GROUPS) if free >> i & 1][:cores]
        pod = f"p{len(self.ledger.grants())}"
        self.ledger.hold(Grant(pod, node, {"main": (Slice(card, mem * MIB // 16, tuple(ids)),)}))

    def host_pod(self, pod: str, node: str, host: HostAmounts) -> None:
        """A pod that asks for no slice has these amounts of a host."""
        self.ledger.put(Holding(holder=pod, node=node, host=host))

    def state(self, node: str) -> NodeState:
        found = self.ledger.node(node)
        assert found is not None
        return found

    def measure(self, node: str, **loads: Load) -> None:
        """The agent says so; cards are named by their last part: `c0`."""
        self.loads.put(self.state(node), {f"{node}-{name[1:]}": load for name, load in loads.items()})

    def score(self, app_type: str = "gpu") -> Mapping[str, float]:
        """Of each node."""
        self.placer.table.refresh()
        table = self.placer.table
        values = NodeScore(self.scoring.weights[app_type], self.scoring).score(
            NodeView(table, np.arange(len(table.nodes)))
        )
        return dict(zip(table.nodes, values.tolist(), strict=True))

    def chosen(self, app_type: str = "", rank: Rank | None = None) -> str:
        """Where a small slice goes."""
        asked = slice_request("new", 1, 1, policy="node-score", app_type=app_type)
        found = self.placer.place(replace(asked, rank=rank) if rank else asked)
        assert isinstance(found, Grant), found.text
        return found.node


def test_each_type_looks_at_what_it_needs() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.hold("a-0", 8, 30)
    cluster.host_pod("x", "b", HostAmounts(32_000, 0, 0))
    cluster.host_pod("y", "c", HostAmounts(0, 32_768, 0))
    assert cluster.score("gpu") == pytest.approx({"a": 0.85, "b": 0.9, "c": 0.95})
    assert cluster.score("cpu") == pytest.approx({"a": 1, "b": 0.7, "c": 0.85})
    assert cluster.score("memory") == pytest.approx({"a": 1, "b": 0.85, "c": 0.7})
    assert [cluster.chosen(name) for name in ("gpu", "cpu", "memory", "")] == ["c", "a", "a", "c"]


def test_disk_counts() -> None:
    cluster = Cluster("a", "b")
    cluster.host_pod("x", "a", HostAmounts(0, 0, 51_200))
    assert cluster.score("cpu") == pytest.approx({"a": 0.95, "b": 1})


def test_the_most_used_half_counts_and_beyond_a_threshold_nothing() -> None:
    cluster = Cluster("a")
    cluster.hold("a-0", 4, 30)
    assert cluster.score()["a"] == pytest.approx(0.4 + 0.6 * (0.5 + 1) / 2)
    cluster.hold("a-0", 8, 0)
    assert cluster.score()["a"] == pytest.approx(0.4 + 0.6 * (0.25 + 1) / 2)
    cluster.hold("a-0", 3, 0)
    assert cluster.score()["a"] == pytest.approx(0.4 + 0.6 * (0 + 1) / 2), "15 of 16 units are beyond 90 %"
    cluster.hold("a-1", 1, 55)
    assert cluster.score()["a"] == pytest.approx(0.4)


def test_a_card_that_strangers_use_is_not_free_though_nobody_was_granted_any_of_it() -> None:
    cluster = Cluster("a")
    cluster.measure("a", c0=Load(0.85, 0.0), c1=Load(0.0, 0.4))
    assert cluster.score()["a"] == pytest.approx(0.4 + 0.6 * (0.15 + 0.6) / 2)
    cluster.measure("a", c0=Load(0.95, 0.0), c1=Load(0.02, 0.95))
    assert cluster.score()["a"] == pytest.approx(0.4), "either is beyond its threshold"
    cluster.loads.drop("a")
    assert cluster.score()["a"] == pytest.approx(1)


def test_what_is_granted_is_not_free_though_it_is_not_used_yet() -> None:
    cluster = Cluster("a")
    cluster.hold("a-0", 8, 15)
    cluster.measure("a", c0=Load(0.1, 0.2), c1=Load(0.0, 0.0))
    assert cluster.score()["a"] == pytest.approx(0.4 + 0.6 * (0.5 + 1) / 2)


def test_a_driver_that_does_not_say_how_busy_leaves_the_core_groups_that_are_granted() -> None:
    cluster = Cluster("a")
    cluster.hold("a-0", 8, 45)
    cluster.measure("a", c0=Load(0.1))
    assert cluster.score()["a"] == pytest.approx(0.4 + 0.6 * (0.25 + 1) / 2)


def test_a_grant_after_the_measurement_counts_at_once_and_a_release_too() -> None:
    cluster = Cluster("a")
    cluster.hold("a-0", 8, 30)
    cluster.measure("a", c0=Load(0.0, 0.0), c1=Load(0.0, 0.0))
    cluster.hold("a-0", 4, 15)
    assert cluster.score()["a"] == pytest.approx(0.4 + 0.6 * (0.25 + 1) / 2)
    cluster.ledger.release("p1")
    cluster.ledger.release("p0")
    assert cluster.score()["a"] == pytest.approx(1)


def test_pods_one_after_another_spread_though_no_measurement_shows_them_yet() -> None:
    cluster = Cluster("a", "b", "c")
    for name in ("a", "b", "c"):
        cluster.hold(f"{name}-0", 4, 4)
        cluster.hold(f"{name}-1", 4, 4)
    for share, name in enumerate(("a", "b", "c")):
        cluster.measure(name, c0=Load((26 + share) / 100, 0.0), c1=Load((26 + share) / 100, 0.0))
    nodes = []
    for i in range(3):
        found = cluster.placer.place(slice_request(f"n{i}", 3, 3, policy="node-score"))
        assert isinstance(found, Grant)
        cluster.ledger.hold(found)
        nodes.append(found.node)
    assert nodes == ["a", "b", "c"]


def test_a_new_load_scores_only_its_own_node_again() -> None:
    cluster = Cluster("a", "b")
    table = NodeTable(cluster.ledger, cluster.loads)
    table.refresh()
    before = table.stamp.copy()
    cluster.measure("b", c0=Load(0.5, 0.5))
    table.refresh()
    assert (table.stamp != before).tolist() == [False, True]
    version = cluster.loads.version
    cluster.measure("b", c0=Load(0.5004, 0.5))
    assert cluster.loads.version == version, "noise is no change"


@pytest.mark.parametrize("seed", range(10))
def test_the_best_score_wins_whatever_happens_and_the_first_name_of_equals(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(6)]
    cluster = Cluster(*names)
    measured: dict[str, Mapping[str, Load]] = {}
    weights = {name: DEFAULT_WEIGHTS[name] for name in TYPES}
    for step in range(150):
        name = rng.choice(names)
        event = rng.random()
        if event < 0.3:
            cluster.host_pod(
                f"h{rng.randrange(30)}", name, HostAmounts(rng.randrange(9000), rng.randrange(9000), 100)
            )
        elif event < 0.6:
            loads = {f"c{i}": Load(rng.random(), rng.choice([None, rng.random()])) for i in range(2)}
            cluster.measure(name, **loads)
            measured[name] = {f"{name}-{card[1:]}": load for card, load in loads.items()}
        elif event < 0.7:
            cluster.loads.drop(name)
            measured.pop(name, None)
        elif event < 0.85 and cluster.ledger.grants():
            cluster.ledger.release(rng.choice(sorted(cluster.ledger.grants())))
        app_type = rng.choice(TYPES)
        found = cluster.placer.place(slice_request(f"p{step}", 2, 5, policy="node-score", app_type=app_type))
        scores = {
            each: written_out(cluster, each, weights[app_type], measured.get(each, {})) for each in names
        }
        fitting = [each for each in names if any(c.free_mib >= 2046 and c.free_cores.bit_count() >= 5
                   and c.free_slices for c in cluster.state(each).cards)]  # fmt: skip
        assert isinstance(found, Grant) == bool(fitting)
        if isinstance(found, Grant):
            best = max(scores[each] for each in fitting)
            assert scores[found.node] == pytest.approx(best, abs=1e-8), f"seed {seed}, step {step}"
            cluster.ledger.hold(found)


@dataclass
class Seen:
    """What a test has done to one card, in shares: the oracle looks at neither ledger nor loads."""

    granted_memory: float = 0.0
    granted_groups: float = 0.0
    used_memory: float = 0.0
    load: float = 0.0

    def free(self) -> float:
        """1 less the greatest of the four; 0 if one is beyond its threshold."""
        four = (self.granted_memory, self.granted_groups, self.used_memory, self.load)
        return 0.0 if any(share > 0.9 + 1e-9 for share in four) else 1 - max(four)


def written_out(cluster: Cluster, node: str, weights: Weights, measured: Mapping[str, Load]) -> float:
    """The formula of docs/node-score.md, one card after another, from grants and measurements."""
    cards = {f"{node}-{i}": Seen() for i in range(2)}
    for grant in cluster.ledger.grants().values():
        for s in grant.slices():
            if grant.node == node:
                cards[s.card].granted_memory += s.mem_mib / MIB
                cards[s.card].granted_groups += len(s.cores) / GROUPS
    for uuid, load in measured.items():
        cards[uuid].used_memory = round(load.memory, 2)
        cards[uuid].load = round(load.busy or 0.0, 2)
    left, whole = cluster.state(node).left, cluster.state(node).whole
    return (
        weights.gpu * sum(card.free() for card in cards.values()) / 2
        + weights.cpu * max(0, left.cpu_milli) / whole.cpu_milli
        + weights.memory * max(0, left.memory_mib) / whole.memory_mib
        + weights.disk * max(0, left.disk_mib) / whole.disk_mib
    )


def test_counts_prefer_the_node_with_more_free_cards_and_shares_the_freer_one() -> None:
    for counts, best in ((False, "small"), (True, "large")):
        cluster = Cluster(scoring=Scoring(counts=counts))
        for name, cards in (("small", 1), ("large", 4)):
            cluster.ledger.set_node(name, inventory(name, cards), HostAmounts(64_000, 65_536, 102_400))
        cluster.hold("large-0", 16, 60)
        assert cluster.chosen() == best
    assert cluster.score() == {"small": 0.6 * 1 + 29.2, "large": 0.6 * 3 + 29.2}


def test_an_unknown_type_is_refused_with_the_known_ones() -> None:
    no = Cluster("a").placer.place(slice_request("p", 1, policy="node-score", app_type="network"))
    assert isinstance(no, Refusal)
    assert (no.main, no.text) == (Reason.POLICY, "no application type 'network': write gpu, cpu, memory")
    assert isinstance(Cluster("a").placer.place(slice_request("p", 1, app_type="network")), Grant)


def test_nodes_of_the_group_are_avoided_and_better_ones_left_to_others() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.host_pod("x", "b", HostAmounts(32_000))
    cluster.host_pod("y", "c", HostAmounts(48_000))
    assert [cluster.chosen(rank=Rank(leave=i)) for i in range(4)] == ["a", "b", "c", "c"]
    assert cluster.chosen(rank=Rank(avoid=frozenset({"a"}))) == "b"
    assert cluster.chosen(rank=Rank(avoid=frozenset({"a", "gone"}), leave=1)) == "c"


def test_no_node_apart_from_the_group_is_a_reason_of_its_own() -> None:
    rank = Rank(avoid=frozenset({"a", "b"}))
    request = slice_request("p", 1, 1, policy="node-score", rank=rank)
    no = Cluster("a", "b").placer.place(request)
    assert isinstance(no, Refusal)
    assert (no.main, no.text) == (Reason.APART, "4 cards: 4 on nodes of other pods of its group")
    assert set(by_node(no, ["a", "b"])) == {"a", "b"}


def test_a_pod_of_several_containers_goes_by_the_score_too() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.host_pod("x", "a", HostAmounts(32_000))
    cluster.host_pod("y", "c", HostAmounts(16_000))
    containers = tuple((name, Request(FAMILY, mem=4)) for name in ("main", "side"))
    request = PodRequest("p", containers, policy="node-score")
    found = [cluster.placer.place(replace(request, rank=Rank(leave=i))) for i in range(4)]
    assert [grant.node for grant in found if isinstance(grant, Grant)] == ["b", "c", "a", "a"]


def test_a_host_without_the_disk_is_no_place() -> None:
    cluster = Cluster("a")
    no = cluster.placer.place(slice_request("p", 1, 1, host=HostAmounts(0, 0, 200_000)))
    assert isinstance(no, Refusal)
    assert no.text == "2 cards: 2 on nodes with too little free CPU, memory or disk"
