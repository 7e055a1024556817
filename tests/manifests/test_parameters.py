"""admission/parameters.yaml is the one place for prefixes and scheduler name; the files as they stand say the same."""

import json
import re
import shutil
from pathlib import Path

import pytest

from device_plugin.cli.check.installation import NODE_AGENTS
from device_plugin.core.jobs.pools import MOST_POOLS
from device_plugin.core.workload_kinds import WORKLOAD_KINDS
from device_plugin.node.vendors.families import CARD_VARIABLES
from device_plugin.wiring.setting_sources import load
from device_plugin.wiring.settings import ClusterSettings, JobsSettings, NodeSettings
from hack.documents import documents
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.apiserver.errors import StatusError
from hack.embedded.apiserver.resources import JOBS, PODS, RequestTarget
from hack.embedded.apiserver.server import job_policy_files, policy_files
from tests.builders.written_jobs import as_object, job
from tests.contract.asking import asking
from tests.manifests.conftest import MANIFESTS, OVERLAYS, Installation, Object, kustomize, written

POLICIES = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
HYGON = ["hygon.com/dcu", "hygon.com/hcu"]


def specs(objects: list[Object]) -> dict[str, Object]:
    return {item["metadata"]["name"]: item["spec"] for item in objects if item["kind"] in POLICIES}


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """A copy to change."""
    return shutil.copytree(MANIFESTS, tmp_path / "manifests")


def overlay(manifests: Path, base: str, *components: str) -> Installation:
    """An operator's own overlay, on top of one of ours."""
    folder = manifests / "overlays/mine"
    folder.mkdir()
    content = {"resources": [f"../{base}"], "components": [f"../../components/{name}" for name in components]}
    (folder / "kustomization.yaml").write_text(json.dumps(content))
    return kustomize(folder)


def agree(made: Installation, prefixes: list[str], vendors: dict[str, str], scheduler: str) -> None:
    """All who know of prefixes and the scheduler's name know these."""
    policies = specs(made.objects)
    known = {name: set(_prefixes(spec)) for name, spec in policies.items() if _prefixes(spec)}
    for name in (
        "vgpu-scheduler-name",
        "vgpu-confinement-defaults",
        "vgpu-idle-default",
    ):  # which Kubernetes 1.31 does not have
        assert known.pop(name, {",".join(prefixes)}) == {",".join(prefixes)}
    asked = [
        "cdi-annotations",
        "confinement",
        "deletions",
        "ends",
        "grace",
        "idle-limit",
        "isolation",
        "names",
        "opted-out",
        "quota",
        "requests",
    ]
    if "vgpu-jobs" in policies:
        asked += ["jobs", "queue-required-jobs", "queue-required-kinds", "queue-required-pods"]
        assert load(JobsSettings, {}, made.environment("vgpu-jobs", "engine")).prefixes == prefixes
    assert known == {f"vgpu-{name}": {",".join(prefixes)} for name in asked}
    names = [
        v for spec in policies.values() for v in spec.get("variables", ()) if v["name"] == "schedulerName"
    ]
    assert {variable["expression"] for variable in names} == {f'"{scheduler}"'}
    cluster = load(ClusterSettings, {}, made.environment("vgpu-cluster", "allocator"))
    assert (cluster.prefixes, cluster.scheduler_name) == (prefixes, scheduler)
    for agents in NODE_AGENTS:
        assert load(NodeSettings, {}, made.environment(agents, "agent")).prefixes == vendors
    config = made.scheduler_config()
    assert [profile["schedulerName"] for profile in config["profiles"]] == [scheduler]
    (extender,) = config["extenders"]
    assert extender["managedResources"] == [
        {"name": prefix + tail, "ignoredByScheduler": False}
        for prefix in prefixes
        for tail in ("", "-mem", "-cores", "-percent", "-slices")
    ]


def test_the_files_as_they_stand_are_what_kustomize_makes_of_them() -> None:
    raw = [item for path in policy_files() for item in documents(path.read_text())]
    assert _unfolded(specs(raw)) == _unfolded(specs(kustomize(MANIFESTS / "admission").objects))


