"""`vgpu why NAME`: why a pod has no card, or where a job of a queue is, the reasons, and what would help.

    vgpu why notebook                  # a pod or a job of the namespace
    vgpu why pod/notebook -n team-a
    vgpu why job/train -o json
    vgpu why rayjob/tune               # or another kind of workload that a queue starts, such as jobset/pretrain

For a pod it says what it asks for, what each group of nodes lacks, and what would help: the end of which pods, which
moves, which smaller request. It reads the lists of nodes and pods, and decides on them as the cluster service does.
The cluster service's reservations count only with the rights of the Role ask-allocator (page "Operations" of the
documentation). A job's place in its queue needs the rights of ask-job-engine (page "Jobs in a queue"). For both you
need kubectl.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.structs import DecodeError
from device_plugin.adapters.kube.templates import TemplatePod, read_template
from device_plugin.allocator.why_pod import NAMES, PodAnswer, asked_text
from device_plugin.cli.access import caller, engine
from device_plugin.cli.access.engine import EngineError
from device_plugin.cli.access.names import Named, named
from device_plugin.cli.access.port_forward import ForwardError
from device_plugin.cli.printing import answers
from device_plugin.cli.queued_jobs import ended_row
from device_plugin.cli.reading import local_allocator
from device_plugin.cli.reading.failures import failures
from device_plugin.cli.reading.garbage import uncollected
from device_plugin.cli.reading.local_allocator import MissingListError
from device_plugin.core.answers import Answer, sentence
from device_plugin.core.batch import JOB_NAME, Job
from device_plugin.core.contract.annotations import KUEUE_QUEUE, QUEUE
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.counted import few_of
from device_plugin.core.errors import RequestError, VgpuError
from device_plugin.core.http_values import JSON
from device_plugin.core.pod_states import PodState
from device_plugin.core.pods import Pod
from device_plugin.core.requests import pod_request
from device_plugin.core.workload_kinds import JOB
from device_plugin.kube.api import JOBS, PODS, Ref, Where
from device_plugin.kube.errors import ApiError, GoneError

KINDS = {"pod": "pod", "pods": "pod", "po": "pod", **engine.JOB_WORDS, **engine.WORKLOAD_WORDS}


class WhyError(VgpuError):
    """No pod or job of this name exists or can be read; the text says what to do.

    Cure: ask for the right to read it, or name another with `-n`.
    """


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu why`."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="a pod or a Job: NAME, pod/NAME, job/NAME, or NAMESPACE/NAME; a queued workload: rayjob/NAME",
    )
    parser.add_argument("-o", "--output", choices=("json",), help="the answer as JSON")
    caller.add_namespace(parser)
    local_allocator.add_arguments(parser)
    engine.add_arguments(parser)


@uncollected
def run(args: argparse.Namespace) -> int:
    """Print why the named pod or job waits, or how it ended; returns 0.

    Raises ObjectNameError, WhyError, EngineError, ForwardError, ApiError, EndpointError.
    """
    kind, of = named(args.name, KINDS, lambda: caller.namespace(args))
    with caller.connected(args) as client:
        if kind not in ("", "pod", "job"):
            return _of_workload(client, args, Named(kind, of))
        if kind != "job" and (found := _pod(client, of)) is not None:
            return _show(about_pod(client, args, found), args)
        if kind == "pod":
            raise _nothing("pod", of)
        return _of_job(client, args, of, kind or "pod or job")


def _nothing(kinds: str, of: Ref) -> WhyError:
    return WhyError(
        f"there is no {kinds} {of.namespace}/{of.name}: see `kubectl -n {of.namespace} get pods,jobs`"
    )


def _pod(client: KubeClient, of: Ref) -> dict[str, Any] | None:
    try:
        return client.get(PODS.json, of)
    except GoneError:
        return None


class Explanation(NamedTuple):
    """The explanation of a pod or job: `answer` for people, and `object`, with all that is known, for programs."""

    answer: Answer
    object: Mapping[str, Any]


def about_pod(client: KubeClient, args: argparse.Namespace, found: dict[str, Any]) -> Explanation:
    """Returns the answer about a pod: its state, or the reason why it has no card. `found` is the pod as JSON.

    Raises WhyError, ApiError.
    """
    try:
        of = Ref(found["metadata"]["name"], found["metadata"]["namespace"])
    except (LookupError, TypeError):
        raise WhyError("the API server's answer is no pod: correct the server in the kubeconfig") from None
    try:
        template = read_template(found, of.namespace)
        pod = client.get(PODS, of)
    except DecodeError as error:
        raise WhyError(f"pod {of.namespace}/{of.name} cannot be read: {error}") from error
    try:
        local = local_allocator.read(client, args)
    except MissingListError as error:
        about, source = _by_its_condition(pod, template), f"From the pod alone: {error}"
    else:
        limits = local.limits(template.nodes) if not pod.node else ""
        nodes = local.allowed(template.nodes)
        about, source = local.answers.about(local.view.pod_news.known(pod), nodes, limits), local.source
    answer = about.answer(source)
    answer = replace(answer, reasons=(*answer.reasons, *_containers(found, about)))
    paragraph = {"source": source, "paragraph": answer.as_paragraph()}
    return Explanation(answer, {**about.as_object(), **answer.as_object(), **paragraph})


def _by_its_condition(pod: Pod, template: TemplatePod) -> PodAnswer:
    """Returns the answer about a pod from the pod alone, mainly from kube-scheduler's condition in it.

    It is for a caller who may not list nodes and pods.
    """
    name = caller.named(pod)
    try:
        request = pod_request(pod, local_allocator.prefixes_of(template.pod))
    except RequestError as error:
        return PodAnswer(name, Reason.MALFORMED.value, says=f"is refused: {error}")
    asks = asked_text(request) if request is not None else _unread(pod)
    if pod.node:
        return PodAnswer(name, PodState.BOUND.value, asks, f"is on {pod.node} (phase {pod.phase})")
    said = pod.obstacles.said.rstrip(".") or "kube-scheduler has said nothing of it yet"
    reasons = [reason for reason in Reason if reason.text in said]
    advice = reasons[0].advice if reasons else ""
    state = reasons[0].value if reasons else "unknown"
    return PodAnswer(name, state, asks, "waits", (said,), sentence(advice))


def _unread(pod: Pod) -> str:
    """Returns, as text, the request of a pod whose limits ask for no slice.

    The text names the pod's ResourceClaims; without claims, it is `no slice of a card`.
    """
    if not pod.claims:
        return "no slice of a card"
    stored = (of or f"{name} (not made yet)" for name, of in pod.claims.items())
    return f"what its ResourceClaims ask for ({few_of(list(stored), NAMES)})"


def _containers(found: dict[str, Any], answer: PodAnswer) -> list[str]:
    """Returns a sentence for each container that does not run yet, for example while its image is pulled.

    Returns none if the pod itself still waits for its slices.
    """
    if answer.waits:
        return []
    statuses = (found.get("status") or {}).get("containerStatuses") or []
    waiting = [(each["name"], (each.get("state") or {}).get("waiting")) for each in statuses]
    return [
        f"Container {name} does not run: {why.get('reason') or 'unknown'}{': ' if why.get('message') else ''}"
        f"{why.get('message', '')}"
        for name, why in waiting if why
    ]  # fmt: skip


def _of_workload(client: KubeClient, args: argparse.Namespace, of: Named) -> int:
    """Print the engine's answer about a queued workload of another kind than Job, or how the workload has ended."""
    name = f"{of.ref.namespace}/{of.kind}/{of.ref.name}"
    try:
        status, text = engine.ask(client, args, JSON, job=name)
    except (EngineError, ForwardError):
        if (job := engine.found(client, of)).ended:
            return _show(about_ended(client, job), args)
        raise
    if status == HTTPStatus.OK:
        return _show(planned(text), args)
    if status == HTTPStatus.NOT_FOUND:
        job = engine.found(client, of)
        if job.ended:
            return _show(about_ended(client, job), args)
        if QUEUE not in job.labels:
            raise WhyError(
                f"{name} is in no queue: to queue it, give it the label {QUEUE}, such as {QUEUE}=default"
            )
    raise EngineError(text.strip())


