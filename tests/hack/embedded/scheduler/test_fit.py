"""Counting as kube-scheduler counts."""

from typing import Any

from hack.embedded.scheduler import fit
from hack.embedded.scheduler.cache import Cache, NoFitError

MEM = "hygon.com/dcu-mem"


def container(amount: int, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {MEM: str(amount), "cpu": "1"}}, **more}


def pod(uid: str, *amounts: int, node: str = "", inits: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    spec = {"containers": [container(a) for a in amounts], "initContainers": inits or [], "nodeName": node}
    return {"metadata": {"uid": uid}, "spec": spec}


def node(name: str, amount: int, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {MEM: str(amount)}}}


def test_main_containers_and_sidecars_add_up() -> None:
    assert fit.asked(pod("p", 2, 3, inits=[container(4, restartPolicy="Always")])) == {MEM: 9}


def test_an_init_container_counts_only_if_it_needs_more_than_the_rest() -> None:
    assert fit.asked(pod("p", 2, inits=[container(1)])) == {MEM: 2}
    assert fit.asked(pod("p", 2, inits=[container(4, restartPolicy="Always"), container(7)])) == {MEM: 11}


def test_a_node_that_never_advertised_the_resource_lacks_it() -> None:
    bare = {"metadata": {"name": "n"}}
    assert fit.obstacles(bare, [], pod("p", 1), fit.asked(pod("p", 1))) == [f"Insufficient {MEM}"]


def test_a_cordoned_node_takes_nobody() -> None:
    assert fit.obstacles(node("n", 9, unschedulable=True), [], pod("p"), {}) == ["node(s) were unschedulable"]


def test_a_node_selector_names_labels_of_the_node() -> None:
    labelled, selecting = node("n", 9), pod("p")
    selecting["spec"]["nodeSelector"] = {"vgpu.io/pool": "a"}
    why = ["node(s) didn't match Pod's node affinity/selector"]
    assert fit.obstacles(labelled, [], selecting, {}) == why
    labelled["metadata"]["labels"] = {"vgpu.io/pool": "b", "other": "a"}
    assert fit.obstacles(labelled, [], selecting, {}) == why
    labelled["metadata"]["labels"]["vgpu.io/pool"] = "a"
    assert fit.obstacles(labelled, [], selecting, {}) == []


def test_assumed_pods_hold_their_room_until_they_are_forgotten() -> None:
    cache = Cache()
    cache.set_node(node("n", 8))
    cache.set_pod(pod("held", 4, node="n"))
    cache.set_pod(pod("assumed", 4))
    assert cache.feasible(pod("p", 4)) == (["n"], {})
    cache.assumed["assumed"] = "n"
    assert cache.feasible(pod("p", 4)) == ([], {"n": [f"Insufficient {MEM}"]})
    cache.assumed.clear()
    assert cache.feasible(pod("p", 4)) == (["n"], {})


def test_the_message_groups_nodes_by_text() -> None:
    error = NoFitError(3, {"a": ["lack memory"], "b": ["lack memory"], "c": ["unhealthy"]})
    assert str(error) == "0/3 nodes are available: 1 unhealthy, 2 lack memory."
    assert str(NoFitError(0, {})) == "no nodes available to schedule pods"
