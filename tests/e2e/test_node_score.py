"""The placement policy node-score: loads measured on the nodes decide, and pods of a group go to nodes of their own."""

import itertools
from typing import Any

from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import held, inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import container, pod, slice_of, slice_pod
from tests.requirement import require

RANK = {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['vgpu.io/rank']"}}}


def scored(body: dict[str, Any], app_type: str = "gpu", **labels: str) -> dict[str, Any]:
    """The pod with the policy, and with labels of ours."""
    metadata = body["metadata"]
    metadata["annotations"] = {"vgpu.io/policy": "node-score", "vgpu.io/app-type": app_type}
    metadata["labels"] |= {f"vgpu.io/{name}": value for name, value in labels.items()}
    return body


def only_on(names: tuple[str, ...]) -> dict[str, Any]:
    """The part of a pod's spec that leaves it a choice of these nodes."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def say_busy(node: str, *words: str) -> None:
    """Let the driver of each card of a node say so; without words it says nothing."""
    for card in inventory(node)["cards"]:
        service.SYSTEM.inside(
            service.agent(node), "vgpu", "simulate", "busy", card["uuid"], *words, "--folder", "/var/lib/vgpu-sim",
            container="agent",
        )  # fmt: skip


def test_explain_says_that_every_node_was_measured() -> None:
    def loads() -> list[str]:
        return [node["loads"] for node in service.explain(service.leader())["nodes"]]

    assert eventually(lambda: all(text.startswith("measured ") for text in loads()), 60), loads()


def test_of_two_nodes_with_equal_grants_the_one_that_strangers_use_is_left(kubectl: Kubectl) -> None:
    require(len(nodes.names()) > 1, "needs two nodes with cards")
    pair = nodes.names()[:2]
    for busy, idle in (pair, pair[::-1]):
        check_that_the_idle_is_taken(kubectl, busy, idle)


def check_that_the_idle_is_taken(kubectl: Kubectl, busy: str, idle: str) -> None:
    turns = itertools.count()
    try:
        say_busy(busy, "--percent", "85")
        # The allocator hears of it when it asks next.
        assert eventually(lambda: placed(kubectl, f"{busy}-{next(turns)}", (busy, idle)) == idle, 60)
    finally:
        say_busy(busy)


def placed(kubectl: Kubectl, name: str, among: tuple[str, ...]) -> str:
    """The node where a small pod goes, which is gone again afterwards."""
    kubectl.create(scored(slice_pod(name, 1, 1, **only_on(among))))
    assert eventually(lambda: kubectl.pod(name)["spec"].get("nodeName", ""), 30), kubectl.events(name)
    node = str(kubectl.pod(name)["spec"]["nodeName"])
    kubectl.gone(name)
    return node


def roles() -> list[str]:
    """As many as there are nodes, in their order."""
    return ["chief", "worker-2", "worker-10", *(f"worker-{n}" for n in range(11, 50))][: len(nodes.names())]


def grouped(role: str, **labels: str) -> dict[str, Any]:
    """A pod of the group `train` that knows its rank."""
    body = pod(f"p-{role}", container(resources=slice_of(mem=2, cores=4), env=[RANK]))
    return scored(body, group="train", role=role, **labels)


def ranks(kubectl: Kubectl) -> list[str]:
    """What the label of each pod says, in the order of roles, and so does its program."""
    found = [kubectl.pod(f"p-{role}")["metadata"]["labels"] for role in roles()]
    assert [labels["vgpu.io/role"] for labels in found] == roles()
    told = [kubectl.inside(f"p-{role}", "sh", "-c", "echo $RANK").strip() for role in roles()]
    assert told == [labels["vgpu.io/rank"] for labels in found]
    return told


def test_pods_of_a_group_go_to_different_nodes_and_know_their_ranks(kubectl: Kubectl) -> None:
    kubectl.create(*(grouped(role) for role in reversed(roles())))
    names = [f"p-{role}" for role in roles()]
    kubectl.running(*names)
    assert sorted(kubectl.pod(name)["spec"]["nodeName"] for name in names) == list(nodes.names())
    # Whoever is placed before the others exist cannot leave them the better nodes.
    assert sorted(ranks(kubectl)) == [str(rank) for rank in range(len(names))]
    assert all(held(kubectl, name) for name in names)
    kubectl.create(scored(slice_pod("one-more", 2, 4), group="train", role="worker-99"))
    assert eventually(
        lambda: any("on nodes of other pods of its group" in e for e in kubectl.events("one-more")), 30
    )
    kubectl.gone(names[0])
    kubectl.running("one-more")


def test_a_gang_is_ranked_by_the_order_of_its_roles_in_whatever_order_its_pods_come(kubectl: Kubectl) -> None:
    gang = [grouped(role, **{"group-size": str(len(roles()))}) for role in reversed(roles())]
    for body in gang:
        body["metadata"]["annotations"]["vgpu.io/role-order"] = "worker,chief"
    kubectl.create(*gang)
    kubectl.running(*(f"p-{role}" for role in roles()))
    last = len(roles()) - 1
    assert ranks(kubectl) == [str(last), *map(str, range(last))]


def test_a_role_that_its_order_does_not_have_waits_and_says_which_there_are(kubectl: Kubectl) -> None:
    odd = grouped("chief")
    odd["metadata"]["annotations"]["vgpu.io/role-order"] = "master,worker"
    kubectl.create(odd)
    words = "role 'chief' is not in annotation vgpu.io/role-order: write one of master, worker"
    assert eventually(lambda: any(words in event for event in kubectl.events("p-chief")), 30)


def test_an_unknown_type_waits_and_says_which_there_are(kubectl: Kubectl) -> None:
    kubectl.create(scored(slice_pod("odd", 1, 1), "network"))
    words = "no application type 'network': write gpu, cpu, memory"
    assert eventually(lambda: any(words in event for event in kubectl.events("odd")), 30)
