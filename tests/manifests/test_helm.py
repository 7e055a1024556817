"""The chart in the hands of the real helm: equal to kustomize, every value used, wrong ones refused.

Needs helm, which make e2e builds, and where these tests run.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.documents import documents
from hack.generate.chart.values import COMPONENTS, ENVIRONMENTS, POD_LABELS
from hack.releases import images
from hack.testbed.programs import installed
from tests.manifests.conftest import MANIFESTS, Object, kustomize
from tests.pages import blocks
from tests.requirement import require

CHART = MANIFESTS / "chart"
NODES = [{"labels": {"pool": "display"}, "excludeCards": ["0000:03:00.0"]}]
KUBELET = "/var/lib/k0s/kubelet"
SWITCHES = {name: key for name, (key, _) in COMPONENTS.items()} | {"amd": "amd"}
# `amd` before the engine, whose policies have its prefix too, and after the rule, which has its vendor id.
ALL = ("node-feature-rule", "amd", *(name for name in COMPONENTS if name != "node-feature-rule"))
SERVICES = {"node": ("vgpu-node", "vgpu-node-hygon"), "cluster": ("vgpu-cluster",), "jobs": ("vgpu-jobs",)}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def helm(*arguments: str) -> "subprocess.CompletedProcess[str]":
    program = shutil.which("helm", path=f"{os.environ['PATH']}:{installed().helm}")
    if os.environ.get("VGPU_E2E") != "true" and not program:
        pytest.skip("needs helm: make e2e builds one; or put one on the PATH")
    require(program, "needs helm: make e2e builds one")
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)


def template(
    values: Mapping[str, object], namespace: str = "vgpu-system"
) -> "subprocess.CompletedProcess[str]":
    """What helm makes of the chart for Kubernetes 1.36; values by their keys with dots."""
    given = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
    return helm("template", "vgpu", str(CHART), f"--namespace={namespace}", "--kube-version=1.36.3", *given)


def objects(values: Mapping[str, object], namespace: str = "vgpu-system") -> list[Object]:
    """All but the Pod of `helm test`."""
    done = template(values, namespace)
    assert done.returncode == 0, done.stderr
    made = documents(done.stdout)
    return [item for item in made if item["kind"] != "Pod"]


@cache
def everything() -> str:
    """The chart with everything switched on, which every other value changes."""
    return template(on(*SWITCHES)).stdout


def on(*components: str) -> dict[str, object]:
    """The values that add these components."""
    return {SWITCHES[name]: NODES if name == "node-settings" else True for name in components}


def wanted(manifests: Path, base: str, *components: str) -> list[Object]:
    folder = manifests / "overlays/mine"
    folder.mkdir()
    # Each component makes the objects that depend on it alone; the chart knows both switches.
    names = (*components, "dra/amd") if {"dra", "amd"} <= set(components) else components
    content = {"resources": [f"../{base}"], "components": [f"../../components/{name}" for name in names]}
    (folder / "kustomization.yaml").write_text(json.dumps(content))
    # helm makes the release's namespace itself.
    return [item for item in kustomize(folder).objects if item["kind"] != "Namespace"]


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    return shutil.copytree(MANIFESTS, tmp_path / "manifests")


def by_name(found: list[Object]) -> dict[tuple[str, str], Object]:
    named: dict[tuple[str, str], Any] = {(item["kind"], item["metadata"]["name"]): item for item in found}
    assert len(named) == len(found)
    for name, file in (("vgpu-simulated-cards", "cards.yaml"), ("vgpu-nodes", "nodes.yaml")):
        if found_file := named.get(("ConfigMap", name)):
            found_file["data"][file] = yaml.safe_load(found_file["data"][file])
    return named


@pytest.mark.parametrize("components", [(), *((name,) for name in SWITCHES), ALL], ids="-".join)
def test_the_chart_is_the_same_objects_as_the_overlay(manifests: Path, components: tuple[str, ...]) -> None:
    made = objects(on(*components))
    assert by_name(made) == by_name(wanted(manifests, "default", *components))


def test_so_it_is_for_older_releases(manifests: Path) -> None:
    assert by_name(objects({"kubernetes131": True})) == by_name(wanted(manifests, "kubernetes-1.31"))
    chosen = helm("template", "vgpu", str(CHART), "--kube-version=1.34.2").stdout
    assert "MutatingAdmissionPolicy" not in chosen
    assert "MutatingAdmissionPolicy" in helm("template", "vgpu", str(CHART), "--kube-version=1.37.0").stdout


def test_claims_are_refused_on_a_release_without_them() -> None:
    done = helm("template", "vgpu", str(CHART), "--kube-version=1.35.4", "--set=dra.enabled=true")
    assert "dra.enabled: ResourceClaims need Kubernetes 1.36, and this is v1.35.4" in done.stderr


def test_it_refuses_a_release_that_is_too_old() -> None:
    done = helm("template", "vgpu", str(CHART), "--kube-version=1.30.9")
    assert "requires kubeVersion: >=1.31.0-0" in done.stderr


def leaves() -> Iterator[tuple[str, Mapping[str, Any], object]]:
    """Each value of the schema: its key, its schema, its default."""
    properties = json.loads((CHART / "values.schema.json").read_text())["properties"]
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    for group, schema in properties.items():
        assert group in defaults
        for name, leaf in schema.get("properties", {}).items():
            yield f"{group}.{name}", leaf, defaults[group][name]
        if "properties" not in schema:
            yield group, schema, defaults[group]


def another(schema: Mapping[str, Any], default: object) -> object:
    """A value that the schema lets in and that is not the default."""
    if "examples" in schema:
        return schema["examples"][0]
    if "enum" in schema:
        return next(value for value in schema["enum"] if value not in (default, False))
    return {"string": "other", "integer": 77, "boolean": not default, "array": ["other"]}[schema["type"]]


@pytest.mark.parametrize(("key", "schema", "default"), list(leaves()), ids=[key for key, _, _ in leaves()])
def test_every_value_changes_what_is_installed(key: str, schema: Mapping[str, Any], default: object) -> None:
    changed = default if key in SWITCHES.values() else another(schema, default)
    done = template({**on(*SWITCHES), key: changed})
    assert done.returncode == 0, done.stderr
    assert done.stdout != everything()


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("nodeSelector", {}, "nodeSelector"),
        ("parameters.prefix", ["a/b"], "prefix"),
        ("parameters.prefixes", "hygon.com/dcu", "array"),
        ("parameters.prefixes", [], "minItems"),
        ("parameters.prefixes", ['"); true || ("'], "pattern"),
        ("parameters.vendors", {"1D94": "hygon.com/dcu"}, "1D94"),
        ("parameters.memUnitMiB", "1Gi", "integer"),
        ("cluster.replicas", 0, "minimum"),
        ("node.env", {"LD_PRELOAD": "/x"}, "LD_PRELOAD"),
        ("node.env", {"VGPU_DRIAN_SECONDS": 10}, "VGPU_DRIAN_SECONDS"),
        ("node.env", {"VGPU_DRAIN_SECONDS": "ten"}, "pattern"),
        ("node.env", {"VGPU_DRAIN_SECONDS": -1}, "minimum"),
        ("cluster.env", {"VGPU_COVERED_PODS": "remove"}, "report"),
        ("cluster.env", {"VGPU_LOG_LEVEL": "LOUD"}, "DEBUG"),
        ("image.pullPolicy", "Sometimes", "Always"),
        ("image.tag", "", "length"),
        ("nodes", [{"lables": {"pool": "display"}}], "lables"),
        ("nodes", [{"labels": {"pool": "display"}, "excludeCard": ["GPU-1"]}], "excludeCard"),
        ("nodes", [{"excludeCards": ["GPU-1"]}], "labels"),
        ("nodes", [{"labels": {"pool": "display"}, "enforcement": {"1d94": "stop"}}], "observe"),
        ("node.resources", {"limit": {"memory": "1Gi"}}, "limit"),
        ("node.resources", {"limits": {"memory": "1 GB"}}, "pattern"),
        ("cluster.nodeSelector", {"pool": True}, "string"),
        ("cluster.tolerations", [{"key": "cards", "operater": "Exists"}], "operater"),
        ("networkPolicy.from", [{"ipblock": {"cidr": "10.0.0.0/28"}}], "ipblock"),
        ("parameters.maxSlices", "many", "pattern"),
        ("parameters.maxSlices", 0, "minimum"),
        ("parameters.mostMemGiB", "abc", "pattern"),
        ("parameters.mostMemGiB", "amd.com/gpu=2048", "pattern"),
        ("parameters.vendors", {"1d94": "dcu"}, "pattern"),
        ("simulatedCards.cards", [{"preset": "hygon-60cu-16gib", "cout": 4}], "cout"),
        ("simulatedCards.cards", [{"preset": "hygon-61cu"}], "hygon-60cu-16gib"),
        ("runbookUrl", "https://docs.example.com/alerts", "pattern"),
        ("runbookUrl", "docs/alerts/NAME.md", "pattern"),
        ("monitoringLabels", {"release": 1}, "string"),
        ("parameters.kubeletRootDir", "/var/lib/kubelet/", "pattern"),
        ("global.imageRegistry", "https://mirror.example.com", "pattern"),
        ("global.imageRegistry", "mirror.example.com/", "pattern"),
        ("global.imageRegistry", 5000, "string"),
        ("node.priorityClassName", "Infrastructure", "pattern"),
        ("jobs.podLabels", {"team": 1}, "string"),
        ("cluster.podAnnotations", {"a b": "c"}, "a b"),
        ("cluster.affinity", {"podAntiAfinity": {}}, "podAntiAfinity"),
        ("node.affinity", {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}, "minItems"),
        ("node.affinity", {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}, "minProperties"),
        ("jobs.affinity", {"podAffinity": {REQUIRED: [{"labelSelector": {}}]}}, "topologyKey"),
        ("nodeFeatureRule", "yes", "boolean"),
    ],
)
def test_a_wrong_value_is_refused(key: str, value: object, complaint: str) -> None:
    done = template({key: value})
    assert done.returncode
    assert key.rpartition(".")[2] in done.stderr
    assert complaint.lower() in done.stderr.lower()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (
            {"node.env.VGPU_MEM_UNIT_MIB": 512},
            "node.env.VGPU_MEM_UNIT_MIB: the value parameters.memUnitMiB sets",
        ),
        ({"node.env.VGPU_PREFIXES": "{}"}, "node.env.VGPU_PREFIXES: the value parameters.vendors sets"),
        ({"cluster.env.VGPU_POD_NAME": "a"}, "cluster.env.VGPU_POD_NAME: the chart sets"),
        (
            {"jobs.enabled": True, "jobs.env.VGPU_PREFIXES": "[]"},
            "jobs.env.VGPU_PREFIXES: the value parameters.prefixes sets",
        ),
        ({"monitoringLabels": {"release": "a"}}, "monitoringLabels has no effect without monitoring"),
        ({"parameters.vendors.1d94": None}, "parameters.vendors is empty"),
        ({"testPrefix": "amd.com/gpu"}, "testPrefix: amd.com/gpu is not one of parameters.prefixes"),
        ({"global.imageRegistri": "a.b"}, "global.imageRegistri: there is no such value"),
        *(
            (
                {key: {"app.kubernetes.io/name": "own"}},
                f"{key}: the chart sets the label app.kubernetes.io/name",
            )
            for key in POD_LABELS
        ),
    ],
)
def test_a_value_that_contradicts_another_is_refused(values: Mapping[str, object], complaint: str) -> None:
    done = template(values)
    assert done.returncode
    assert complaint in done.stderr


def test_a_default_that_is_written_out_is_no_contradiction() -> None:
    assert template({"monitoringLabels": {}}).stdout == template({}).stdout


def variables(made: list[Object]) -> Iterator[tuple[str, list[str]]]:
    """By workload and container, the names of its variables."""
    for item in made:
        if item["kind"] in ("Deployment", "DaemonSet"):
            for container in item["spec"]["template"]["spec"]["containers"]:
                name = f"{item['metadata']['name']} {container['name']}"
                yield name, [entry["name"] for entry in container.get("env", ())]


def test_no_variable_stands_twice() -> None:
    given = {"node.env.VGPU_DRAIN_SECONDS": 10, "cluster.env.VGPU_COVERED_PODS": "delete"}
    for name, found in variables(objects({**on(*ALL), **given})):
        assert len(set(found)) == len(found), name


@pytest.mark.parametrize("value", ENVIRONMENTS)
def test_null_takes_the_variables_of_a_service_away(value: str) -> None:
    assert by_name(objects({"jobs.enabled": True, value: None})) == by_name(objects({"jobs.enabled": True}))


def test_amds_family_stands_once_where_its_prefix_is_given_too() -> None:
    given = {
        "parameters.prefixes": ["hygon.com/dcu", "amd.com/gpu"],
        "parameters.vendors": {"1d94": "hygon.com/dcu", "1002": "amd.com/gpu"},
    }
    (by_hand, both) = (by_name(objects({**given, "amd": amd})) for amd in (False, True))
    assert both == by_hand


@pytest.mark.parametrize(
    ("values", "family"),
    [
        ({}, "hygon.com/dcu"),
        ({"amd": True}, "amd.com/gpu"),
        ({"amd": True, "testPrefix": "hygon.com/hcu"}, "hygon.com/hcu"),
    ],
)
def test_helm_test_asks_for_a_family_that_is_there(values: Mapping[str, object], family: str) -> None:
    made = documents(template(values).stdout)
    (pod,) = (item for item in made if item["kind"] == "Pod")
    assert [*pod["spec"]["containers"][0]["resources"]["limits"]] == [f"{family}-mem", f"{family}-cores"]


def test_an_alert_leads_to_its_page_on_a_site_of_ones_own() -> None:
    def annotations(values: Mapping[str, object]) -> Mapping[str, str]:
        (rules,) = (
            item for item in objects({"monitoring": True, **values}) if item["kind"] == "PrometheusRule"
        )
        alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
        return dict(alerts[0]["annotations"])

    said = annotations({"runbookUrl": "https://docs.example.com/alerts/NAME.html"})
    assert said["runbook_url"] == "https://docs.example.com/alerts/agent-down.html"
    assert annotations({}).items() >= {("runbook", "docs/alerts/agent-down.md")}
    assert "runbook_url" not in annotations({})


def test_monitors_and_rules_have_the_labels_that_an_operator_selects_by() -> None:
    made = objects({"monitoring": True, "monitoringLabels": {"release": "prometheus"}})
    labels = {item["kind"]: item["metadata"].get("labels", {}).get("release") for item in made}
    assert {kind for kind, release in labels.items() if release} == {"PodMonitor", "PrometheusRule"}


def test_a_kubelets_folder_is_that_of_the_parameters(manifests: Path) -> None:
    file = manifests / "admission/parameters.yaml"
    file.write_text(
        file.read_text().replace('kubeletRootDir: "/var/lib/kubelet"', f'kubeletRootDir: "{KUBELET}"')
    )
    made = by_name(objects({"parameters.kubeletRootDir": KUBELET}))
    assert made == by_name(wanted(manifests, "default"))
    assert KUBELET in json.dumps(made["ValidatingAdmissionPolicy", "vgpu-isolation"])


def agents(found: list[Object]) -> dict[str, Any]:
    """The pods' specs of the DaemonSets of agents, by their names."""
    return {
        item["metadata"]["name"]: item["spec"]["template"]["spec"]
        for item in found
        if item["kind"] == "DaemonSet"
    }


