"""One `kubectl apply -k` is the whole installation: order, policies, permissions, scheduler."""

import pytest

from device_plugin.wiring.settings import ClusterSettings
from hack.documents import documents
from hack.embedded.apiserver.server import policy_files
from tests.manifests.conftest import OVERLAYS, Installation, rendered

NAMESPACE = "vgpu-system"
MUTATING = ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]


def test_the_namespace_comes_before_what_is_in_it(each: Installation) -> None:
    assert (each.objects[0]["kind"], each.objects[0]["metadata"]["name"]) == ("Namespace", NAMESPACE)
    assert {item["metadata"].get("namespace", NAMESPACE) for item in each.objects} == {NAMESPACE}


def test_no_certificate_and_no_webhook(each: Installation) -> None:
    assert not [item for item in each.objects if "Webhook" in item["kind"] or item["kind"] == "Secret"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_policies_are_those_of_the_one_machine_cluster(overlay: str) -> None:
    items = [item for path in policy_files() for item in documents(path.read_text())]
    wanted = {(item["kind"], item["metadata"]["name"]) for item in items if "Admission" in item["kind"]}
    if overlay == "kubernetes-1.31":
        wanted = {(kind, name) for kind, name in wanted if kind not in MUTATING}
    found = [item for item in rendered(overlay).objects if "Admission" in item["kind"]]
    assert {(item["kind"], item["metadata"]["name"]) for item in found} == wanted


def test_every_policy_is_bound(each: Installation) -> None:
    policies = each.of("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
    bindings = each.of("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding")
    assert {item["metadata"]["name"] for item in policies} == {
        item["spec"]["policyName"] for item in bindings
    }


def test_only_confinement_warns_and_only_where_nothing_writes_it(each: Installation) -> None:
    bindings = each.of("ValidatingAdmissionPolicyBinding")
    actions = {item["metadata"]["name"]: item["spec"]["validationActions"] for item in bindings}
    written = bool(each.of("MutatingAdmissionPolicy"))
    assert actions.pop("vgpu-confinement") == (["Deny"] if written else ["Warn"])
    assert set(map(tuple, actions.values())) == {("Deny",)}


def test_no_permission_is_a_wildcard_or_a_way_to_more(each: Installation) -> None:
    for role in each.of("Role", "ClusterRole"):
        for rule in role["rules"]:
            words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert not words & {"*", "secrets", "escalate", "bind", "impersonate", "deletecollection"}, role


def test_every_account_is_used_and_every_binding_finds_its_role(each: Installation) -> None:
    accounts = {item["metadata"]["name"] for item in each.of("ServiceAccount")}
    assert accounts == {pod["serviceAccountName"] for pod in each.pods().values()}
    roles = {(item["kind"], item["metadata"]["name"]) for item in each.of("Role", "ClusterRole")}
    for binding in each.of("RoleBinding", "ClusterRoleBinding"):
        role = binding["roleRef"]
        assert role["name"].startswith("system:") or (role["kind"], role["name"]) in roles
        assert {subject["name"] for subject in binding["subjects"]} <= accounts


def test_the_scheduler_asks_the_allocator_beside_it_about_every_resource_of_ours(each: Installation) -> None:
    settings = ClusterSettings()
    config = each.scheduler_config()
    assert [profile["schedulerName"] for profile in config["profiles"]] == [settings.scheduler_name]
    assert config["percentageOfNodesToScore"] == 100
    (extender,) = config["extenders"]
    assert extender.pop("managedResources") == [
        {"name": prefix + tail, "ignoredByScheduler": False}
        for prefix in settings.prefixes
        for tail in ("", "-mem", "-cores", "-percent", "-slices")
    ]
    assert extender == {
        "urlPrefix": f"http://{settings.extender_listen}",
        "filterVerb": "filter",
        "bindVerb": "bind",
        "preemptVerb": "preempt",
        "nodeCacheCapable": True,
        "ignorable": False,
        "httpTimeout": "5s",
    }


def test_one_lease_elects_scheduler_and_allocator(each: Installation) -> None:
    settings = ClusterSettings()
    config = each.scheduler_config()
    assert config["leaderElection"] == {
        "leaderElect": True,
        "resourceNamespace": settings.lease_namespace,
        "resourceName": settings.lease_name,
    }
    (rule,) = [r for r in each.one("Role", "vgpu-scheduler")["rules"] if "resourceNames" in r]
    assert rule["resourceNames"] == [settings.lease_name]