def test_those_of_the_job_engine_too_which_no_overlay_has_without_it(
    manifests: Path, each: Installation
) -> None:
    raw = specs([item for path in job_policy_files() for item in documents(path.read_text())])
    made = specs(overlay(manifests, "default", "jobs").objects)
    assert _unfolded(raw) == _unfolded({name: spec for name, spec in made.items() if name in raw})
    assert not raw.keys() & specs(each.objects).keys()


def test_only_hygons_cards_are_ours_by_default(each: Installation) -> None:
    agree(each, HYGON, {"1d94": "hygon.com/dcu"}, "vgpu-scheduler")
    assert not re.search("amd[.]com|nvidia[.]com", json.dumps(each.objects))


@pytest.mark.parametrize("base", OVERLAYS)
def test_what_is_written_there_reaches_everybody(manifests: Path, base: str) -> None:
    file = manifests / "admission/parameters.yaml"
    text = file.read_text().replace(",".join(HYGON), "vendor.com/dcu").replace('"vgpu-scheduler"', '"theirs"')
    file.write_text(text.replace("""'"1d94": hygon.com/dcu'""", """'"1d94": vendor.com/dcu'"""))
    made = overlay(manifests, base)
    agree(made, ["vendor.com/dcu"], {"1d94": "vendor.com/dcu"}, "theirs")
    assert "hygon.com" not in json.dumps(made.objects)


@pytest.mark.parametrize("base", OVERLAYS)
def test_families_are_added_by_a_component_each(manifests: Path, base: str) -> None:
    another = shutil.copytree(manifests / "components/amd", manifests / "components/vendor")
    family = another / "family/kustomization.yaml"
    text = family.read_text().replace("amd.com/gpu", "vendor.com/card").replace("family-amd", "family-vendor")
    family.write_text(text.replace("1002", "beef"))
    made = overlay(manifests, base, "amd", "monitoring", "jobs", "vendor")
    vendors = {"1d94": "hygon.com/dcu", "1002": "amd.com/gpu", "beef": "vendor.com/card"}
    agree(made, [*HYGON, "amd.com/gpu", "vendor.com/card"], vendors, "vgpu-scheduler")


def test_a_changed_parameter_rolls_the_pods(manifests: Path) -> None:
    before = kustomize(manifests / "overlays/default").pods()
    after = overlay(manifests, "default", "amd").pods()
    assert all(before[workload] != after[workload] for workload in (*NODE_AGENTS, "vgpu-cluster"))


def test_nothing_that_only_kustomize_reads_is_applied(manifests: Path) -> None:
    names = [item["metadata"]["name"] for item in overlay(manifests, "default", "amd").of("ConfigMap")]
    assert [name.rpartition("-")[0] for name in names] == ["vgpu-scheduler-config"]


def test_the_agent_answers_all_variables_that_the_policy_refuses(manifests: Path) -> None:
    text = (manifests / "admission" / "isolation.yaml").read_text()
    refused = set(re.findall(r'"([A-Z]+_VISIBLE_DEVICES|RESOURCE_REGISTER_STRATEGY)"', text))
    assert refused == set(CARD_VARIABLES)
    (emptied,) = re.findall(r"name: emptyVariables\n    expression: '(.*)'", text)
    assert json.loads(emptied) == sorted(name for name, value in CARD_VARIABLES.items() if not value)


def test_settings_of_isolation_reach_its_policies(manifests: Path) -> None:
    file = manifests / "admission/parameters.yaml"
    text = file.read_text()
    for before, after in (
        ('runtimeClasses: ""', 'runtimeClasses: "kata,gvisor"'),
        ('systemNamespaces: "kube-system"', 'systemNamespaces: "kube-system,gpu-system"'),
        ('seccompDefault: "false"', 'seccompDefault: "true"'),
    ):
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)
    policies = specs(overlay(manifests, "default").objects)
    found = {
        variable["name"]: variable["expression"]
        for name in ("vgpu-isolation", "vgpu-confinement")
        for variable in policies[name]["variables"]
    }
    assert found["runtimeClasses"] == '"kata,gvisor".split(",")'
    assert found["systemNamespaces"] == '"kube-system,gpu-system".split(",")'
    assert found["seccompDefault"] == '"true" == "true"'


