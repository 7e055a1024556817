"""Which nodes are one pool, and which pools jobs fit."""

import random

import pytest
from msgspec.structs import replace

from device_plugin.core.contract.annotations import POOL, RESTRICTED_POOL
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.pools import MOST_POOLS, Fitting, Pool, pinned, pool_label, pools_of, unit_key
from device_plugin.core.node_constraints import (
    CORDON,
    NodeConstraints,
    NodeIndex,
    NodeTraits,
    Operator,
    Requirement,
    Taint,
)
from device_plugin.core.requests import PodRequest, Request, Selector
from tests.builders.cards import card

DCU, GPU, THIRD = "hygon.com/dcu", "amd.com/gpu", "nvidia.com/gpu"


def inventory(name: str, *families: str, model: str = "Z100") -> Inventory:
    return Inventory(
        tuple(replace(card(f"{name}-{i}"), family=of, model=model) for i, of in enumerate(families))
    )


def job(*families: str, models: str = "", pool: str = "", name: str = "a") -> JobSpec:
    containers = tuple((f"c{i}", Request(of, whole=1)) for i, of in enumerate(families))
    required = (Requirement(POOL, Operator.IN, (pool,)),) if pool else ()
    request = PodRequest("", containers, models=Selector(models) if models else Selector())
    return JobSpec(
        key=("default", name), request=request, cards=float(len(families)), nodes=NodeConstraints(required)
    )


def names(found: object) -> list[str]:
    return [str(pool) for pool in found]  # type: ignore[attr-defined]


def test_cards_of_families_that_share_no_node_are_pools() -> None:
    nodes = {"n1": inventory("n1", DCU), "n2": inventory("n2", GPU), "n3": inventory("n3", DCU, DCU)}
    found = pools_of(nodes, {})
    assert {str(pool): set(of) for pool, of in found.nodes.items()} == {DCU: {"n1", "n3"}, GPU: {"n2"}}
    assert found.of_node("n2") == Pool(GPU)
    assert found.of_node("n9") is None
    assert not found.problem


def test_families_that_share_a_node_are_one_pool_and_so_are_those_that_share_others() -> None:
    nodes = {"n1": inventory("n1", DCU, THIRD), "n2": inventory("n2", GPU, DCU), "n3": inventory("n3", THIRD)}
    assert names(pools_of(nodes, {}).nodes) == [GPU]


def test_labels_divide_a_family_once_all_of_its_nodes_have_one() -> None:
    nodes = {name: inventory(name, DCU) for name in ("n1", "n2", "n3")} | {"n4": inventory("n4", GPU)}
    labels = {"n1": "a", "n2": "b"}
    found = pools_of(nodes, labels)
    assert names(found.nodes) == [GPU, DCU]
    assert found.problem == (
        "hygon.com/dcu is one pool, because node n3 has no label vgpu.io/pool: write it there, or on no node"
    )
    found = pools_of(nodes, {**labels, "n3": "a"})
    assert {str(pool): set(of) for pool, of in found.nodes.items()} == {
        GPU: {"n4"}, f"{DCU}/a": {"n1", "n3"}, f"{DCU}/b": {"n2"},
    }  # fmt: skip
    assert not found.problem


def test_the_label_that_kubelets_may_not_write_counts_as_soon_as_one_node_has_it() -> None:
    def index(**labels: dict[str, str]) -> NodeIndex:
        return NodeIndex(NodeTraits(name, of) for name, of in labels.items())

    assert pool_label(index(n1={POOL: "a"}, n2={})) == POOL
    assert pool_label(index(n1={POOL: "a"}, n2={POOL: "a", RESTRICTED_POOL: ""})) == POOL
    assert pool_label(index(n1={POOL: "a"}, n2={POOL: "a", RESTRICTED_POOL: "b"})) == RESTRICTED_POOL
    found = pools_of({"n1": inventory("n1", DCU), "n2": inventory("n2", DCU)}, {"n2": "b"}, RESTRICTED_POOL)
    assert (found.key, names(found.nodes)) == (RESTRICTED_POOL, [DCU])
    assert found.problem.startswith(f"{DCU} is one pool, because node n1 has no label {RESTRICTED_POOL}: ")


def test_there_are_never_too_many_pools() -> None:
    many = {f"n{i}": inventory(f"n{i}", DCU) for i in range(40)} | {"m": inventory("m", GPU)}
    found = pools_of(many, {name: name for name in many})
    assert len(found.nodes) <= MOST_POOLS
    assert "at most 16 pools" in found.problem
    families = {f"n{i}": inventory(f"n{i}", f"maker{i}.com/gpu") for i in range(40)}
    assert len(pools_of(families, {}).nodes) <= MOST_POOLS


