"""JSON of node selectors, node affinity, tolerations and taints, and how little is kept of what anybody may write."""

import json
from typing import Any

import pytest

from device_plugin.adapters.kube import decode
from device_plugin.adapters.kube.constraints import MOST_CHARACTERS, MOST_TOLERATIONS, MOST_WORDS
from device_plugin.core.node_constraints import (
    ANYWHERE,
    UNKNOWN,
    NodeConstraints,
    Operator,
    Requirement,
    Taint,
    Toleration,
)
from device_plugin.core.pods import Node
from device_plugin.kube.api import JOBS, NODES

MEM = "hygon.com/dcu-mem"


def constraints(**spec: Any) -> NodeConstraints:
    metadata = {"name": "train", "namespace": "default", "uid": "u"}
    containers = spec.pop("containers", [])
    body = {"metadata": metadata, "spec": {"template": {"spec": {"containers": containers, **spec}}}}
    return decode.read(JOBS, json.dumps(body).encode(), frozenset({MEM})).nodes


def affinity(*terms: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
    }, **others}  # fmt: skip


def node(**more: Any) -> Node:
    return decode.read(NODES, json.dumps({"metadata": {"name": "n1", "labels": {"a": "b"}}, **more}).encode())


def test_a_pod_that_names_nothing_may_go_anywhere() -> None:
    assert constraints() is ANYWHERE
    assert constraints(nodeSelector=None, affinity=None, tolerations=None) is ANYWHERE
    assert (
        constraints(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}})
        is ANYWHERE
    )


def test_node_selector_affinity_name_and_tolerations_are_read() -> None:
    expressions = [
        {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]},
        {"key": "spot", "operator": "DoesNotExist"},
    ]
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}]
    found = constraints(
        nodeSelector={"zone": "a", "arch": "x"}, nodeName="n9",
        affinity=affinity({"matchExpressions": expressions}, {"matchFields": fields}, {}),
        tolerations=[
            {"key": "k", "value": "v", "effect": "NoSchedule"}, {"operator": "Exists"},
            {"key": "l", "operator": "Gt", "value": "3"},
        ],
    )  # fmt: skip
    assert found == NodeConstraints(
        (
            Requirement("arch", Operator.IN, ("x",)),
            Requirement("zone", Operator.IN, ("a",)),
            Requirement("metadata.name", Operator.IN, ("n9",), by_name=True),
        ),
        (
            (Requirement("disk", Operator.IN, ("ssd", "nvme")), Requirement("spot", Operator.DOES_NOT_EXIST)),
            (Requirement("metadata.name", Operator.NOT_IN, ("n2",), by_name=True),),
        ),
        (
            Toleration("k", "v", "NoSchedule"),
            Toleration(any_value=True),
            Toleration("l", "3", any_value=True),
        ),
    )


def test_a_pod_tolerates_taints_named_like_what_it_asks_for() -> None:
    asking = {"name": "main", "resources": {"limits": {MEM: "4", "cpu": "1"}}}
    assert constraints(containers=[asking]).tolerations == (Toleration(MEM, any_value=True),)


def test_an_operator_that_is_not_known_counts_as_met() -> None:
    known = {"key": "zone", "operator": "Exists"}
    found = constraints(affinity=affinity({"matchExpressions": [known, {"key": "a", "operator": "Near"}]}))
    assert found.terms == ((Requirement("zone", Operator.EXISTS),),)
    only = constraints(affinity=affinity({"matchFields": [{"key": "spec.other", "operator": "Exists"}]}))
    assert only.terms == ((),)


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {f"k{number}": "v" for number in range(MOST_WORDS // 2 + 1)}},
        {"nodeSelector": {"k": "v" * MOST_CHARACTERS}},
        {"nodeSelector": {f"key-{number}": "v" * 63 for number in range(64)}},
        {"tolerations": [{"key": f"{'k' * 253}/{number}", "operator": "Exists"} for number in range(17)]},
        {"affinity": affinity(*[{}] * (MOST_WORDS + 1))},
        {
            "affinity": affinity(
                {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"] * MOST_WORDS}]}
            )
        },
        {"tolerations": [{"key": "k"}] * (MOST_TOLERATIONS + 1)},
        {"affinity": "text"},
    ],
)
def test_constraints_beyond_the_bounds_are_unknown(spec: dict[str, Any]) -> None:
    assert constraints(**spec) is UNKNOWN


def test_constraints_of_as_many_characters_as_the_bound_are_read() -> None:
    written, key = "v" * (MOST_CHARACTERS - len("zone") - len("taint")), "taint"
    found = constraints(nodeSelector={"zone": written}, tolerations=[{"key": key, "operator": "Exists"}])
    assert found.required == (Requirement("zone", Operator.IN, (written,)),)


def test_the_taints_of_a_node_that_keep_pods_away_and_its_cordon() -> None:
    assert (node().taints, node().labels) == ((), {"a": "b"})
    taints = [
        {"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "k", "effect": "NoExecute"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ]  # fmt: skip
    assert node(spec={"taints": taints}).taints == (Taint("k", "v"), Taint("k", "", "NoExecute"))
    cordon = Taint("node.kubernetes.io/unschedulable")
    assert node(spec={"unschedulable": True}).taints == (cordon,)
    written = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert node(spec={"unschedulable": True, "taints": [written]}).taints == (cordon,)
