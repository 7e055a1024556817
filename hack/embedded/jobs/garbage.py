"""Deletes the pods of a Job that was deleted, as the garbage collector does."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from device_plugin.kube.api import JOBS, PODS, Api
from device_plugin.kube.errors import GoneError
from hack.embedded.jobs.pods import delete, release
from hack.embedded.pod_spec import deleting, ref

Object = dict[str, Any]
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"


def collect(api: Api, job: Object | None, pods: Sequence[Object]) -> list[Object]:
    """Return the pods that `job` controls (None: it is gone); delete the pods of earlier Jobs of the same name.

    For a Job that is being deleted, its pods are deleted or released, as the finalizers of the deletion say.
    """
    uid = job["metadata"]["uid"] if job else ""
    mine = [pod for pod in pods if _controller(pod) == uid and uid]
    for pod in pods:
        if _controller(pod) not in ("", uid):
            release(api, pod)
            if not deleting(pod):
                delete(api, pod)
    if job is None or not deleting(job):
        return mine
    waits = job["metadata"].get("finalizers") or []
    for pod in mine:
        if ORPHAN in waits:
            release(api, pod)
            with suppress(GoneError):
                api.patch(PODS, ref(pod), {"metadata": {"ownerReferences": None}})
        elif FOREGROUND in waits and not deleting(pod):
            delete(api, pod)
    if ORPHAN in waits or (FOREGROUND in waits and not mine):
        left = [finalizer for finalizer in waits if finalizer not in (ORPHAN, FOREGROUND)]
        api.patch(JOBS.json, ref(job), {"metadata": {"finalizers": left or None}})
    return [] if ORPHAN in waits else mine


def _controller(pod: Object) -> str:
    """The UID of the Job that controls the pod; empty if none does."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next(
        (str(owner["uid"]) for owner in owners if owner.get("controller") and owner["kind"] == "Job"), ""
    )
