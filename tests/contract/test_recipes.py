"""The pods of docs/recipes are taken by the API server, with all admission policies."""

from typing import Any

import pytest

from tests.builders.recipes import RECIPES, pods
from tests.contract.cluster import PODS, Cluster
from tests.release import NAMED

PREFIX = "hygon.com/dcu"


def asks(pod: dict[str, Any]) -> bool:
    """True if a container of the pod asks for a slice."""
    return any(
        resource.startswith(PREFIX)
        for container in pod["spec"]["containers"]
        for resource in container.get("resources", {}).get("limits", {})
    )


def sent(cluster: Cluster, name: str, pod: dict[str, Any], **spec: Any) -> Any:
    """The API server's answer to a pod, which is not stored."""
    made = {**pod, "metadata": {**pod["metadata"], "name": name}, "spec": {**NAMED, **pod["spec"], **spec}}
    return cluster.post(f"{PODS}?dryRun=All", made, "tenant")


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_pod_of_a_recipe_is_accepted_and_gets_our_scheduler(
    cluster: Cluster, name: str, recipe: str
) -> None:
    found = pods(recipe)
    assert any(map(asks, found))
    for pod in found:
        answer = sent(cluster, name, pod)
        assert answer.code == 201, answer.body
        if asks(pod):
            assert answer.body["spec"]["schedulerName"] == "vgpu-scheduler"


def test_two_defaults_of_jupyterhubs_chart_are_refused(cluster: Cluster, name: str) -> None:
    notebook = next(filter(asks, pods("jupyterhub")))
    answer = sent(cluster, name, notebook, schedulerName="hub-user-scheduler")
    assert answer.code == 422
    assert "schedulerName" in answer.body["message"]
    block = {
        "name": "block-cloud-metadata",
        "image": "tools",
        "securityContext": {"privileged": True, "runAsUser": 0, "capabilities": {"add": ["NET_ADMIN"]}},
    }
    answer = sent(cluster, name, notebook, initContainers=[block])
    assert answer.code == 422
    assert "privileged" in answer.body["message"]