def _of_job(client: KubeClient, args: argparse.Namespace, of: Ref, kinds: str) -> int:
    """Print why a job waits, or how it ended; returns 0.

    About a job in a queue the job engine answers. About any other job, the answer is about its first waiting pod.
    `kinds` is the word for the job in an error, such as `pod or job`.
    """
    name = f"{of.namespace}/{of.name}"
    try:
        status, text = engine.ask(client, args, JSON, job=name)
    except (EngineError, ForwardError):
        job = _job(client, of, kinds)
        if QUEUE in job.labels and not job.ended:
            raise
        return _show(about_ended(client, job), args) if job.ended else _of_first_pod(client, args, job)
    if status == HTTPStatus.OK:
        return _show(_with_failures(client, of, planned(text)), args)
    if status != HTTPStatus.NOT_FOUND:
        raise EngineError(text.strip())
    job = _job(client, of, kinds)
    if job.ended:
        return _show(about_ended(client, job), args)
    if QUEUE not in job.labels:
        return _of_first_pod(client, args, job)
    raise EngineError(f"the job engine has not seen job {name} yet: try again")


def about_ended(client: KubeClient, job: Job) -> Explanation:
    """Returns the answer about a Job that has ended: how and when, and how the pod that failed last ended.

    Raises WhyError for a Job that has not ended.
    """
    if job.end is None:
        raise WhyError(f"job {'/'.join(job.key)} has not ended")
    row = ended_row(job, job.end)
    line = f"{'/'.join(job.key)} {row['phase']}: {row['why'] or 'it is done'}"
    reasons = [f"It ended at {job.end.since}"] if job.end.since else []
    # The pods of other kinds than Job are not counted.
    if job.kind is JOB:
        reasons += [f"Of its pods {job.succeeded} succeeded, and {job.failed} failed", *failures(client, job)]
    answer = Answer(line, reasons)
    return Explanation(answer, {**row, **answer.as_object()})


