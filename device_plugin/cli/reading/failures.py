"""Reads how the pods of a Job fail: how often their containers were restarted, and how the last one ended."""

from collections.abc import Iterable, Iterator, Sequence

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.run.pods import JOB_PODS, JobPod, of_job, text_of
from device_plugin.core.batch import JOB_NAME, Job
from device_plugin.kube.api import Object, Where
from device_plugin.kube.errors import ApiError


def failures(client: KubeClient, job: Job) -> Sequence[str]:
    """Returns sentences on how the containers of the Job's pods fail; none if none fails.

    If a pod has failed and the pods cannot be listed, the sentence says so.
    """
    if not job.failed and 0 < job.active <= job.ready:
        return ()
    try:
        found = client.list(JOB_PODS, Where(job.namespace, f"{JOB_NAME}={job.name}")).items
    except ApiError as error:
        return [f"How its pods ended is not known: {error}"] if job.failed else ()
    pods = of_job(found, job.uid)
    restarts = sum(pod.restarts for pod in pods)
    restarted = (
        f"Its containers were restarted {restarts} time{'' if restarts == 1 else 's'}" if restarts else ""
    )
    return [*filter(None, (restarted, last_failure(pods)))]


def last_failure(pods: Iterable[JobPod]) -> str:
    """Returns how the container that failed last ended, as a sentence; empty if none has failed."""
    ends = [(str(end.get("finishedAt") or ""), pod.name, end) for pod in pods for end in _failed(pod)]
    if not ends:
        return ""
    at, name, end = max(ends, key=lambda each: each[:2])
    why = text_of(end, "reason", "message")
    said = f": {why}" if why not in ("", "Error") else ""
    return (
        f"The last one, pod {name}, ended with exit code {end['exitCode']}{said}{f', at {at}' if at else ''}"
    )


def _failed(pod: JobPod) -> Iterator[Object]:
    for end in (pod.state.get("terminated"), pod.last):
        if end and end.get("exitCode"):
            yield end