def test_controllers_and_queues_that_are_written_there_reach_the_policies_of_jobs(manifests: Path) -> None:
    file = manifests / "admission/parameters.yaml"
    text, default = file.read_text(), "system:serviceaccounts:kube-system,system:kube-controller-manager"
    assert f'controllers: "{default}"' in text
    assert 'queues: ""' in text
    text = text.replace(default, "system:serviceaccounts:theirs").replace('queues: ""', 'queues: "a,b"')
    file.write_text(text)
    policies = specs(overlay(manifests, "default", "jobs").objects)
    found = {
        (name, variable["name"]): variable["expression"]
        for name, spec in policies.items()
        for variable in spec.get("variables", ())
        if variable["name"] in ("controllers", "everywhere")
    }
    theirs = '"system:serviceaccounts:theirs".split(",")'
    assert found == {
        ("vgpu-job-widths", "controllers"): theirs, ("vgpu-queue-required-jobs", "controllers"): theirs,
        ("vgpu-queue-required-pods", "controllers"): theirs, ("vgpu-job-queues", "everywhere"): '"a,b"',
        ("vgpu-kind-queues", "everywhere"): '"a,b"',
    }  # fmt: skip


def test_the_parameter_lists_the_queues_of_namespaces_without_their_own(tmp_path: Path) -> None:
    source, _ = job_policy_files()
    text = source.read_text()
    assert text.count("""expression: '""'""") == 1
    changed = tmp_path / "admission.yaml"
    changed.write_text(text.replace("""expression: '""'""", """expression: '"default,research"'"""))
    server, target = EmbeddedApiServer([changed]), RequestTarget(JOBS, "default")
    for queue in ("default", "research"):
        server.registry.create("carol", target, as_object(job({"queue": queue}, name=queue)))
    words = "namespace default has no queue mine: .*: default, research [(]parameter queues"
    with pytest.raises(StatusError, match=words):
        server.registry.create("carol", target, as_object(job({"queue": "mine"}, name="mine")))


def test_bounds_that_are_written_there_reach_everybody(manifests: Path) -> None:
    file = manifests / "admission/parameters.yaml"
    text = file.read_text()
    for key, before, after in (
        ("memUnitMiB", "1024", "333"),
        ("mostMemGiB", "1024", "555,amd.com/gpu=777"),
        ("maxSlices", "4", "8"),
        ("mostGraceSeconds", "3600", "999"),
        ("leastIdleMinutes", "30", "77"),
    ):
        assert f'{key}: "{before}"' in text
        text = text.replace(f'{key}: "{before}"', f'{key}: "{after}"')
    file.write_text(text)
    installation = overlay(manifests, "default")
    made = {name: json.dumps(spec) for name, spec in specs(installation.objects).items()}
    assert 'int(\\"333\\")' in made["vgpu-requests"]
    for agents in NODE_AGENTS:
        assert load(NodeSettings, {}, installation.environment(agents, "agent")).mem_unit_mib == 333
    assert '\\"555,amd.com/gpu=777\\".split' in made["vgpu-requests"]
    assert '\\"8\\".split' in made["vgpu-quota"]
    assert 'int(\\"77\\")' in made["vgpu-idle-limit"]
    times = {name: spec.count('int(\\"999\\")') for name, spec in made.items()}
    assert {name: count for name, count in times.items() if count} == {
        "vgpu-grace": 1, "vgpu-deletions": 2, "vgpu-evictions": 2
    }  # fmt: skip
    assert not [name for name, spec in made.items() if '"3600' in spec]


def test_the_kubelets_folder_reaches_the_agent_and_the_policy(manifests: Path) -> None:
    file = manifests / "admission/parameters.yaml"
    file.write_text(
        file.read_text().replace('kubeletRootDir: "/var/lib/kubelet"', 'kubeletRootDir: "/data/kubelet"')
    )
    made = overlay(manifests, "default")
    for agents in NODE_AGENTS:
        volumes = {volume["name"]: volume.get("hostPath") for volume in made.pods()[agents]["volumes"]}
        assert volumes["pod-resources"]["path"] == "/data/kubelet/pod-resources"
        # The kubelet's own constant: --root-dir does not change it.
        assert volumes["device-plugins"]["path"] == "/var/lib/kubelet/device-plugins"
    variables = {
        each["name"]: each["expression"] for each in specs(made.objects)["vgpu-isolation"]["variables"]
    }
    assert variables["kubeletRootDir"].startswith('"/data/kubelet".split("/")')


