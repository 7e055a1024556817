import json

import pytest

from device_plugin.cluster.server_version import AGAIN_SECONDS, SOON_SECONDS, ServerVersion
from device_plugin.kube.errors import UnknownError


@pytest.mark.parametrize(
    ("version", "hopeless"),
    [
        ("v1.31.4", False),
        ("v1.32.0", False),
        ("v1.33.0-rc.1", True),
        ("v1.36.3+k3s1", True),
        ("v2.0.0", True),
        ("x", False),
    ],
)
def test_kube_scheduler_may_be_one_version_older(version: str, *, hopeless: bool) -> None:
    found = ServerVersion(lambda path: json.dumps({"gitVersion": version}) if path == "/version" else "")
    assert not found.absent_is_hopeless()
    assert found.step() == AGAIN_SECONDS
    assert found.absent_is_hopeless() is hopeless


@pytest.mark.parametrize("said", ["", "[]", "{}", "no JSON"])
def test_a_version_that_cannot_be_read_is_asked_for_again_soon(said: str) -> None:
    answers = [said, '{"gitVersion": "v1.36.0"}', said]
    found = ServerVersion(lambda _: answers.pop(0))
    assert (found.step(), found.absent_is_hopeless()) == (SOON_SECONDS, False)
    assert (found.step(), found.absent_is_hopeless()) == (AGAIN_SECONDS, True)
    assert (found.step(), found.absent_is_hopeless()) == (AGAIN_SECONDS, True)


def test_no_answer_is_no_version() -> None:
    def text(_: str) -> str:
        raise UnknownError("no answer in time")

    found = ServerVersion(text)
    assert (found.step(), found.absent_is_hopeless()) == (SOON_SECONDS, False)
