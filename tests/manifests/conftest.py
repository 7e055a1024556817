"""What `kubectl kustomize` makes of the overlays."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from device_plugin.wiring.scheduler_config import filled
from device_plugin.wiring.setting_sources import load
from device_plugin.wiring.settings import ClusterSettings
from hack.documents import documents
from hack.testbed.programs import installed
from tests.requirement import require
from vgpu_runtime.paths import SOURCES

MANIFESTS = SOURCES.parent / "manifests"
OVERLAYS = sorted(path.name for path in (MANIFESTS / "overlays").iterdir())
Object = Mapping[str, Any]

if os.environ.get("CI") == "true" and os.environ.get("VGPU_E2E") != "true":
    collect_ignore = ["test_helm.py"]  # make e2e, which builds helm, runs it


class Installation:
    """The objects of one overlay."""

    def __init__(self, objects: list[Object]) -> None:
        self.objects = objects

    def of(self, *kinds: str) -> list[Object]:
        """All objects of these kinds."""
        return [item for item in self.objects if item["kind"] in kinds]

    def one(self, kind: str, name: str) -> Object:
        """The object of this kind whose name is `name`, or begins with it where its content ends the name."""
        named = {item["metadata"]["name"]: item for item in self.of(kind)}
        if name in named:
            return named[name]
        (found,) = (item for full, item in named.items() if full.rpartition("-")[0] == name)
        return found

    def pods(self) -> dict[str, Object]:
        """The pods' specs, by the name of the workload that makes them."""
        return {
            item["metadata"]["name"]: item["spec"]["template"]["spec"]
            for item in self.of("Deployment", "DaemonSet")
        }

    def containers(self) -> list[Object]:
        """All containers of all pods."""
        return [
            container
            for pod in self.pods().values()
            for container in [*pod["containers"], *pod.get("initContainers", ())]
        ]

    def environment(self, workload: str, name: str) -> dict[str, str]:
        """What Kubernetes makes of a container's `env`: $(NAME) is what came before; of fields, the namespace."""
        pod = self.pods()[workload]
        (namespace,) = {
            item["metadata"]["namespace"]
            for item in self.of("Deployment", "DaemonSet")
            if item["metadata"]["name"] == workload
        }
        (container,) = [c for c in [*pod["containers"], *pod.get("initContainers", ())] if c["name"] == name]
        found: dict[str, str] = {}
        for entry in container["env"]:
            value = entry.get("value") or entry["valueFrom"]["fieldRef"]["fieldPath"]
            value = namespace if value == "metadata.namespace" else value
            for known, text in found.items():
                value = value.replace(f"$({known})", text)
            found[entry["name"]] = value
        return found

    def scheduler_config(self) -> Object:
        """The file that the init container writes for kube-scheduler."""
        template = yaml.safe_load(self.one("ConfigMap", "vgpu-scheduler-config")["data"]["scheduler.yaml"])
        return filled(
            template, load(ClusterSettings, {}, self.environment("vgpu-cluster", "scheduler-config"))
        )


def written() -> Mapping[str, str]:
    """The parameters as an operator finds them."""
    items = documents((MANIFESTS / "admission/parameters.yaml").read_text())
    (parameters,) = [item["data"] for item in items if item["kind"] == "ConfigMap"]
    return dict(parameters)


def kustomize(folder: Path) -> Installation:
    """What the folder describes."""
    kubectl = shutil.which("kubectl", path=f"{os.environ['PATH']}:{installed().kubernetes}")
    require(kubectl, "needs kubectl: put one on the PATH, or let make e2e build it")
    done = subprocess.run([str(kubectl), "kustomize", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Installation(documents(done.stdout))


@cache
def rendered(overlay: str) -> Installation:
    """One of our overlays."""
    return kustomize(MANIFESTS / "overlays" / overlay)


@pytest.fixture(params=OVERLAYS)
def each(request: pytest.FixtureRequest) -> Installation:
    """Every overlay in turn."""
    return rendered(request.param)


@pytest.fixture
def default() -> Installation:
    return rendered("default")
