"""Writes events about pods. Events are for people: no action waits for a write of an event, or fails with it."""

import logging

from device_plugin.core.contract.events import Event
from device_plugin.core.pods import Pod
from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import ApiError

log = logging.getLogger(__name__)


def announce(api: Api, pod: Pod, event: Event, text: str) -> None:
    """Write an event about the pod; if the API server refuses it, the failure is only logged.

    Call it after the action that the event reports.
    """
    try:
        api.post_event(PODS, pod, event, text, warning=event.about.warning)
    except ApiError as error:
        log.warning("event %s of pod %s/%s: %s", event, pod.namespace, pod.name, error)
