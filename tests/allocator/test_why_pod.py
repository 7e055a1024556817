"""Why a pod has no card: the groups of nodes, and what would make room."""

import pytest
from msgspec.structs import replace

from device_plugin.allocator.search import SearchCopy
from device_plugin.allocator.why_pod import PodAnswer, PodAnswers
from device_plugin.core.answers import sentence
from device_plugin.core.contract.annotations import IDLE_LIMIT
from device_plugin.core.contract.cards import IdlePod, Inventory
from device_plugin.core.obstacles import Obstacles
from device_plugin.core.pod_states import PodState
from device_plugin.core.pods import Pod
from tests.builders.cards import card, inventory
from tests.builders.claims import claim, claim_pod
from tests.builders.pods import pod
from tests.cluster.gang_pods import member
from tests.cluster.world import Replica, World


@pytest.fixture
def answers(one: Replica) -> PodAnswers:
    return PodAnswers(one.shared, SearchCopy(one.shared, lambda _: None))


def bound(
    world: World, name: str, mem: int, cores: int | None = None, node: str = "n1", **more: object
) -> None:
    made = world.pod(name, mem, cores, owner="ReplicaSet", **more)
    assert world.one.ask(made, node) == node
    assert world.one.bind(made, node) == ""


def test_it_says_what_each_group_of_nodes_lacks_and_what_would_help(
    world: World, one: Replica, answers: PodAnswers
) -> None:
    world.node("n1", inventory("n1", 1))
    world.node("n2", inventory("n2", 1))
    world.node("n3", Inventory((replace(card("n3-0", mem_mib=8176), model="K100"),)))
    world.node("n4", inventory("n4", 1, healthy=False))
    one.view.node_news.sync(world.api.nodes())
    bound(world, "a", 8)
    bound(world, "b", 4)
    bound(world, "c", 6, 6, node="n2")
    made = world.pod("large", 12, 10)
    answer = answers.about(made)
    assert answer.state == "memory"
    assert [(group.nodes, group.models, group.reason.value) for group in answer.groups] == [
        (("n1", "n2"), ("Z100",), "memory"),
        (("n3",), ("K100",), "too-large"),
        (("n4",), ("Z100",), "unhealthy"),
    ]
    told = answer.answer("From a test")
    assert told.line == (
        "default/large asks for hygon.com/dcu-mem: 12, hygon.com/dcu-cores: 10 and fits no node now"
    )
    whole = (
        "4 cards: 2 lack memory (largest free 10 GiB), 1 too small for the request (at most hygon.com/dcu-mem: 8,"
        " hygon.com/dcu-cores: 60), 1 unhealthy"
    )
    assert told.reasons[:2] == (
        whole, "2 nodes with Z100 (n1, n2): 2 cards: 2 lack memory (largest free 10 GiB)"
    )  # fmt: skip
    assert told.helps == (
        "It would fit on n2 once default/c has ended",
        "It would fit on n2 after moving default/c from n2-0 on n2 to n3-0 on n3: see vgpu defrag",
        "What fits now: hygon.com/dcu-mem: 10, hygon.com/dcu-cores: 10",
        "Wait for slices to end, or ask for less memory",
    )
    found = answer.as_object()
    assert (found["answer"], tuple(found["help"])) == (told.line, told.helps)
    assert found["text"] == f"fits no node now: {whole}"
    assert found["ends"] == {"node": "n2", "pods": ["default/c"]}


def test_moves_are_named_where_they_make_room(world: World, answers: PodAnswers) -> None:
    for name, mem in (("left", 4), ("right", 6)):
        bound(world, name, mem, annotations={"vgpu.io/policy": "spread"})
    answer = answers.about(world.pod("large", 16, None))
    assert answer.cures.moves == "default/left from n1-0 on n1 to n1-1 on n1"
    assert "It would fit on n1 after moving default/left from n1-0" in answer.answer().helps[1]


def test_only_nodes_where_the_pod_may_go_are_compared(
    world: World, one: Replica, answers: PodAnswers
) -> None:
    world.node("n2", inventory("n2"))
    one.view.node_news.sync(world.api.nodes())
    for number in range(2):
        bound(world, f"p{number}", 16)
    answer = answers.about(world.pod("late", 4), ["n1"], "it goes only to nodes with zone=a (1 of 2 nodes)")
    assert [group.nodes for group in answer.groups] == [("n1",)]
    assert answer.answer().reasons[-1] == "It goes only to nodes with zone=a (1 of 2 nodes)"
    assert answer.cures.moves == "default/p0 from n1-0 on n1 to n2-0 on n2"


def state(answer: PodAnswer) -> tuple[str, str]:
    return answer.state, answer.answer().as_paragraph()


