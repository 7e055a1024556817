"""What the API server is asked about the caller, and how its answers are read."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest
from pytest_mock import MockerFixture

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.connections import Connections
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.cli.access.caller import may_follow
from device_plugin.kube.api import JOBS
from device_plugin.kube.errors import UnknownError

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.mark.parametrize(
    ("statuses", "verbs"),
    [
        ([{"allowed": True}, {"allowed": True}], ["list", "watch"]),
        ([{"allowed": True}, {"allowed": False, "denied": True}], ["list", "watch"]),
        ([{"allowed": False}], ["list"]),
    ],
)
def test_a_kind_may_be_followed_where_it_may_be_listed_and_watched(
    mocker: MockerFixture, statuses: Sequence[dict[str, bool]], verbs: Sequence[str]
) -> None:
    answers = [(201, bytearray(json.dumps({"status": status}).encode())) for status in statuses]
    request = mocker.patch.object(Connections, "request", side_effect=answers)
    api = KubeClient(Endpoint("http://nowhere", lambda: None), "test")
    assert may_follow(api, JOBS, "mine") is all(status["allowed"] for status in statuses)
    asked = {"group": "batch", "version": "v1", "resource": "jobs", "namespace": "mine"}
    assert [(call.args[0], call.args[1], json.loads(call.args[3])) for call in request.call_args_list] == [
        (
            "POST",
            REVIEWS,
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {**asked, "verb": verb}},
            },
        )
        for verb in verbs
    ]


@pytest.mark.parametrize("answer", [b"{}", b'{"status": []}', b"no JSON"])
def test_an_answer_of_another_form_is_an_error_of_the_api(mocker: MockerFixture, answer: bytes) -> None:
    mocker.patch.object(Connections, "request", return_value=(201, bytearray(answer)))
    with pytest.raises(UnknownError):
        may_follow(KubeClient(Endpoint("http://nowhere", lambda: None), "test"), JOBS, "")


@pytest.mark.parametrize(("given", "namespace"), [("gpu-team", "gpu-team"), ("", "vgpu-system")])
def test_commands_look_where_the_environment_says_that_vgpu_is_installed(given: str, namespace: str) -> None:
    words = (sys.executable, "-m", "device_plugin", "queue", "--help")
    environment = {**os.environ, "VGPU_NAMESPACE": given, "COLUMNS": "200"}
    said = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    assert f"where the job engine runs (default: {namespace})" in said
