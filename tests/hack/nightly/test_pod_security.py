"""The chart on an API server whose Pod Security's default is stricter than the agents' pods."""

import json
import sys
from collections.abc import Iterator

import pytest

from hack.testbed.install import CHART
from tests.deadline import eventually
from tests.hack.nightly.conftest import Commands

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu-1", "labels": {"vgpu.io/node": "true"}},
    "status": {"allocatable": {"pods": "10"}},
}


@pytest.fixture(autouse=True)
def _node(commands: Commands) -> Iterator[None]:
    commands("kubectl", "apply", "--filename=-", stdin=json.dumps(NODE))
    yield
    for namespace in ("vgpu", "vgpu-system"):
        commands("helm", "uninstall", "vgpu", f"--namespace={namespace}", "--ignore-not-found")
        commands(
            "kubectl", "delete", "namespace", namespace, "--ignore-not-found", "--grace-period=0", "--force"
        )


def install(commands: Commands, namespace: str, *more: str) -> str:
    """What helm says; empty if it installed the chart."""
    release = ("helm", "install", "vgpu", str(CHART), f"--namespace={namespace}", "--create-namespace")
    done = commands.run(*release, *more)
    return done.stderr if done.returncode else ""


def agents(commands: Commands, namespace: str = "vgpu-system") -> str:
    labels = "app.kubernetes.io/component=node"
    return commands("kubectl", "-n", namespace, "get", "pods", "-o", "name", "-l", labels)


def test_in_any_namespace_that_is_labelled_before_the_agents_are_let_in(commands: Commands) -> None:
    commands("kubectl", "create", "namespace", "vgpu")
    commands("kubectl", "label", "namespace", "vgpu", "pod-security.kubernetes.io/enforce=privileged")
    assert not install(commands, "vgpu")
    assert eventually(lambda: "pod/vgpu-node-" in agents(commands, "vgpu"), 30)


def test_where_the_agents_are_refused_check_says_what_to_type(commands: Commands) -> None:
    assert not install(commands, "vgpu-system")

    def told() -> list[dict[str, str]]:
        check = (sys.executable, "-m", "device_plugin", "check", "-o", "json")
        findings = json.loads(commands.run(*check).stdout)["findings"]
        return [each for each in findings if "violates PodSecurity" in each["text"]]

    assert eventually(told, 30)
    assert not agents(commands)
    (finding,) = told()
    commands(*finding["cure"].split())
    assert eventually(lambda: "pod/vgpu-node-" in agents(commands), 60)


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_a_namespace_that_would_refuse_them_is_refused_first(commands: Commands, level: str) -> None:
    commands("kubectl", "create", "namespace", "vgpu-system")
    commands("kubectl", "label", "namespace", "vgpu-system", f"pod-security.kubernetes.io/enforce={level}")
    said = install(commands, "vgpu-system")
    assert f"Pod Security's level in the namespace vgpu-system is {level}" in said
    (cure,) = [line for line in said.split(": ") if line.startswith("kubectl label")]
    commands(*cure.split())
    assert not install(commands, "vgpu-system", "--dry-run=server")