def test_every_node_is_in_one_pool_whatever_it_holds(rng: random.Random) -> None:
    for _ in range(300):
        families = [f"f{i}.com/x" for i in range(rng.randint(1, 5))]
        nodes = {
            f"n{i}": inventory(f"n{i}", *rng.choices(families, k=rng.randint(0, 2))) for i in range(rng.randint(0, 12))
        }  # fmt: skip
        labels = {name: rng.choice(["a", "b", "", "c"]) for name in nodes}
        found = pools_of(nodes, labels)
        placed = [name for of in found.nodes.values() for name in of]
        assert sorted(placed) == sorted(name for name, of in nodes.items() if of.cards)
        for one in found.kinds:
            for other in found.kinds:
                if one.family != other.family:
                    assert not {of for of, _ in found.kinds[one]} & {of for of, _ in found.kinds[other]}


@pytest.fixture
def fitting() -> Fitting:
    nodes = {
        "n1": inventory("n1", DCU), "n2": inventory("n2", DCU, model="K100"), "n3": inventory("n3", GPU),
    }  # fmt: skip
    labels = {"n1": "a", "n2": "b"}
    traits = [NodeTraits(name, {POOL: labels[name]} if name in labels else {}) for name in nodes]
    return Fitting(pools_of(nodes, labels), NodeIndex(traits))


def test_jobs_fit_pools_by_family_model_and_node_selector(fitting: Fitting) -> None:
    assert names(fitting.of([job(DCU)])) == [f"{DCU}/a", f"{DCU}/b"]
    assert names(fitting.of([job(GPU)])) == [GPU]
    assert names(fitting.of([job(DCU, models="K100")])) == [f"{DCU}/b"]
    assert names(fitting.of([job(DCU, models="!K100")])) == [f"{DCU}/a"]
    assert names(fitting.of([job(DCU, pool="b")])) == [f"{DCU}/b"]
    assert names(fitting.of([job(DCU, pool="c")])) == []
    assert names(fitting.of([job(DCU, GPU)])) == [], "no node has both"
    assert names(fitting.of([])) == names(fitting.pools.nodes), "pods without cards fit anywhere"


def test_a_job_fits_the_pool_of_nodes_that_are_only_cordoned_if_it_may_go_to_no_others() -> None:
    nodes, labels = {"n1": inventory("n1", DCU), "n2": inventory("n2", DCU)}, {"n1": "a", "n2": "b"}
    cordoned = {"n1": (Taint(CORDON),), "n2": ()}
    index = NodeIndex([NodeTraits(name, {POOL: labels[name]}, cordoned[name]) for name in nodes])
    fitting = Fitting(pools_of(nodes, labels), index)
    assert names(fitting.of([job(DCU, pool="a")])) == [f"{DCU}/a"]
    assert names(fitting.of([job(DCU)])) == [f"{DCU}/b"]


def test_jobs_of_a_group_fit_what_all_of_them_fit(fitting: Fitting) -> None:
    assert names(fitting.of([job(DCU), job(DCU, models="K100", name="b")])) == [f"{DCU}/b"]
    assert names(fitting.of([job(DCU), job(GPU, name="b")])) == []


def test_only_a_single_value_of_the_label_pins() -> None:
    assert pinned(job(DCU, pool="a").nodes, POOL)
    assert not pinned(job(DCU, pool="a").nodes, RESTRICTED_POOL)
    assert not pinned(job(DCU).nodes, POOL)
    assert not pinned(NodeConstraints((Requirement(POOL, Operator.IN, ("a", "b")),)), POOL)
    assert not pinned(NodeConstraints((Requirement("zone", Operator.IN, ("a",)),)), POOL)


def test_the_key_of_what_one_planner_plans_together() -> None:
    one = job(DCU)
    assert unit_key(one) == ("job", "default", "a")
    assert unit_key(JobSpec(key=("x", "a"), request=one.request, group="g")) == ("job", "x", "a"), (
        "its own gang"
    )
    assert unit_key(JobSpec(key=("x", "a"), request=one.request, group="g", joint=True)) == (
        "group",
        "x",
        "g",
    )
    assert unit_key(JobSpec(key=("x", "a"), request=one.request, split_of="s")) == ("split", "x", "s")
