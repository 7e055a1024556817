"""Writes a touch: an annotation of a pod that changes, so that kube-scheduler or kubelet looks at the pod again."""

from datetime import UTC, datetime

from device_plugin.core.contract.annotations import TOUCHED
from device_plugin.core.pods import Pod
from device_plugin.kube.api import PODS, Api


def write_touch(api: Api, pod: Pod) -> None:
    """Write the present time into the pod's annotation for touches. Raises ApiError."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    api.patch(PODS, pod, {"metadata": {"annotations": {TOUCHED: now}}}, subresource="status")
