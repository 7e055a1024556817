"""The component `namespace`: all of vgpu in another namespace than vgpu-system; test_helm.py has that of the chart."""

import json
import shutil

import pytest

from device_plugin.wiring.setting_sources import load
from device_plugin.wiring.settings import ClusterSettings, JobsSettings
from hack.documents import documents
from hack.embedded.apiserver.server import policy_files
from tests.manifests.conftest import MANIFESTS, Installation, kustomize

NAMESPACE = "gpu-team"
LAST = ("parameters", "namespace")


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The default overlay with all components, in another namespace."""
    manifests = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("moved") / "manifests")
    file = manifests / "components/namespace/kustomization.yaml"
    file.write_text(file.read_text().replace("- name=vgpu\n", f"- name={NAMESPACE}\n"))
    overlay = manifests / "overlays/mine"
    overlay.mkdir()
    others = sorted(path.name for path in (MANIFESTS / "components").iterdir() if path.name not in LAST)
    content = {
        "resources": ["../default"],
        "components": [f"../../components/{name}" for name in (*others, *LAST)],
    }
    (overlay / "kustomization.yaml").write_text(json.dumps(content))
    return kustomize(overlay)


def test_nothing_is_of_the_usual_namespace(moved: Installation) -> None:
    assert "vgpu-system" not in json.dumps(moved.objects)
    assert (moved.objects[0]["kind"], moved.objects[0]["metadata"]["name"]) == ("Namespace", NAMESPACE)
    subjects = [
        subject for item in moved.of("RoleBinding", "ClusterRoleBinding") for subject in item["subjects"]
    ]
    assert {subject["namespace"] for subject in subjects} == {NAMESPACE}


def test_the_policies_are_the_same_but_for_the_namespace(moved: Installation) -> None:
    items = [
        item
        for path in (*policy_files(), *(MANIFESTS / "components").glob("*/*.yaml"))
        for item in documents(path.read_text())
        if item["kind"].endswith("AdmissionPolicy")
    ]
    for item in moved.of("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"):
        name = item["metadata"]["name"]
        (ours,) = (each for each in items if (each["kind"], each["metadata"]["name"]) == (item["kind"], name))
        accounts = json.dumps(ours).count(":vgpu-system:")
        assert json.dumps(item).count(f":{NAMESPACE}:") == accounts, name


def test_the_services_find_their_leases_and_agents_there(moved: Installation) -> None:
    cluster = load(ClusterSettings, {}, moved.environment("vgpu-cluster", "allocator"))
    assert (cluster.lease_namespace, cluster.node_score.agent_namespace) == (NAMESPACE, NAMESPACE)
    jobs = load(JobsSettings, {}, moved.environment("vgpu-jobs", "engine"))
    assert (jobs.lease_namespace, jobs.agent_namespace) == (NAMESPACE, NAMESPACE)
    assert moved.scheduler_config()["leaderElection"]["resourceNamespace"] == NAMESPACE
