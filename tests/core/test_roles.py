"""Where a pod stands in its group: ranks differ, and the first roles get the best nodes."""

import random
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from device_plugin.core.pods import Pod
from device_plugin.core.roles import Held, Rank, Ranking, order_problem, rank_of


@dataclass(frozen=True)
class Mate:
    """Another pod of the group, the node that it has, and its rank."""

    pod: Pod
    node: str = ""
    rank: int | None = None

    @property
    def bound(self) -> Pod:
        """The pod on its node, with its rank as a label."""
        rank = {} if self.rank is None else {"vgpu.io/rank": str(self.rank)}
        return replace(self.pod, node=self.node, labels={**(self.pod.labels or {}), **rank})


def ranked(pods: Collection[Pod], mates: Iterable[Mate]) -> Mapping[str, Rank]:
    """The ranks of `pods` beside `mates`, which makes no difference of whether these are bound or have reservations."""
    mates, bound, reserved = list(mates), Ranking(), Ranking()
    for mate in mates:
        bound.see(mate.bound)
        reserved.see(mate.pod)
    held = {mate.pod.uid: Held(mate.node, mate.rank) for mate in mates if mate.node}
    found = bound.ranks(pods, {})
    assert reserved.ranks(pods, held) == found
    for pod in pods:
        bound.see(pod)
    assert bound.ranks(pods, {}) == found, "it makes no difference whether they were seen"
    return found


def rank(pod: Pod, mates: Iterable[Mate]) -> Rank:
    return ranked((pod,), mates)[pod.uid]


def member(name: str, role: str = "", **labels: str) -> Pod:
    roles = {"vgpu.io/role": role} if role else {}
    return Pod("default", name, f"uid-{name}", labels={"vgpu.io/group": "g", **roles, **labels})


def ranks(pods: Iterable[Pod]) -> dict[str, int | None]:
    """By name, all of them unplaced."""
    pods = list(pods)
    return {pod.name: rank(pod, [Mate(mate) for mate in pods if mate is not pod]).number for pod in pods}


def test_roles_go_by_name_and_numbers_by_value() -> None:
    pods = [member("x", "worker-10"), member("y", "worker-2"), member("z", "launcher"), member("w")]
    assert ranks(pods) == {"w": 0, "z": 1, "y": 2, "x": 3}


ORDER = "master, ps,worker"


def ordered(name: str, role: str, order: str = ORDER) -> Pod:
    return replace(member(name, role), annotations={"vgpu.io/role-order": order})


def test_roles_go_in_the_order_that_is_written_and_numbers_by_value() -> None:
    pods = [ordered("a", "worker-10"), ordered("b", "worker-2"), ordered("c", "ps-1"), ordered("d", "master"),
            ordered("e", "ps")]  # fmt: skip
    assert not any(map(order_problem, pods))
    assert ranks(pods) == {"d": 0, "e": 1, "c": 2, "b": 3, "a": 4}
    assert ranks([replace(pod, annotations=None) for pod in pods]) == {"d": 0, "e": 1, "c": 2, "b": 3, "a": 4}
    reverse = [replace(pod, annotations={"vgpu.io/role-order": "worker,ps,master"}) for pod in pods]
    assert ranks(reverse) == {"b": 0, "a": 1, "e": 2, "c": 3, "d": 4}


def test_a_role_that_ends_in_a_number_can_be_in_the_order_itself() -> None:
    pods = [ordered("a", "stage2", "stage10,stage2"), ordered("b", "stage10", "stage10,stage2")]
    assert not any(map(order_problem, pods))
    assert ranks(pods) == {"b": 0, "a": 1}


@pytest.mark.parametrize(
    ("role", "order", "words"),
    [
        (
            "chief",
            ORDER,
            "role 'chief' is not in annotation vgpu.io/role-order: write one of master, ps, worker",
        ),
        (
            "workers-1",
            ORDER,
            "role 'workers-1' is not in annotation vgpu.io/role-order: write one of master, ps, worker",
        ),
        ("", ORDER, "add the label vgpu.io/role with one of master, ps, worker, such as worker-0"),
        ("ps", "master,,ps", "'master,,ps', with an empty role: write a list such as master,ps,worker"),
        ("ps", ",", "with an empty role"),
        ("ps", " ", "with an empty role"),
        ("ps", "ps,master,ps", "'ps,master,ps', with ps twice: write each role once"),
        ("ps", "ps," + "x" * 256, "annotation vgpu.io/role-order is too long: write at most 256 characters"),
    ],
)
def test_an_order_or_a_role_that_cannot_be_meant_is_refused_with_the_list(
    role: str, order: str, words: str
) -> None:
    assert words in order_problem(ordered("p", role, order))


def test_what_kubeflow_says_of_a_replica_is_read_where_the_pod_has_no_role() -> None:
    def replica(name: str, kind: str, index: str, role: str = "") -> Pod:
        labels = {
            f"training.kubeflow.org/replica-{key}": text for key, text in (("type", kind), ("index", index))
        }
        return member(name, role, **labels)

    pods = [replica("a", "worker", "10"), replica("b", "worker", "2"), replica("c", "master", "0")]
    assert ranks(pods) == {"c": 0, "b": 1, "a": 2}
    assert rank(pods[1], []).labels(pods[1]) == {"vgpu.io/role": "worker-2", "vgpu.io/rank": "0"}
    mine = [replica("x", "master", "0", role="z"), replica("y", "worker", "0", role="a")]
    assert ranks(mine) == {"y": 0, "x": 1}, "the label of ours says more"
    written = replace(pods[0], annotations={"vgpu.io/role-order": "worker,master"})
    assert not order_problem(written)
    assert "role 'master-0' is not in" in order_problem(
        replace(pods[2], annotations={"vgpu.io/role-order": "worker"})
    )