def test_values_of_the_agents_are_for_hygons_nodes_too() -> None:
    given = {
        "node.env.VGPU_DRAIN_SECONDS": 10,
        "node.nodeSelector": {"pool": "cards"},
        "node.tolerations": [{"key": "cards", "operator": "Exists"}],
        "node.resources": {"limits": {"memory": "512Mi"}},
    }
    pods = agents(objects(given))
    assert pods.keys() == {"vgpu-node", "vgpu-node-hygon"}
    for pod in pods.values():
        (agent,) = pod["containers"]
        assert {"name": "VGPU_DRAIN_SECONDS", "value": "10"} in agent["env"]
        assert agent["resources"] == {**agent["resources"], "limits": {"memory": "512Mi"}}
        assert pod["nodeSelector"]["pool"] == "cards"
        assert pod["tolerations"] == [{"key": "cards", "operator": "Exists"}]
        assert "affinity" in pod


def test_the_page_for_trying_installs_simulated_cards() -> None:
    """The flags of its command, and the values of its file, by the real helm."""
    (command,) = (text for page, text in blocks("sh") if page.name == "try.md" and "helm install" in text)
    flags = command.replace("\\\n", " ").partition("helm install vgpu manifests/chart")[2].partition("\n")[0]
    done = helm("template", "vgpu", str(CHART), "--kube-version=1.36.3", *flags.split())
    assert done.returncode == 0, done.stderr
    made = documents(done.stdout)
    (image,) = {each["image"] for pod in agents(made).values() for each in pod["containers"]}
    assert image == "registry.example.com/vgpu-simulated:0.1.0"
    (values,) = (yaml.safe_load(text) for page, text in blocks("yaml") if page.name == "try.md")
    cards = [item for item in objects(values) if item["metadata"]["name"] == "vgpu-simulated-cards"]
    assert yaml.safe_load(cards[0]["data"]["cards.yaml"])["cards"] == values["simulatedCards"]["cards"]


