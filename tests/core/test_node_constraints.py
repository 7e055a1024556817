"""Node constraints: the index answers as Kubernetes' rules do, node by node."""

import random
from weakref import ref

import pytest

from device_plugin.core.node_constraints import (
    ANYWHERE,
    CORDON,
    UNKNOWN,
    NodeConstraints,
    NodeIndex,
    NodeTraits,
    Operator,
    Requirement,
    Taint,
    Toleration,
)

IN, NOT_IN, EXISTS, ABSENT = Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST
LESS, GREATER = Operator.LESS, Operator.GREATER
NODES = (
    NodeTraits("a", {"zone": "a", "cards": "4"}),
    NodeTraits("b", {"zone": "b", "cards": "08", "spot": ""}),
    NodeTraits("c", {"zone": "b", "cards": "many"}),
    NodeTraits("d", {}),
)
INDEX = NodeIndex(NODES)


def going(constraints: NodeConstraints, index: NodeIndex = INDEX) -> str:
    found = index.allowed(constraints)
    return "".join(index.names if found is None else found)


@pytest.mark.parametrize(
    ("requirement", "nodes"),
    [
        (Requirement("zone", IN, ("b",)), "bc"),
        (Requirement("zone", IN, ("a", "b", "other")), "abc"),
        (Requirement("zone", NOT_IN, ("b",)), "ad"),
        (Requirement("rack", NOT_IN, ("b",)), "abcd"),
        (Requirement("spot", EXISTS), "b"),
        (Requirement("spot", ABSENT), "acd"),
        (Requirement("rack", EXISTS), ""),
        (Requirement("cards", GREATER, ("4",)), "b"),
        (Requirement("cards", GREATER, ("3",)), "ab"),
        (Requirement("cards", LESS, ("8",)), "a"),
        (Requirement("cards", LESS, ("-1",)), ""),
        (Requirement("cards", LESS, ("many",)), ""),
        (Requirement("zone", GREATER, ("1",)), ""),
        (Requirement("rack", GREATER, ("1",)), ""),
        (Requirement("metadata.name", IN, ("c",), by_name=True), "c"),
        (Requirement("metadata.name", IN, ("gone",), by_name=True), ""),
        (Requirement("metadata.name", NOT_IN, ("c",), by_name=True), "abd"),
    ],
)
def test_each_operator(requirement: Requirement, nodes: str) -> None:
    assert going(NodeConstraints((requirement,))) == nodes
    assert going(NodeConstraints(terms=((requirement,),))) == nodes


def test_all_that_is_required_and_one_of_the_terms_is_met() -> None:
    in_b, spot, none = (
        Requirement("zone", IN, ("b",)),
        Requirement("spot", EXISTS),
        Requirement("zone", ABSENT),
    )
    assert going(NodeConstraints((in_b, spot))) == "b"
    assert going(NodeConstraints(terms=((in_b, spot), (none,)))) == "bd"
    assert going(NodeConstraints((in_b,), ((spot,), (none,)))) == "b"
    assert going(NodeConstraints((in_b,), ())) == ""


def test_a_taint_keeps_away_who_does_not_tolerate_it() -> None:
    index = NodeIndex([
        NodeTraits("a", {}),
        NodeTraits("b", {}, (Taint("team", "x"),)),
        NodeTraits("c", {}, (Taint(CORDON),)),
        NodeTraits("d", {}, (Taint("team", "x", "NoExecute"), Taint(CORDON))),
    ])  # fmt: skip

    def tolerating(*tolerations: Toleration) -> str:
        return going(NodeConstraints(tolerations=tolerations), index)

    assert going(ANYWHERE, index) == "a"
    assert tolerating(Toleration("team", "x")) == "ab"
    assert tolerating(Toleration("team", "y")) == "a"
    assert tolerating(Toleration("team", any_value=True), Toleration(CORDON)) == "abcd"
    assert tolerating(Toleration("team", "x", "NoSchedule"), Toleration(CORDON)) == "abc"
    assert tolerating(Toleration(any_value=True)) == going(UNKNOWN, index) == "abcd"


def test_nodes_that_are_cordoned_or_ill_are_allowed_later_and_say_what_keeps_pods_away_for_now() -> None:
    ill = Taint("node.kubernetes.io/not-ready", effect="NoExecute")
    index = NodeIndex([
        NodeTraits("a", {}, (Taint(CORDON),)),
        NodeTraits("b", {}, (ill, Taint("node.kubernetes.io/disk-pressure"))),
        NodeTraits("c", {}, (Taint("team", "x"),)),
        NodeTraits("d", {}),
    ])  # fmt: skip
    assert going(ANYWHERE, index) == "d"
    assert "".join(index.allowed_later(ANYWHERE) or ()) == "abd"
    assert index.allowed_later(UNKNOWN) is None
    bears = NodeConstraints(tolerations=(Toleration(ill.key, any_value=True),))
    assert [index.passing(node, bears) for node in ("a", "b", "c", "d", "gone")] == [
        "cordoned", "tainted node.kubernetes.io/disk-pressure", "", "", "",
    ]  # fmt: skip