@pytest.mark.parametrize(
    "written_as", ["/data/node/kubelet", "/data/node/kubelet/", "/data//node/kubelet", "/data/./node/kubelet"]
)
def test_no_pod_with_a_slice_mounts_the_kubelets_folder_wherever_it_is(
    tmp_path: Path, written_as: str
) -> None:
    text = (MANIFESTS / "admission/isolation.yaml").read_text()
    file = tmp_path / "isolation.yaml"
    assert '"/var/lib/kubelet"' in text
    file.write_text(text.replace('"/var/lib/kubelet"', f'"{written_as}"'))
    server = EmbeddedApiServer([file])

    def refused(folder: str) -> bool:
        body = asking(
            folder.strip("/").replace("/", "-"), volumes=[{"name": "v", "hostPath": {"path": folder}}]
        )
        try:
            server.registry.create("jane", RequestTarget(PODS, "default"), body)
        except StatusError as error:
            return f"hostPath {folder} exposes" in str(error)
        return False

    inside = (
        "/data",
        "/data/node/",
        "/data/node/kubelet",
        "/data/node/kubelet/pods",
        "/var/lib/kubelet/pods",
    )
    beside = ("/data/other", "/data/node/kubelets", "/data2", "/node/kubelet")
    assert [refused(folder) for folder in (*inside, *beside)] == [True] * 5 + [False] * 4


def test_names_that_differ_in_form_are_let_in_by_a_component_which_removes_nothing_else(
    manifests: Path, default: Installation
) -> None:
    made = overlay(manifests, "default", "similar-names").objects
    assert made == [item for item in default.objects if item["metadata"]["name"] != "vgpu-names"]
    assert len(made) == len(default.objects) - 2


def test_no_policy_reads_an_object_that_may_be_gone() -> None:
    assert not [
        name
        for name, spec in specs(kustomize(MANIFESTS / "admission").objects).items()
        if "paramKind" in spec
    ]


def test_prefixes_are_written_as_the_services_read_them() -> None:
    assert written()["prefixes"].split(",") == HYGON


def _prefixes(spec: Object) -> list[str]:
    """The lists of prefixes in a policy's expressions."""
    return re.findall(r'\\"([^"\\]+/[^"\\]+)\\"[.]split\(\\",\\"\)', json.dumps(spec))


def _unfolded(value: object) -> str:
    """As text with one space for any space: kustomize folds long lines in its own way."""
    return " ".join(json.dumps(value, sort_keys=True).replace("\\n", " ").split())


def test_the_job_engine_may_do_its_work_and_nothing_else(manifests: Path) -> None:
    made = overlay(manifests, "simulated", "jobs")
    pod = made.pods()["vgpu-jobs"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"volumes", "hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    (engine,) = pod["containers"]
    assert engine["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    allowed = {
        (resource, verb)
        for rule in made.one("ClusterRole", "vgpu-jobs")["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    watched = {
        (kind, verb) for kind in ("jobs", "pods", "nodes", "priorityclasses") for verb in ("list", "watch")
    }
    settings = load(JobsSettings, {}, made.environment("vgpu-jobs", "engine"))
    (rule,) = [rule for rule in made.one("Role", "vgpu-jobs")["rules"] if "resourceNames" in rule]
    of_pools = [f"{settings.lease_name}-{number + 1}" for number in range(MOST_POOLS)]
    assert rule["resourceNames"] == [settings.lease_name, *of_pools]
    written = {("jobs", "patch"), ("jobs/status", "patch"), ("pods/status", "patch"), ("events", "create")}
    others = {(kind.plural, verb) for kind in WORKLOAD_KINDS for verb in ("get", "list", "watch", "patch")}
    assert allowed == watched | written | others | {("jobs", "get"), ("events", "list")}