def test_a_bound_may_be_a_number() -> None:
    assert template({"parameters.maxSlices": 8}).stdout == template({"parameters.maxSlices": "8"}).stdout


def test_its_images_are_those_that_images_txt_lists() -> None:
    made = documents(template({"jobs.enabled": True}).stdout)
    workloads = [item for item in made if item["kind"] in ("Deployment", "DaemonSet", "Pod")]
    pods = [item["spec"].get("template", item)["spec"] for item in workloads]
    used = {each["image"] for pod in pods for each in (*pod["containers"], *pod.get("initContainers", ()))}
    assert used == {*images.listed().splitlines()}


def test_in_another_namespace_it_is_the_same_objects_as_the_overlay_there(manifests: Path) -> None:
    file = manifests / "components/namespace/kustomization.yaml"
    file.write_text(file.read_text().replace("- name=vgpu\n", "- name=gpu-team\n"))
    there = by_name(wanted(manifests, "default", *ALL, "namespace"))
    assert by_name(objects(on(*ALL), "gpu-team")) == there


@pytest.mark.parametrize("values", [{}, on(*ALL)], ids=["default", "all"])
def test_in_another_namespace_nothing_is_of_the_usual_one(values: Mapping[str, object]) -> None:
    done = template(values, "7")
    assert done.returncode == 0, done.stderr
    assert "vgpu-system" not in done.stdout
    made = documents(done.stdout)
    assert {item["metadata"].get("namespace", "7") for item in made} == {"7"}
    assert "Namespace" not in {item["kind"] for item in made}


