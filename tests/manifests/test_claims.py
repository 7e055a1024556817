"""The component `dra`: classes, switches, folders and rights of slices by ResourceClaim."""

import json
import shutil
from pathlib import Path

import pytest

from device_plugin.core.contract.claims import GROUP, device_class
from device_plugin.wiring.setting_sources import load
from device_plugin.wiring.settings import ClusterSettings, NodeSettings
from tests.contract import claim_policies
from tests.manifests.conftest import MANIFESTS, Installation, Object, kustomize, rendered, written

AGENTS = ("vgpu-node", "vgpu-node-hygon")


def with_claims(folder: Path, *others: str, **parameters: str) -> Installation:
    """The default overlay with the component `dra` after `others`, and with these parameters."""
    manifests = shutil.copytree(MANIFESTS, folder / "manifests")
    file = manifests / "admission/parameters.yaml"
    for name, value in parameters.items():
        file.write_text(file.read_text().replace(f'{name}: "{written()[name]}"', f'{name}: "{value}"'))
    overlay = manifests / "overlays/mine"
    overlay.mkdir()
    names = [*others, "dra"]
    content = {"resources": ["../default"], "components": [f"../../components/{name}" for name in names]}
    (overlay / "kustomization.yaml").write_text(json.dumps(content))
    return kustomize(overlay)


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return with_claims(tmp_path_factory.mktemp("claims"))


def test_each_family_has_its_class(tmp_path: Path) -> None:
    made = with_claims(tmp_path, "amd", "dra/amd")
    settings = load(ClusterSettings, {}, made.environment("vgpu-cluster", "allocator"))
    assert "amd.com/gpu" in settings.prefixes
    classes = {item["metadata"]["name"]: item["spec"] for item in made.of("DeviceClass")}
    assert classes == {
        name: {"selectors": [{"cel": {"expression": f'device.driver == "{name}"'}}]}
        for name in map(device_class, settings.prefixes)
    }


def test_both_services_and_the_schedulers_file_have_the_switch(claims: Installation) -> None:
    for container in ("allocator", "scheduler-config"):
        assert load(ClusterSettings, {}, claims.environment("vgpu-cluster", container)).claims
    for agents in AGENTS:
        assert load(NodeSettings, {}, claims.environment(agents, "agent")).claims


def test_nothing_is_switched_on_without_the_component(each: Installation) -> None:
    assert not load(ClusterSettings, {}, each.environment("vgpu-cluster", "allocator")).claims
    assert not load(NodeSettings, {}, each.environment("vgpu-node", "agent")).claims
    assert GROUP not in json.dumps(each.objects)


def test_the_allocator_rounds_claims_to_the_agents_unit(tmp_path: Path) -> None:
    made = with_claims(tmp_path, memUnitMiB="512")
    assert load(ClusterSettings, {}, made.environment("vgpu-cluster", "allocator")).mem_unit_mib == 512
    assert load(NodeSettings, {}, made.environment("vgpu-node", "agent")).mem_unit_mib == 512


@pytest.mark.parametrize("root", ["/var/lib/kubelet", "/var/lib/k0s/kubelet"])
def test_agents_see_where_plugins_register(tmp_path: Path, root: str) -> None:
    made = with_claims(tmp_path, kubeletRootDir=root)
    for agents in AGENTS:
        seen = _mounts(made.pods()[agents])
        assert seen["/var/lib/kubelet/plugins_registry"] == f"{root}/plugins_registry"
        assert seen["/var/lib/kubelet/pod-resources"] == f"{root}/pod-resources"


# Of pods that ask by limits alone: a mutation that only other schedulers' pods need, quotas, and Jobs.
BY_LIMITS = {
    "vgpu-scheduler-name", "vgpu-quota", "vgpu-queue-required-jobs", "vgpu-queue-required-pods",
}  # fmt: skip


def test_the_rules_for_slices_are_about_pods_with_claims_too(tmp_path: Path) -> None:
    made = with_claims(tmp_path, "jobs", schedulerName="our-own")
    asks = {
        item["metadata"]["name"]: condition["expression"]
        for item in made.of("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
        for condition in item["spec"].get("matchConditions", ())
        if condition["name"] == "asks"
    }
    assert asks.keys() > BY_LIMITS
    for name, expression in asks.items():
        assert ('.spec.schedulerName == "our-own"' in expression) is (name not in BY_LIMITS), name
    assert '"vgpu-scheduler"' not in json.dumps(
        [item["spec"] for item in made.of("ValidatingAdmissionPolicy")]
    )


def test_the_contract_suite_has_the_policies_that_kustomize_writes(claims: Installation) -> None:
    for item in (*claim_policies.changed(), *claim_policies.added()):
        assert plain(claims.one(item["kind"], item["metadata"]["name"])["spec"]) == plain(item["spec"])
    policies = [item for item in claims.objects if "Admission" in item["kind"]]
    assert len(policies) == sum("Admission" in item["kind"] for item in rendered("default").objects) + len(
        claim_policies.added()
    )


def test_the_services_get_these_rights_and_no_others(claims: Installation) -> None:
    before = {role["metadata"]["name"] for role in rendered("default").of("ClusterRole", "Role")}
    added = {
        role["metadata"]["name"]: _rights(role)
        for role in claims.of("ClusterRole", "Role")
        if role["metadata"]["name"] not in before
    }
    assert added == {
        "vgpu-cluster-claims": {
            f"resourceclaims: {verb}" for verb in ("get", "list", "watch", "patch")
        } | {"resourceclaims/status: patch", "resourceclaims/binding: patch"},
        "vgpu-node-claims": {"resourceclaims: get"}
        | {
            f"resourceslices: {verb}"
            for verb in ("list", "watch", "create", "update", "delete")
        },
    }  # fmt: skip
    accounts = {
        item["roleRef"]["name"]: [subject["name"] for subject in item["subjects"]]
        for item in claims.of("ClusterRoleBinding")
    }
    assert (accounts["vgpu-cluster-claims"], accounts["vgpu-node-claims"]) == (
        ["vgpu-cluster"],
        ["vgpu-node"],
    )


def plain(spec: Object) -> str:
    """The spec as text on one line: kustomize folds the lines of expressions in another way."""
    return " ".join(json.dumps(spec, sort_keys=True).replace("\\n", " ").split())


def _rights(role: Object) -> set[str]:
    assert {group for rule in role["rules"] for group in rule["apiGroups"]} == {GROUP}
    return {
        f"{what}: {verb}" for rule in role["rules"] for what in rule["resources"] for verb in rule["verbs"]
    }


def _mounts(pod: Object) -> dict[str, str]:
    """The folders of the node that the agent's container has, by where it has them."""
    folders = {volume["name"]: volume.get("hostPath", {}).get("path", "") for volume in pod["volumes"]}
    (agent,) = (each for each in pod["containers"] if each["name"] == "agent")
    return {mount["mountPath"]: folders[mount["name"]] for mount in agent["volumeMounts"]}
