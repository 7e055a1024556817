"""`kubectl vgpu` as a person runs it: the plugin found by the real kubectl, with many rights and with few."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from device_plugin.kube.api import Kind
from tests.e2e.kubectl import Kubectl, api
from tests.e2e.slices import held
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod

BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", dict)
# Where pip put kubectl-vgpu and kubectl_complete-vgpu.
SCRIPTS = Path(sys.executable).parent


def kubectl_said(*words: str) -> str:
    """What kubectl prints; it must succeed."""
    environment = {**os.environ, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["kubectl", *words], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def listed(*words: str) -> dict[str, Any]:
    """A list of the plugin, as programs get it."""
    found: dict[str, Any] = json.loads(kubectl_said("vgpu", *words, "-o", "json"))
    return found


def test_lists_show_who_holds_what_and_which_pods_do_not_run(kubectl: Kubectl) -> None:
    kubectl.create(slice_pod("one", mem=4, cores=15))
    kubectl.running("one")
    absent = slice_pod("absent", mem=1, cores=2)
    absent["spec"]["containers"][0] |= {"image": "localhost:1/absent:1", "imagePullPolicy": "IfNotPresent"}
    kubectl.create(absent)
    (slice_,) = held(kubectl, "one")
    found = listed("cards")
    assert found["missing"] == found["faults"] == []
    (card,) = [card for card in found["cards"] if card["uuid"] == slice_.card]
    assert [(each["pod"], each["memMiB"]) for each in card["holders"] if each["namespace"] == kubectl.namespace
            and each["pod"] == "one"] == [("one", slice_.mem_bytes >> 20)]  # fmt: skip
    (node,) = [node for node in listed("nodes")["nodes"] if node["name"] == card["node"]]
    assert node["heldMiB"] >= slice_.mem_bytes >> 20

    def status() -> dict[str, str]:
        return {pod["name"]: pod["status"] for pod in listed("pods", "-n", kubectl.namespace)["pods"]}

    assert eventually(
        lambda: "Image" in status().get("absent", "") or "Err" in status().get("absent", ""), 60
    )
    assert status()["one"] == "Running"

    def used() -> list[Any]:
        uses = listed("top", "-n", kubectl.namespace)["slices"]
        return [
            use for use in uses if use["pod"] == "one" and use["limitBytes"] and use["usedBytes"] is not None
        ]

    assert eventually(used, 60)


def test_with_the_rights_of_one_namespace_its_own_slices_are_shown_and_what_is_missing(
    kubectl: Kubectl,
) -> None:
    kubectl.create(slice_pod("mine", mem=2, cores=4))
    kubectl.running("mine")
    subject = {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    api().create(
        BINDINGS, {"metadata": {"name": "jane"}, "subjects": [subject], "roleRef": role}, kubectl.namespace
    )
    jane = Kubectl(kubectl.namespace, "jane")
    assert eventually(
        lambda: jane("auth", "can-i", "list", "pods"), 30
    )  # the API server has seen the binding
    found = listed("cards", "--as", "jane", "-n", kubectl.namespace)
    assert [missing["what"] for missing in found["missing"]] == ["list nodes", "list pods of all namespaces"]
    (card,) = found["cards"]
    assert card["uuid"] == held(kubectl, "mine")[0].card
    assert card["model"] is None
    assert card["memMiB"], "the grant says how large its card is"
    assert [pod["name"] for pod in listed("pods", "--as", "jane", "-n", kubectl.namespace)["pods"]] == [
        "mine"
    ]


def test_kubectl_completes_the_names_of_nodes_and_of_cards() -> None:
    nodes = {node["name"]: node["cards"] for node in listed("nodes")["nodes"]}
    *lines, directive = kubectl_said("__complete", "vgpu", "cards", "").splitlines()
    assert {line.partition("\t")[0] for line in lines} == set(nodes)
    assert directive == ":4"
    *lines, _ = kubectl_said("__complete", "vgpu", "drain", "").splitlines()
    assert len(lines) == sum(nodes.values())
