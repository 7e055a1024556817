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
