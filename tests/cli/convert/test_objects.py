from typing import Any

import pytest

from device_plugin.cli.convert.claims import Namespaces
from device_plugin.cli.convert.objects import Owner, copied, owners
from device_plugin.cli.convert.pods import Target


def test_templates_are_found_in_lists_and_in_kinds_that_nobody_knows() -> None:
    spec = {"containers": [{"name": "main"}]}
    document = {"items": [{"spec": {"replicas": {"Worker": {"template": {"spec": spec}}}}}, {"spec": spec}]}
    found = owners(document, "hygon.com/dcu")
    assert [template.pod["spec"] for owner in found for template in owner.templates] == [spec, spec]


GPU = {"name": "m", "resources": {"limits": {"nvidia.com/gpu": 1}}}
SHARED = {"name": "s", "resources": {"limits": {"nvidia.com/gpu.shared": 1}}}


def converted(document: Any, prefix: str = "hygon.com/dcu") -> Owner:
    (owner,) = owners(document, prefix)
    owner.convert(Target(prefix), Namespaces())
    return owner


def template(*containers: Any, **spec: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": copied(list(containers)), **spec}}}


def test_the_scheduler_that_a_job_of_volcano_gives_to_its_pods_is_converted() -> None:
    job = {"kind": "Job", "spec": {"schedulerName": "volcano", "tasks": [template(GPU), template(GPU)]}}
    owner = converted(job)
    assert job["spec"]["schedulerName"] == "vgpu-scheduler"  # type: ignore[index]
    assert owner.remarks == ["schedulerName volcano of all its pods is now vgpu-scheduler"]


def test_a_scheduler_above_pods_that_ask_for_nothing_stays() -> None:
    job = {"kind": "Job", "spec": {"schedulerName": "volcano", "tasks": [template({"name": "m"})]}}
    converted(job)
    assert job["spec"]["schedulerName"] == "volcano"  # type: ignore[index]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"templates": [{"container": GPU}]}, "spec.templates[0].container.resources.limits"),
        ({"predictor": {"containers": [GPU]}}, "spec.predictor.containers[0].resources.limits"),
        ({"trainer": {"resourcesPerNode": GPU["resources"]}}, "spec.trainer.resourcesPerNode.limits"),
        ({"hard": {"nvidia.com/gpu": "4"}}, "spec.hard"),
    ],
)
def test_a_request_outside_of_pod_templates_is_said(document: dict[str, Any], path: str) -> None:
    owner = converted({"kind": "Workflow", "metadata": {"generateName": "w-"}, "spec": document})
    assert str(owner) == "Workflow w-"
    assert owner.remarks == [f"nvidia.com/gpu ({path}) is not in a pod template; it stays"]


TRAINER = "trainer.kubeflow.org/v1alpha1 TrainJob"
KSERVE = "serving.kserve.io/v1beta1 InferenceService"
ARGO = "argoproj.io/v1alpha1 Workflow"


def described(kind: str, spec: Any) -> dict[str, Any]:
    version, name = kind.split()
    return {"apiVersion": version, "kind": name, "metadata": {"name": "a"}, "spec": copied(spec)}


def given(spec: Any, *path: Any) -> Any:
    for key in path:
        spec = spec[key]
    return spec


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        (
            TRAINER,
            {"trainer": {"numNodes": 2, "resourcesPerNode": GPU["resources"]}},
            ("trainer", "resourcesPerNode"),
        ),
        (KSERVE, {"predictor": {"model": GPU}}, ("predictor", "model", "resources")),
        (KSERVE, {"transformer": {"containers": [GPU]}}, ("transformer", "containers", 0, "resources")),
        (
            ARGO,
            {"templates": [{"name": "a", "steps": []}, {"name": "b", "container": GPU}]},
            ("templates", 1, "container", "resources"),
        ),
        (ARGO, {"templates": [{"name": "a", "script": GPU}]}, ("templates", 0, "script", "resources")),
        (
            "argoproj.io/v1alpha1 CronWorkflow",
            {"workflowSpec": {"templates": [{"name": "a", "container": GPU}]}},
            ("workflowSpec", "templates", 0, "container", "resources"),
        ),
    ],
)
def test_pods_that_a_kind_describes_without_a_template_are_converted(
    kind: str, spec: Any, path: tuple[Any, ...]
) -> None:
    document = described(kind, spec)
    owner = converted(document)
    assert (owner.problems, owner.strays) == ([], [])
    assert given(document["spec"], *path) == {"limits": {"hygon.com/dcu": 1}}
    wanted = copied(spec)
    given(wanted, *path)["limits"] = {"hygon.com/dcu": 1}
    assert document["spec"] == wanted, "nothing else is changed"