@pytest.mark.no_cover
@given(st.text(max_size=300), st.text(max_size=80))
def test_whatever_an_annotation_holds_it_is_refused_or_orders(order: str, role: str) -> None:
    pod = ordered("p", role, order)
    assert len(order_problem(pod)) < 4 * 256 + 200
    assert rank(pod, [Mate(ordered("q", "worker"))]).number in (0, 1)


def test_of_one_role_the_names_decide() -> None:
    assert ranks([member(f"job-{i}", "worker") for i in (11, 2, 0)]) == {"job-0": 0, "job-2": 1, "job-11": 2}


def test_better_nodes_are_left_to_those_before_that_have_none_and_nodes_of_others_avoided() -> None:
    mates = [
        Mate(member("a", "a")), Mate(member("b", "b"), "n1", 1), Mate(member("d", "d"), "n2", 3),
    ]  # fmt: skip
    found = rank(member("c", "c"), mates)
    assert found == Rank(2, frozenset({"n1", "n2"}), 1)


def test_a_rank_that_another_has_is_not_given_again() -> None:
    first = rank(member("b", "b"), [])
    assert first.number == 0
    late = rank(member("a", "a"), [Mate(member("b", "b"), "n1", first.number)])
    assert late.number == 1
    replacement = [Mate(member(name, "b"), name, rank) for name, rank in (("a", 0), ("c", 2))]
    assert rank(member("z", "b"), replacement).number == 1


@pytest.mark.parametrize("seed", range(20))
def test_of_pods_that_are_placed_together_each_has_a_rank_of_its_own(seed: int) -> None:
    rng = random.Random(seed)
    pods = [member(f"p{i}", rng.choice(["", "ps", "worker"])) for i in range(12)]
    ranks_there = rng.sample(range(12), rng.randint(0, 6))
    mates = [Mate(pod, pod.name, rank) for pod, rank in zip(pods, ranks_there, strict=False)]
    found = ranked(pods[len(mates) :], mates)
    assert {*ranks_there, *(each.number for each in found.values())} == set(range(12)), f"seed {seed}"
    alone = {
        pod.uid: rank(pod, [*mates, *(Mate(p) for p in pods[len(mates) :] if p is not pod)])
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
        found = rank(pod, [placed.get(mate.name, Mate(mate)) for mate in known])
        assert found.avoid == {mate.node for mate in placed.values()}
        placed[pod.name] = Mate(pod, f"n{turn}", found.number)
    assert {mate.rank for mate in placed.values()} == set(range(len(pods))), f"seed {seed}"


@pytest.mark.parametrize(
    ("text", "rank"), [("3", 3), ("", None), ("-1", None), ("x", None), ("9" * 50, None)]
)
def test_a_rank_is_read_from_what_anybody_may_have_written(text: str, rank: int | None) -> None:
    assert rank_of(member("p", **{"vgpu.io/rank": text})) == rank


def test_role_and_rank_are_labels() -> None:
    found = rank(member("b", "b"), [Mate(member("a", "a"))])
    assert found.labels(member("b", "b")) == {"vgpu.io/role": "b", "vgpu.io/rank": "1"}
    assert found.labels(member("b")) == {"vgpu.io/rank": "1"}


@pytest.mark.parametrize("seed", range(20))
def test_a_ranking_is_the_same_however_it_came_about(seed: int) -> None:
    rng = random.Random(seed)
    ranking, there = Ranking(), dict[str, Pod]()
    for _ in range(200):
        name = f"p{rng.randrange(12)}"
        if rng.random() < 0.2:
            ranking.forget_pod(f"uid-{name}")
            there.pop(name, None)
        else:
            pod = ordered(name, rng.choice(["ps", "worker-2", "worker-10"]), rng.choice(["", ORDER]))
            there[name] = replace(
                pod, node=rng.choice(["", "", f"on-{name}"]), deleting=rng.random() < 0.2,
                phase=rng.choice(["Pending", "Pending", "Succeeded"]),
            )  # fmt: skip
            ranking.see(there[name])
        unbound = [pod for pod in there.values() if not pod.node and not pod.ended]
        held = {pod.uid: Held(f"for-{pod.name}") for pod in unbound if rng.random() < 0.3}
        asking = [pod for pod in unbound if pod.uid not in held and rng.random() < 0.5]
        fresh = Ranking()
        for pod in there.values():
            counts = not pod.deleting or pod.node or pod.uid in held or pod in asking
            if counts:
                fresh.see(pod)
        assert ranking.ranks(asking, held) == fresh.ranks(asking, held), f"seed {seed}"
        assert len(ranking) == len([pod for pod in there.values() if not pod.ended])


def test_long_names_and_roles_are_read_once() -> None:
    """A pattern that tried each character as a start took 0.1 ms for a name of 253, in each decision of the group."""
    long = ["x" * 100_000, "1a" * 50_000, "1" * 4000 + "a" * 50_000]
    started = time.thread_time()
    for text in long:
        Ranking().see(ordered(text, text, ORDER))
        Ranking().see(member(text, text))
    assert time.thread_time() - started < 1.0
