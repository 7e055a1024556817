"""The files of examples/ are taken by the API server, with all admission policies."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml

from device_plugin.adapters.kube.jobs import read_job
from tests.builders.written_jobs import read
from tests.contract.cluster import JOBS, PODS, Cluster
from tests.pages import PROJECT
from tests.release import NAMED, OLDER

pytestmark = pytest.mark.usefixtures("job_policies")
FOLDER = PROJECT / "examples"
PATHS = {"Pod": PODS, "Deployment": "/apis/apps/v1/namespaces/default/deployments", "Job": JOBS}


def written() -> Iterator[tuple[str, Any]]:
    """Each object of the files, and its file's name."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for item in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield path.name, item


def examples(*kinds: str) -> list[Any]:
    return [
        pytest.param(item, id=f"{file}-{item['metadata']['name']}")
        for file, item in written()
        if item["kind"] in kinds
    ]


def named(example: dict[str, Any], name: str) -> dict[str, Any]:
    """The object with another name, and with a scheduler's where this Kubernetes adds none."""
    made = deepcopy(example)
    made["metadata"]["name"] = name
    spec = made["spec"].get("template", made)["spec"]
    spec.update(NAMED)
    return made


@pytest.mark.parametrize("example", examples(*PATHS))
def test_an_example_is_accepted(cluster: Cluster, name: str, example: dict[str, Any]) -> None:
    """A dry run, so that no controller of a real cluster acts on it."""
    answer = cluster.post(f"{PATHS[example['kind']]}?dryRun=All", named(example, name), "editor")
    assert answer.code == 201, answer.body


@pytest.mark.parametrize("example", examples("Pod", "Deployment"))
def test_its_pod_gets_our_scheduler(accepted: Any, name: str, example: dict[str, Any]) -> None:
    spec = named(example, name)["spec"]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    assert accepted(body | {"spec": spec.get("template", {"spec": spec})["spec"]})["schedulerName"] == (
        "vgpu-scheduler"
    )


@pytest.mark.parametrize("example", examples("Job"))
def test_a_job_is_read_as_the_engine_reads_it(cluster: Cluster, name: str, example: dict[str, Any]) -> None:
    body = cluster.post(f"{JOBS}?dryRun=All", named(example, name), "editor").body
    assert body["spec"]["suspend"]
    assert read(read_job(json.dumps(body).encode())).queue == "default"


def test_each_file_is_in_the_list() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted(FOLDER.glob("*.yaml")) if f"]({path.name})" not in page] == []


def test_no_example_needs_a_setting_of_older_versions() -> None:
    """The page says what people add there; newer versions add it themselves, but for pods with claims."""
    by_limits = [str(item) for _, item in written() if "resourceClaims" not in str(item)]
    assert OLDER or not any("schedulerName" in item for item in by_limits)