@pytest.mark.parametrize(
    ("repository", "image"),
    [
        ("vgpu.io/vgpu", "m.example.com/library/vgpu"),
        ("registry.example.com:5000/team/vgpu", "m.example.com/library/team/vgpu"),
        ("localhost/vgpu", "m.example.com/library/vgpu"),
        ("team/vgpu", "m.example.com/library/team/vgpu"),
        ("vgpu", "m.example.com/library/vgpu"),
    ],
)
def test_one_value_is_the_registry_of_every_image(repository: str, image: str) -> None:
    keys = ("image.repository", "simulatedCards.repository", "scheduler.repository")
    given = {"global.imageRegistry": "m.example.com/library", **dict.fromkeys(keys, repository)}
    made = template({**on(*SWITCHES), **given})
    images = {
        line.partition("image: ")[2].strip("'\"") for line in made.stdout.splitlines() if "image: " in line
    }
    assert images == {f"{image}:0.1.0", f"{image}:v1.36.3"}


def test_the_chart_may_be_a_part_of_another_with_global_values_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: platform, version: 1.0.0}\n")
    (tmp_path / "values.yaml").write_text("global: {imageRegistry: m.example.com, storageClass: fast}\n")
    (tmp_path / "charts").mkdir()
    shutil.copytree(CHART, tmp_path / "charts/vgpu")
    done = helm("template", "platform", str(tmp_path), "--kube-version=1.36.3")
    assert done.returncode == 0, done.stderr
    assert "m.example.com/kube-scheduler:v1.36.3" in done.stdout


