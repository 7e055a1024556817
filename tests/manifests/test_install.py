"""The overlays that docs/ shows can be built as they stand."""

import re
import shutil
from pathlib import Path

import pytest

from device_plugin.cli.check.installation import NODE_AGENTS
from device_plugin.cli.reading.allocator_deployment import read_deployment
from device_plugin.kube.api import Ref
from device_plugin.wiring.setting_sources import load
from device_plugin.wiring.settings import NodeSettings
from tests.manifests.conftest import MANIFESTS, Installation, kustomize, rendered
from tests.pages import blocks

EXAMPLES = {
    found[1]: text
    for _, text in blocks("yaml")
    if (found := re.match(r"# manifests/overlays/([\w.-]+)/kustomization.yaml\n", text))
}


def example(name: str, tmp_path: Path) -> Installation:
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    folder = tmp_path / "manifests" / "overlays" / name
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(EXAMPLES[name])
    return kustomize(folder)


def test_an_overlay_of_ones_own(tmp_path: Path) -> None:
    mine = example("mine", tmp_path)
    agent = mine.pods()["vgpu-node"]["containers"][0]
    assert agent["image"] == "registry.example.com/vgpu:0.1.0"
    assert {"name": "VGPU_DRAIN_SECONDS", "value": "10"} in agent["env"]
    assert any(entry["name"] == "VGPU_NODE_NAME" for entry in agent["env"])
    ports = {port["name"] for container in mine.containers() for port in container.get("ports", ())}
    for monitor in mine.of("PodMonitor"):
        assert {endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]} <= ports


def test_an_overlay_changes_the_agents_of_all_nodes(tmp_path: Path) -> None:
    pods = example("mine", tmp_path).pods()
    for name in NODE_AGENTS:
        (agent,) = pods[name]["containers"]
        assert {"name": "VGPU_DRAIN_SECONDS", "value": "10"} in agent["env"]


def test_a_further_folder_of_hygons_nodes_is_seen_by_the_agent_that_gives_it_to_containers(
    tmp_path: Path,
) -> None:
    made = example("with-folder", tmp_path)
    given = load(NodeSettings, {}, made.environment("vgpu-node-hygon", "agent")).mounts
    assert given == {"1d94": ["/opt/dtk-25.04:/opt/dtk"]}
    pod = made.pods()["vgpu-node-hygon"]
    (agent,) = pod["containers"]
    (mount,) = (each for each in agent["volumeMounts"] if each["mountPath"] == "/opt/dtk-25.04")
    (volume,) = (each for each in pod["volumes"] if each["name"] == mount["name"])
    assert (mount["readOnly"], volume["hostPath"]["path"]) == (True, "/opt/dtk-25.04")
    assert made.pods()["vgpu-node"] == rendered("default").pods()["vgpu-node"]


@pytest.mark.parametrize(("name", "mutating"), [("with-jobs", 5), ("with-jobs-1.31", 0)])
def test_the_job_engine_is_added(tmp_path: Path, name: str, mutating: int) -> None:
    added = example(name, tmp_path)
    assert "vgpu-jobs" in added.pods()
    assert added.one("ValidatingAdmissionPolicy", "vgpu-job-starts")
    assert (
        len(added.of("MutatingAdmissionPolicy"))
        == len(added.of("MutatingAdmissionPolicyBinding"))
        == mutating
    )


def test_the_default_scheduler(tmp_path: Path) -> None:
    theirs = example("default-scheduler", tmp_path)
    pod = theirs.pods()["vgpu-cluster"]
    (allocator,) = pod["containers"]
    assert (allocator["name"], pod["hostNetwork"]) == ("allocator", True)
    assert not {"initContainers", "volumes"} & pod.keys()
    environment = {entry["name"]: entry for entry in allocator["env"]}
    assert environment["VGPU_POD_NAME"]["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    role = theirs.one("Role", "vgpu-scheduler")
    assert role["metadata"]["namespace"] == environment["VGPU_LEASE_NAMESPACE"]["value"]
    assert role["rules"][0]["resourceNames"] == [environment["VGPU_LEASE_NAME"]["value"]]
    service = read_deployment(theirs.one("Deployment", "vgpu-cluster"))
    assert (service.lease, service.by_node) == (Ref("kube-scheduler", "kube-system"), True)