def test_a_container_beside_and_the_runtime_class_of_a_described_pod_are_known() -> None:
    parts = {"containers": [{"name": "proxy", "resources": {"limits": {"cpu": 1}}}, GPU]}
    document = described(KSERVE, {"predictor": {**parts, "runtimeClassName": "nvidia"}})
    owner = converted(document)
    assert [remark[:24] for remark in owner.remarks] == ["runtimeClassName nvidia "]
    predictor = document["spec"]["predictor"]
    assert predictor.keys() == {"containers"}
    assert [each["resources"]["limits"] for each in predictor["containers"]] == [
        {"cpu": 1}, {"hygon.com/dcu": 1},
    ]  # fmt: skip


def test_the_scheduler_and_the_annotations_of_a_workflow_are_converted_where_they_are() -> None:
    wanted = {"hygon.com/use-dcutype": "Z100"}
    step = {"name": "a", "metadata": {"annotations": wanted}, "container": GPU}
    document = described(ARGO, {"schedulerName": "volcano", "templates": [step]})
    owner = converted(document)
    assert owner.problems == []
    assert document["spec"]["schedulerName"] == "vgpu-scheduler"
    assert document["spec"]["templates"][0]["metadata"] == {"annotations": {"vgpu.io/card-model": "Z100"}}


@pytest.mark.parametrize("metadata", [{}, {"annotations": {}}])
def test_described_pods_that_need_an_annotation_of_their_own_stay(metadata: dict[str, Any]) -> None:
    """Parts of two cards need an annotation, and the parts of an InferenceService have their annotations in common."""
    halves = {"name": "m", "resources": {"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1024}}}
    document = described(KSERVE, {"predictor": {"model": halves}, "transformer": {"containers": [GPU]}})
    document["metadata"] |= metadata
    before = copied(document)
    assert converted(document).problems == [
        "spec.predictor.model.resources: its pods need other annotations (vgpu.io/slices): convert it by hand"
    ]
    assert document == before


def test_of_a_workflow_with_a_problem_no_step_is_converted() -> None:
    steps = [{"name": "a", "container": GPU}, {"name": "b", "script": SHARED}]
    document = described(ARGO, {"templates": steps})
    before = copied(document)
    (problem,) = converted(document).problems
    assert problem.startswith("spec.templates[1].script.resources: container s: nvidia.com/gpu.shared: ")
    assert document == before


def test_a_described_pod_that_asks_nobody_else_is_said_to_be_unchanged() -> None:
    ours = {"limits": {"hygon.com/dcu-percent": 50}}
    owner = converted(described(KSERVE, {"predictor": {"model": {"resources": ours}}}))
    assert owner.remarks == ["asks no other product for a card; unchanged"]


def test_a_quota_on_cards_of_another_product_is_said_and_one_on_ours_is_not() -> None:
    quota = {"kind": "ResourceQuota", "spec": {"hard": {"requests.nvidia.com/gpu": 4, "requests.cpu": 1}}}
    assert converted(quota).strays == [("requests.nvidia.com/gpu", "spec.hard")]
    assert owners(quota, "nvidia.com/gpu") == []


def test_labels_and_states_are_no_requests() -> None:
    labels = {"hygon.com/hcu": "1"}
    node = {"kind": "Node", "metadata": {"labels": labels}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
    assert owners(node, "hygon.com/dcu") == []
    assert (
        owners({"kind": "X", "spec": {"nodeSelector": labels, "matchLabels": labels}}, "hygon.com/dcu") == []
    )


def test_no_pod_of_an_object_is_converted_if_one_has_a_problem() -> None:
    job = {
        "kind": "PyTorchJob",
        "spec": {"schedulerName": "volcano", "Master": template(GPU), "Worker": template(SHARED)},
    }
    before = copied(job)
    owner = converted(job)
    assert job == before
    assert owner.remarks == []
    (problem,) = owner.problems
    assert problem.startswith(
        "spec.Worker.template: container s: nvidia.com/gpu.shared: a time slice has no size"
    )


def test_remarks_on_one_of_several_templates_name_its_path() -> None:
    gpumem = {"name": "m", "resources": {"limits": {"nvidia.com/gpumem": 1024}}}
    owner = converted(
        {"kind": "PyTorchJob", "spec": {"Master": template(gpumem), "Worker": template(gpumem)}}
    )
    assert [remark.partition(":")[0] for remark in owner.remarks] == [
        "spec.Master.template", "spec.Worker.template",
    ]  # fmt: skip


def test_items_of_a_list_without_kinds_have_the_kind_of_the_list() -> None:
    item = {"metadata": {"name": "web"}, "spec": template(GPU)}
    assert str(converted({"kind": "DeploymentList", "items": [item]})) == "Deployment web"