def test_equal_sets_of_nodes_are_one_object_and_all_nodes_are_none() -> None:
    one, other = NodeConstraints((Requirement("zone", IN, ("b",)),)), Requirement("zone", IN, ("b", "x"))
    found = INDEX.allowed(one)
    assert found is INDEX.allowed(NodeConstraints((other,)))
    assert found is not None
    assert (list(found), len(found), "b" in found, "a" in found) == (["b", "c"], 2, True, False)
    assert INDEX.allowed(ANYWHERE) is None


def test_an_answer_is_kept_as_long_as_its_constraints() -> None:
    index = NodeIndex(NODES)
    wanted = NodeConstraints((Requirement("zone", IN, ("b",)),))
    kept, nodes = ref(wanted), ref(index.allowed(wanted))
    assert index.allowed(NodeConstraints((Requirement("zone", IN, ("b",)),))) is nodes()
    assert (kept(), nodes()) != (None, None)
    del wanted
    assert (kept(), nodes()) == (None, None), "tenants may create and delete Jobs for ever"


def test_what_limits_a_pod_is_said() -> None:
    assert INDEX.limits(ANYWHERE) == ""
    wanted = NodeConstraints(
        (Requirement("zone", IN, ("b",)),),
        (
            (Requirement("cards", GREATER, ("4",)), Requirement("spot", ABSENT)),
            (Requirement("k", NOT_IN, ("v", "w")),),
        ),
    )
    said = "its pods go only to nodes with zone=b and cards > 4, no spot or k not in (v, w) (2 of 4 nodes)"
    assert INDEX.limits(wanted) == said
    tainted = NodeIndex([*NODES, NodeTraits("e", {"zone": "b"}, (Taint("k"),))])
    barred = "1 of 3 nodes are cordoned or have a taint that its pods do not tolerate"
    assert tainted.limits(NodeConstraints((Requirement("zone", IN, ("b",)),))).endswith(f"nodes); {barred}")
    long = NodeConstraints(tuple(Requirement(f"key-{number}", EXISTS) for number in range(200)))
    assert len(long.text) == 200


def test_the_index_answers_as_the_rules_do_for_each_node() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(60):
        nodes = [_random_node(rng, f"n{number}") for number in range(rng.randint(0, 12))]
        index = NodeIndex(nodes)
        for _ in range(20):
            wanted = _random_constraints(rng)
            assert set(going_names(wanted, index)) == {node.name for node in nodes if _fits(node, wanted)}, (
                wanted
            )


def going_names(constraints: NodeConstraints, index: NodeIndex) -> tuple[str, ...]:
    found = index.allowed(constraints)
    return index.names if found is None else tuple(found)


def _random_node(rng: random.Random, name: str) -> NodeTraits:
    labels = {key: rng.choice(("", "1", "2", "-3", "x")) for key in "abc" if rng.random() < 0.6}
    taints = [Taint(rng.choice("tu"), rng.choice("12"), rng.choice(("NoSchedule", "NoExecute")))]
    return NodeTraits(name, labels, tuple(taints) if rng.random() < 0.3 else ())


def _random_constraints(rng: random.Random) -> NodeConstraints:
    def requirements(most: int) -> tuple[Requirement, ...]:
        return tuple(_random_requirement(rng) for _ in range(rng.randint(0, most)))

    terms = tuple(requirements(2) for _ in range(rng.randint(0, 3))) if rng.random() < 0.5 else None
    tolerations = [
        Toleration(rng.choice(("", "t")), rng.choice("12"), rng.choice(("", "NoExecute")), rng.random() < 0.5)
    ]
    return NodeConstraints(requirements(2), terms, tuple(tolerations) if rng.random() < 0.7 else ())


def _random_requirement(rng: random.Random) -> Requirement:
    if rng.random() < 0.1:
        return Requirement(
            "metadata.name", rng.choice((IN, NOT_IN)), (f"n{rng.randint(0, 12)}",), by_name=True
        )
    operator = rng.choice(list(Operator))
    count = {EXISTS: 0, ABSENT: 0, LESS: 1, GREATER: 1}.get(operator, rng.randint(1, 3))
    return Requirement(rng.choice("abcd"), operator, tuple(rng.choice(("1", "2", "x")) for _ in range(count)))


def _fits(node: NodeTraits, wanted: NodeConstraints) -> bool:
    tolerated = all(any(each.covers(taint) for each in wanted.tolerations) for taint in node.taints)
    met = all(_met(node, each) for each in wanted.required)
    return (
        tolerated
        and met
        and (wanted.terms is None or any(all(_met(node, r) for r in t) for t in wanted.terms))
    )


def _met(node: NodeTraits, wanted: Requirement) -> bool:
    value = node.name if wanted.by_name else node.labels.get(wanted.key)
    match wanted.operator:
        case Operator.IN:
            return value in wanted.values
        case Operator.NOT_IN:
            return value not in wanted.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
    if value in (None, "", "x") or wanted.values[0] == "x":
        return False
    less = int(value or 0) < int(wanted.values[0])
    return less if wanted.operator is LESS else int(value or 0) > int(wanted.values[0])
