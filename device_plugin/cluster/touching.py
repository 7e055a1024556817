"""Writes a touch: an annotation of a pod that changes, so that kube-scheduler or kubelet looks at the pod again."""

import logging
from datetime import UTC, datetime

from device_plugin.core.contract.annotations import TOUCHED
from device_plugin.core.pods import Pod
from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import ApiError, GoneError
from device_plugin.state.view import ClusterView

log = logging.getLogger(__name__)


def touch(api: Api, view: ClusterView, pod: Pod, why: str) -> bool:
    """Write the present time into the pod's annotation for touches, and log the touch with its reason `why`.

    Returns false, and logs the error, if the API server did not write it. A pod that is gone is recorded as gone.
    """
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    try:
        api.patch(PODS, pod, {"metadata": {"annotations": {TOUCHED: now}}}, subresource="status")
    except GoneError:
        view.pod_news.gone(pod.uid)
    except ApiError as error:
        log.info("could not touch pod=%s/%s: %s", pod.namespace, pod.name, error)
        return False
    else:
        log.info("touched pod=%s/%s: %s", pod.namespace, pod.name, why)
    return True