def workloads(found: list[Object], service: str) -> list[Object]:
    """The DaemonSets, or the Deployment, of a service."""
    return [
        item
        for item in found
        if "template" in item.get("spec", {}) and item["metadata"]["name"] in SERVICES[service]
    ]


@pytest.mark.parametrize("service", SERVICES)
def test_pods_have_labels_annotations_and_a_priority_class_of_ones_own(service: str) -> None:
    given = {"podLabels": {"team": "ml"}, "podAnnotations": {"a/b": "c"}, "priorityClassName": "infra"}
    values = {"jobs.enabled": True, **{f"{service}.{key}": value for key, value in given.items()}}
    before, after = (workloads(objects(each), service) for each in ({"jobs.enabled": True}, values))
    assert len(after) == len(SERVICES[service])
    for old, new in zip(before, after, strict=True):
        was, pod = (item["spec"]["template"] for item in (old, new))
        assert pod["metadata"] == {
            "labels": {**was["metadata"]["labels"], "team": "ml"},
            "annotations": {"a/b": "c"},
        }
        assert pod["spec"] == {**was["spec"], "priorityClassName": "infra"}
        assert new["spec"]["selector"] == old["spec"]["selector"]


@pytest.mark.parametrize("service", ["cluster", "jobs"])
def test_affinity_is_beside_the_default_or_in_its_place(service: str) -> None:
    nodes = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]}}
    for given in ({"nodeAffinity": nodes}, {"nodeAffinity": nodes, "podAntiAffinity": None}):
        (made,) = workloads(objects({"jobs.enabled": True, f"{service}.affinity": given}), service)
        affinity = made["spec"]["template"]["spec"]["affinity"]
        assert affinity["nodeAffinity"] == nodes
        assert ("podAntiAffinity" in affinity) is ("podAntiAffinity" not in given)


