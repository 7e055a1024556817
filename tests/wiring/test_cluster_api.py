"""Which of the API server's answers to an eviction and to a touch mean what."""

import pytest
from pytest_mock import MockerFixture

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.errors import UnreachableError, refused
from device_plugin.cluster.ports import ApiError, GoneError, RefusedError, UnknownError
from device_plugin.core.pods import Pod
from device_plugin.wiring.cluster_api import ClusterApi


@pytest.mark.parametrize(
    ("error", "meant"),
    [
        (refused(404, "NotFound", 'pods "p" not found'), GoneError),
        (refused(409, "Conflict", "the UID in the precondition does not match"), GoneError),
        (refused(429, "TooManyRequests", "it would violate the pod's disruption budget"), RefusedError),
        (refused(403, "Forbidden", "not allowed"), RefusedError),
        (refused(500, "InternalError", "etcd"), UnknownError),
        (UnreachableError("no answer"), UnknownError),
    ],
)
def test_an_eviction_that_fails(mocker: MockerFixture, error: Exception, meant: type[ApiError]) -> None:
    client = mocker.Mock(spec=KubeClient)
    client.evict_pod.side_effect = error
    with pytest.raises(ApiError) as caught:
        ClusterApi(client).evict(Pod("default", "p", "u"))
    assert caught.type is meant
    client.evict_pod.assert_called_once_with("default", "p", "u", dry=False)


@pytest.mark.parametrize(
    ("error", "meant"),
    [
        (refused(404, "NotFound", 'pods "p" not found'), GoneError),
        (refused(422, "Invalid", "metadata.uid: field is immutable"), RefusedError),
        (refused(409, "Conflict", "the object has been modified"), UnknownError),
    ],
)
def test_a_touch_that_fails(mocker: MockerFixture, error: Exception, meant: type[ApiError]) -> None:
    client = mocker.Mock(spec=KubeClient)
    client.touch_pod.side_effect = error
    with pytest.raises(ApiError) as caught:
        ClusterApi(client).touch(Pod("default", "p", "u"))
    assert caught.type is meant
