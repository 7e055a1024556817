"""Each kind of workload, in the shortest form that its documentation has, and the pods that its controller makes."""

from typing import Any

import pytest
import yaml

from device_plugin.core.pod_sets import pod_sets

POD = "{spec: {containers: [{name: c, resources: {limits: {x/y: 1}}}]}}"
KINDS = {
    "batch/v1 CronJob": (f"jobTemplate: {{spec: {{parallelism: 3, template: {POD}}}}}", [("", 3)]),
    "batch/v1 Job": (f"parallelism: 2\ntemplate: {POD}", [("", 2)]),
    "batch/v1 Job ": (f"parallelism: 100\ncompletions: 2\ntemplate: {POD}", [("", 2)]),
    "apps/v1 Deployment": (f"replicas: 4\ntemplate: {POD}", [("", 4)]),
    "apps/v1 DaemonSet": (f"template: {POD}", [("", 1)]),
    "example.com/v1 Anything": (f"replicas: 0\ntemplate: {POD}", [("", 0)]),
    "kubeflow.org/v1 Notebook": (f"template: {POD}", [("", 1)]),
    "jobset.x-k8s.io/v1alpha2 JobSet": (
        "replicatedJobs:\n"
        f"- {{name: node, replicas: 2, template: {{spec: {{parallelism: 4, template: {POD}}}}}}}\n"
        f"- {{name: log, template: {{spec: {{template: {POD}}}}}}}",
        [("node", 8), ("log", 1)],
    ),
    "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet": (
        f"replicas: 2\nleaderWorkerTemplate: {{size: 4, leaderTemplate: {POD}, workerTemplate: {POD}}}",
        [("leader", 2), ("worker", 6)],
    ),
    "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet ": (
        f"replicas: 2\nleaderWorkerTemplate: {{size: 4, workerTemplate: {POD}}}", [("worker", 8)],
    ),
    "ray.io/v1 RayCluster": (
        f"headGroupSpec: {{template: {POD}}}\n"
        f"workerGroupSpecs: [{{groupName: gpu, replicas: 3, numOfHosts: 2, template: {POD}}}]",
        [("head", 1), ("gpu", 6)],
    ),
    "ray.io/v1 RayJob": (
        f"rayClusterSpec: {{headGroupSpec: {{template: {POD}}}}}\nsubmitterPodTemplate: {POD}",
        [("head", 1), ("submitter", 1)],
    ),
    "ray.io/v1 RayService": (f"rayClusterConfig: {{headGroupSpec: {{template: {POD}}}}}", [("head", 1)]),
    "kubeflow.org/v1 PyTorchJob": (
        f"pytorchReplicaSpecs: {{Master: {{replicas: 1, template: {POD}}}, Worker: {{replicas: 3, template: {POD}}}}}",
        [("master", 1), ("worker", 3)],
    ),
    "kubeflow.org/v2beta1 MPIJob": (
        f"mpiReplicaSpecs: {{Launcher: {{template: {POD}}}, Worker: {{replicas: 2, template: {POD}}}}}",
        [("launcher", 1), ("worker", 2)],
    ),
    "trainer.kubeflow.org/v1alpha1 TrainJob": (
        "runtimeRef: {name: torch}\ntrainer: {numNodes: 4, resourcesPerNode: {limits: {x/y: 1}}}", [("node", 4)],
    ),
    "serving.kserve.io/v1beta1 InferenceService": (
        "predictor: {minReplicas: 2, model: {modelFormat: {name: vllm}, resources: {limits: {x/y: 1}}}}\n"
        "transformer: {containers: [{name: c, resources: {limits: {x/y: 1}}}]}",
        [("predictor", 2), ("transformer", 1)],
    ),
    "serving.kserve.io/v1beta1 InferenceService ": (
        "predictor: {minReplicas: 0, triton: {storageUri: a, resources: {limits: {x/y: 1}}}}", [("predictor", 1)],
    ),
    "batch.volcano.sh/v1alpha1 Job": (f"tasks: [{{name: w, replicas: 2, template: {POD}}}]", [("w", 2)]),
    "argoproj.io/v1alpha1 Workflow": (
        "entrypoint: main\ntemplates:\n- {name: main, steps: []}\n"
        "- {name: train, container: {image: i, resources: {limits: {x/y: 1}}}}\n"
        "- {name: check, script: {image: i, source: s, resources: {limits: {x/y: 1}}}}",
        [("train", 1), ("check", 1)],
    ),
    "argoproj.io/v1alpha1 CronWorkflow": (
        "workflowSpec: {templates: [{name: t, container: {image: i, resources: {limits: {x/y: 1}}}}]}", [("t", 1)],
    ),
}  # fmt: skip


def made(kind: str, spec: str) -> dict[str, Any]:
    version, name = kind.split()
    return {
        "apiVersion": version,
        "kind": name,
        "metadata": {"name": "a", "annotations": {"vgpu.io/policy": "pack"}},
        "spec": yaml.safe_load(spec),
    }


@pytest.mark.parametrize(("kind", "spec", "sets"), [(kind, *each) for kind, each in KINDS.items()], ids=KINDS)
def test_the_pods_of_each_kind(kind: str, spec: str, sets: list[tuple[str, int]]) -> None:
    found = list(pod_sets(made(kind, spec)))
    assert [(each.role, each.count) for each in found] == sets
    for each in found:
        (container,) = each.template["spec"]["containers"]
        assert container["resources"] == {"limits": {"x/y": 1}}


def test_a_pod_is_its_own_template() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", **yaml.safe_load(POD)}
    (found,) = pod_sets(pod)
    assert found.template is pod


def test_the_fields_and_annotations_that_a_controller_copies_are_in_the_template() -> None:
    spec = "predictor: {schedulerName: s, nodeSelector: {a: b}, model: {resources: {limits: {x/y: 1}}}}"
    (found,) = pod_sets(made("serving.kserve.io/v1beta1 InferenceService", spec))
    assert found.template["metadata"] == {"annotations": {"vgpu.io/policy": "pack"}}
    assert found.template["spec"]["schedulerName"] == "s"
    assert found.template["spec"]["nodeSelector"] == {"a": "b"}
    steps = "{schedulerName: s, templates: [{name: t, nodeSelector: {a: b}, container: {image: i}}]}"
    (found,) = pod_sets(made("argoproj.io/v1alpha1 Workflow", steps))
    assert found.template["spec"]["schedulerName"] == "s"
    assert found.template["spec"]["nodeSelector"] == {"a": "b"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.endswith(" ")])
@pytest.mark.parametrize(
    "spec",
    ["x", "{}", "[1]", "{template: [], replicatedJobs: {a: b}, tasks: 5, predictor: [1], templates: [1]}"],
)
def test_an_object_of_another_form_has_no_pods(kind: str, spec: str) -> None:
    assert list(pod_sets(made(kind, spec))) == []


@pytest.mark.parametrize("count", [-1, True, "3", None, 1.5])
def test_a_count_that_is_none_is_1(count: object) -> None:
    found = made("apps/v1 Deployment", f"template: {POD}")
    found["spec"]["replicas"] = count
    assert [each.count for each in pod_sets(found)] == [1]