def _with_failures(client: KubeClient, of: Ref, found: Explanation) -> Explanation:
    """Returns `found`, the job engine's answer, with added sentences on how the Job's pods fail.

    If the caller may not read the Job, nothing is added.
    """
    try:
        more = failures(client, client.get(JOBS, of))
    except ApiError:
        return found
    return found._replace(answer=replace(found.answer, reasons=(*found.answer.reasons, *more)))


def planned(text: str) -> Explanation:
    """Returns the job engine's answer about one job, read from its JSON text. Raises EngineError if it is malformed.

    The answer has a line, reasons, and changes that would help. An older engine sends one text with all reasons: then
    the line has this text, and there is nothing else.
    """
    try:
        found = json.loads(text)
        (job,) = found["jobs"]
        line = job.get("answer") or f"{job['namespace']}/{job['name']} {job['phase']}: {job['why']}"
        return Explanation(Answer(line, job.get("reasons", ()), job.get("help", ())), found)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise EngineError(
            "the job engine's answer cannot be read: use the vgpu command of its version"
        ) from None


def _job(client: KubeClient, of: Ref, kinds: str) -> Job:
    """Returns the job of this name. Raises WhyError if there is none; its text calls the job `kinds`."""
    try:
        return client.get(JOBS, of)
    except GoneError:
        raise _nothing(kinds, of) from None


def _of_first_pod(client: KubeClient, args: argparse.Namespace, job: Job) -> int:
    """Print the answer about the first waiting pod of a job that is in no queue. Raises WhyError if none waits."""
    name = f"{job.namespace}/{job.name}"
    pods = client.list(PODS, Where(job.namespace, f"{JOB_NAME}={job.name}")).items
    waiting = sorted(pod.name for pod in pods if not pod.node and not pod.ended)
    if waiting and (found := _pod(client, Ref(waiting[0], job.namespace))) is not None:
        return _show(about_pod(client, args, found), args)
    if job.suspend and KUEUE_QUEUE in job.labels:
        raise WhyError(
            f"job {name} is Kueue's, which keeps it suspended: see its Workload with"
            f" `kubectl -n {job.namespace} describe workloads`"
        )
    raise WhyError(
        f"no pod of job {name} waits, and the job is in no queue: to queue it, give it the label"
        f" {QUEUE}, such as {QUEUE}=default"
    )


def _show(found: Explanation, args: argparse.Namespace) -> int:
    if args.output:
        print(json.dumps(found.object, indent=2))
    else:
        answers.show([found.answer])
    return 0