def test_each_term_of_the_agents_affinity_keeps_the_nodes_of_the_makers_apart() -> None:
    pool, host = (
        {"key": "pool", "operator": "Exists"},
        {"key": "metadata.name", "operator": "In", "values": ["a"]},
    )
    terms = [{"matchExpressions": [pool]}, {"matchFields": [host]}]
    preferred = [{"weight": 1, "preference": {"matchExpressions": [pool]}}]
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    nodes = {REQUIRED: {"nodeSelectorTerms": terms}, name: preferred}
    pods = agents(objects({"node.affinity": {"nodeAffinity": nodes, "podAffinity": {}}}))
    for workload, operator in (("vgpu-node", "NotIn"), ("vgpu-node-hygon", "In")):
        maker = {"key": "vgpu.io/maker", "operator": operator, "values": ["hygon"]}
        assert pods[workload]["affinity"] == {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [pool, maker]},
                        {"matchFields": [host], "matchExpressions": [maker]},
                    ]
                },
                name: preferred,
            },
            "podAffinity": {},
        }


def test_null_leaves_the_agents_apart_too() -> None:
    assert agents(objects({"node.affinity": None})) == agents(objects({}))


def test_the_rule_labels_the_nodes_of_all_vendors_and_hygons_with_their_maker() -> None:
    values = {
        "nodeFeatureRule": True,
        "amd": True,
        "parameters.vendors": {"1d94": "hygon.com/dcu", "beef": "b.com/b"},
    }
    (rule,) = (item for item in objects(values) if item["kind"] == "NodeFeatureRule")
    found = [
        (each["labels"], each["matchFeatures"][0]["matchExpressions"]["vendor"]["value"])
        for each in rule["spec"]["rules"]
    ]
    assert found == [
        ({"vgpu.io/node": "true"}, ["1d94", "beef", "1002"]),
        ({"vgpu.io/maker": "hygon"}, ["1d94"]),
    ]


def test_a_registry_of_ones_own_is_in_all_places() -> None:
    made = template(
        {"image.repository": "r/vgpu", "image.tag": "7", "imagePullSecrets": ["key"], "jobs.enabled": True}
    )
    assert "vgpu.io/vgpu:" not in made.stdout
    accounts = [item for item in documents(made.stdout) if item["kind"] == "ServiceAccount"]
    assert all(account["imagePullSecrets"] == [{"name": "key"}] for account in accounts)
    assert len(accounts) == 3


@pytest.mark.parametrize(
    "text", [text for _, text in blocks("yaml") if text.startswith("# values.yaml of the chart\n")]
)
def test_values_that_the_pages_show_are_let_in(text: str) -> None:
    values = yaml.safe_load(text)
    done = template(values)
    assert done.returncode == 0, done.stderr
    assert done.stdout != template({}).stdout
