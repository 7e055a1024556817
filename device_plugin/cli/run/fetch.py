"""Fetches a result of a Job that has ended from one of its volumes, through a pod without a card.

The files of a container cannot be read after its end, and a Job that waited for a reader would keep its cards. So a
result must be on a volume claim, which outlives the Job's pods.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.run.follow import LOOK_SECONDS
from device_plugin.cli.run.kubectl import Kubectl
from device_plugin.cli.run.objects import CONTAINER, NewJob, RunError, owned_by
from device_plugin.cli.run.pods import JOB_PODS, JobPod
from device_plugin.kube.api import Ref
from device_plugin.kube.errors import GoneError

START_SECONDS = 300.0
# The pod ends by itself after this time, in case this command cannot delete it.
MOST_SECONDS = 3600


def check(new: NewJob, paths: Mapping[str, str]) -> None:
    """Raise RunError if one of these paths of the container is not on a volume."""
    for path in paths:
        parts = PurePosixPath(path).parts
        if ".." in parts or not any(PurePosixPath(path).is_relative_to(volume) for volume in new.claims):
            raise RunError(
                f"--fetch {path}: write a path on a --volume, because the files of a container that has ended are gone"
            )


def fetch(client: KubeClient, kubectl: Kubectl, new: NewJob, job: Ref, paths: Mapping[str, str]) -> None:
    """Copy files and folders of the Job's volumes to this machine. Raises RunError, ApiError.

    `paths` has the local path for each path of the container.
    """
    made = client.create(JOB_PODS, _reader(new, job), job.namespace)
    try:
        _started(client, made)
        for source, target in paths.items():
            kubectl.said("cp", f"--container={CONTAINER}", f"{made.name}:{source}", target, seconds=None)
    finally:
        with suppress(GoneError):
            client.delete(JOB_PODS, made, grace_seconds=0)


def _started(client: KubeClient, pod: JobPod) -> None:
    """Wait until the pod runs. Raises RunError if it ends or does not run after START_SECONDS; ApiError."""
    limit = time.monotonic() + START_SECONDS
    while True:
        now = client.get(JOB_PODS, pod)
        if now.running:
            return
        if now.ended or time.monotonic() > limit:
            why = now.waits_for or f"it ended with {now.exit_code}"
            raise RunError(
                f"the pod that reads the result does not run: {why}; its volume still has the result"
            )
        time.sleep(LOOK_SECONDS)


def _reader(new: NewJob, job: Ref) -> dict[str, Any]:
    """Returns a pod with the Job's image that mounts the Job's volumes."""
    claims = dict(enumerate(new.claims.items()))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": f"{job.name}-fetch-", **owned_by(job)},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": MOST_SECONDS,
            "containers": [
                {
                    "name": CONTAINER,
                    "image": new.image,
                    "command": ["sleep", str(MOST_SECONDS)],
                    "volumeMounts": [
                        {"name": f"volume-{index}", "mountPath": path, "readOnly": True}
                        for index, (path, _) in claims.items()
                    ],
                }
            ],
            "volumes": [
                {"name": f"volume-{index}", "persistentVolumeClaim": {"claimName": claim}}
                for index, (_, claim) in claims.items()
            ],
        },
    }
