"""Where a pod stands in its group: ranks differ, and the first roles get the best nodes."""

import random
from collections.abc import Iterable

import pytest

from device_plugin.core.pods import Pod
from device_plugin.core.roles import Mate, rank_of, standing, standings


def member(name: str, role: str = "", **labels: str) -> Pod:
    roles = {"vgpu.io/role": role} if role else {}
    return Pod("default", name, f"uid-{name}", labels={"vgpu.io/group": "g", **roles, **labels})


def ranks(pods: Iterable[Pod]) -> dict[str, int]:
    """By name, all of them unplaced."""
    pods = list(pods)
    return {pod.name: standing(pod, [Mate(mate) for mate in pods if mate is not pod]).rank for pod in pods}


def test_roles_go_by_name_and_numbers_by_value() -> None:
    pods = [member("x", "worker-10"), member("y", "worker-2"), member("z", "launcher"), member("w")]
    assert ranks(pods) == {"w": 0, "z": 1, "y": 2, "x": 3}


def test_of_one_role_the_names_decide() -> None:
    assert ranks([member(f"job-{i}", "worker") for i in (11, 2, 0)]) == {"job-0": 0, "job-2": 1, "job-11": 2}


def test_better_nodes_are_left_to_those_before_that_have_none_and_nodes_of_others_avoided() -> None:
    mates = [
        Mate(member("a", "a")), Mate(member("b", "b"), "n1", 1), Mate(member("d", "d"), "n2", 3),
    ]  # fmt: skip
    found = standing(member("c", "c"), mates)
    assert (found.rank, found.leave, found.avoid) == (2, 1, {"n1", "n2"})


def test_a_rank_that_another_has_is_not_given_again() -> None:
    first = standing(member("b", "b"), [])
    assert first.rank == 0
    late = standing(member("a", "a"), [Mate(member("b", "b"), "n1", first.rank)])
    assert late.rank == 1
    replacement = [Mate(member(name, "b"), name, rank) for name, rank in (("a", 0), ("c", 2))]
    assert standing(member("z", "b"), replacement).rank == 1


@pytest.mark.parametrize("seed", range(20))
def test_of_pods_that_are_placed_together_each_has_a_rank_of_its_own(seed: int) -> None:
    rng = random.Random(seed)
    pods = [member(f"p{i}", rng.choice(["", "ps", "worker"])) for i in range(12)]
    ranks_there = rng.sample(range(12), rng.randint(0, 6))
    mates = [Mate(pod, pod.name, rank) for pod, rank in zip(pods, ranks_there, strict=False)]
    found = standings(pods[len(mates) :], mates)
    assert {*ranks_there, *(each.rank for each in found.values())} == set(range(12)), f"seed {seed}"
    alone = {
        pod.uid: standing(pod, [*mates, *(Mate(p) for p in pods[len(mates) :] if p is not pod)])
        for pod in pods[len(mates) :]
    }
    assert {uid: (each.leave, each.avoid) for uid, each in found.items()} == {
        uid: (each.leave, each.avoid) for uid, each in alone.items()
    }, f"seed {seed}"


@pytest.mark.parametrize("seed", range(20))
def test_in_whatever_order_pods_are_placed_each_has_a_rank_of_its_own(seed: int) -> None:
    rng = random.Random(seed)
    pods = [member(f"p{i}", rng.choice(["", "ps", "worker", "worker-2"])) for i in range(12)]
    placed: dict[str, Mate] = {}
    for turn, pod in enumerate(rng.sample(pods, len(pods))):
        # Some are not known yet when others are placed.
        known = [mate for mate in pods if mate is not pod and (mate.name in placed or rng.random() < 0.7)]
        found = standing(pod, [placed.get(mate.name, Mate(mate)) for mate in known])
        assert found.avoid == {mate.node for mate in placed.values()}
        placed[pod.name] = Mate(pod, f"n{turn}", found.rank)
    assert {mate.rank for mate in placed.values()} == set(range(len(pods))), f"seed {seed}"


@pytest.mark.parametrize(
    ("text", "rank"), [("3", 3), ("", None), ("-1", None), ("x", None), ("9" * 50, None)]
)
def test_a_rank_is_read_from_what_anybody_may_have_written(text: str, rank: int | None) -> None:
    assert rank_of(member("p", **{"vgpu.io/rank": text})) == rank


def test_role_and_rank_are_labels() -> None:
    found = standing(member("b", "b"), [Mate(member("a", "a"))])
    assert found.labels(member("b", "b")) == {"vgpu.io/role": "b", "vgpu.io/rank": "1"}
    assert found.labels(member("b")) == {"vgpu.io/rank": "1"}