def test_a_pod_that_needs_no_room_is_told_where_it_is(world: World, answers: PodAnswers) -> None:
    placed = world.placed("placed")
    assert state(answers.about(placed))[0] == "bound"
    assert "holds 8184 MiB and core groups 0-29 of n1-0 on n1" in answers.about(placed).says
    assert state(answers.about(replace(placed, phase="Failed")))[0] == "ended"
    assert state(answers.about(pod("none", containers=())))[0] == "no-slice"
    malformed = answers.about(pod("bad", mem=0))
    assert state(malformed) == (
        "malformed",
        "default/bad is refused: container main: hygon.com/dcu-mem is '0': write a whole number of at least 1",
    )


def test_a_pod_with_an_idle_limit_says_when_it_is_evicted(
    world: World, one: Replica, answers: PodAnswers
) -> None:
    kept = world.placed("kept")
    limited = replace(kept, annotations={**(kept.annotations or {}), IDLE_LIMIT: "2h"})
    when = "all of its slices have been idle for 2 h (vgpu.io/idle-limit)"
    assert answers.about(kept).answer().reasons == ()
    assert answers.about(limited).answer().reasons == (f"It is evicted once {when}",)
    world.node("n1", Inventory(inventory("n1").cards, idle=(IdlePod(kept.uid, 7200),)))
    one.view.node_news.sync(world.api.nodes())
    assert answers.about(limited).answer().reasons == (f"It is evicted, because {when}",)
    assert answers.about(kept).answer().reasons == (), "its limit was removed"
    longer = replace(kept, annotations={**(kept.annotations or {}), IDLE_LIMIT: "3h"})
    assert "evicted once" in answers.about(longer).answer().reasons[0], "its limit was raised"


def test_a_pod_whose_computing_is_not_measured_says_that_its_limit_has_no_effect(
    world: World, one: Replica, answers: PodAnswers
) -> None:
    kept = world.placed("kept")
    limited = replace(kept, annotations={**(kept.annotations or {}), IDLE_LIMIT: "2h"})
    world.node("n1", Inventory(inventory("n1").cards, unmeasured=(kept.uid,)))
    one.view.node_news.sync(world.api.nodes())
    assert answers.about(limited).answer().reasons == (
        "It is never evicted as idle (vgpu.io/idle-limit), because computing is not measured on its card",
    )
    assert answers.about(kept).answer().reasons == ()


def test_a_pod_with_room_says_what_else_holds_it(world: World, one: Replica, answers: PodAnswers) -> None:
    free = world.pod("free", 4)
    assert state(answers.about(free))[0] == "fits"
    gated = world.pod("gated", 4, obstacles=Obstacles(gates=("x/y",)))
    assert state(answers.about(gated))[0] == "held"
    told = answers.about(gated).answer()
    assert told.reasons == ("The pod is held by: scheduling gate x/y",)
    assert told.helps[0].startswith("Remove the gate")
    assert one.free() == [16368, 16368], "nothing stays reserved"


def test_a_gang_is_decided_as_a_whole(world: World, answers: PodAnswers) -> None:
    first = world.api.put(member("train-0", 2))
    assert state(answers.about(first))[0] == "gang"
    world.api.put(member("train-1", 2))
    assert state(answers.about(first))[0] == "fits"


def about(world: World, made: Pod) -> PodAnswer:
    return PodAnswers(world.one.shared, SearchCopy(world.one.shared, lambda _: None)).about(made)


def test_a_pod_whose_claim_does_not_exist_is_told_so() -> None:
    """kube-scheduler does not try such a pod, and writes no condition to it."""
    world = World(claims=True)
    answer = about(world, world.api.put(claim_pod("p")))
    assert (answer.state, answer.waits) == ("claim", True)
    told = answer.answer()
    assert told.line == (
        "default/p waits for its claim: container main waits for ResourceClaim slice: it does not exist yet, or names"
        " no device class of dcu.vgpu.io or hcu.vgpu.io"
    )
    assert told.helps == (sentence(PodState.CLAIM.advice),)


def test_a_pod_with_a_claim_is_answered_as_one_with_limits() -> None:
    world = World(claims=True)
    world.api.put_claim(claim())
    made = world.api.put(claim_pod("p"))
    answer = about(world, made)
    assert (answer.state, answer.asks) == ("fits", "hygon.com/dcu-mem: 8, hygon.com/dcu-cores: 30")
    other = world.api.put(claim_pod("other"))
    world.one.ask(other)
    refused = about(world, made)
    assert "ResourceClaim slice is used by pod other" in refused.answer().reasons[0]
    assert world.one.bind(other) == ""
    bound = world.api.by_name["default", "other"]
    assert about(world, bound).state == "bound"


def test_of_a_bound_pod_whose_claim_is_gone_the_slices_are_told() -> None:
    world = World(claims=True)
    world.api.put_claim(claim())
    made = world.api.put(claim_pod("p"))
    assert world.one.bind(made, world.one.ask(made)) == ""
    world.api.remove_claim("slice")
    bound = world.api.by_name["default", "p"]
    answer = about(world, bound)
    assert (answer.state, answer.asks) == ("bound", "")
    assert answer.says.startswith("holds 8184 MiB and core groups 0-29 of n1-0 on n1")
    assert about(world, replace(bound, phase="Succeeded")).state == "ended"
