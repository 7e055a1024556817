"""Reads the labels, annotations and spec of a Job into a checked JobSpec.

Any user who may edit a Job can write anything there, at any time. So a reader returns checked values or raises
RequestError, whose text says what to write instead. A Job whose width may change must be Indexed, with equal
completions and parallelism, and a pod may be replaced only after it has ended. A rigid Job needs only its label.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from math import inf
from typing import NamedTuple

from device_plugin.core.app_types import DEFAULT_TYPE, TYPES
from device_plugin.core.batch import Job
from device_plugin.core.contract import annotations
from device_plugin.core.durations import duration_seconds
from device_plugin.core.errors import RequestError
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.rules import MAX_MIN_RUNTIME_S
from device_plugin.core.jobs.spec import ROLES, TRAINER, Goal, PriorityClass, Split
from device_plugin.core.pods import Container, Pod
from device_plugin.core.requests import ANNOTATIONS as POD_ANNOTATIONS
from device_plugin.core.requests import LABELS as POD_LABELS
from device_plugin.core.requests import MAX_GANG, PodRequest, Request, RequestSource, pod_request

LABELS = annotations.people_write("Job", "label")
ANNOTATIONS = annotations.people_write("Job", "annotation")
OURS = annotations.programs_write("Job")
KUBERNETES_CONTROLLER = "kubernetes.io/job-controller"
# Kinds of owners that create Jobs and do not change their width afterwards; a Job without an owner has its user's
# width.
CREATORS = ("", "CronJob")

# Most sub-tasks of a split: Kubernetes' own bound for an Indexed Job that runs more than 10,000 pods at once.
MAX_PARTS = 100_000
MAX_SAMPLES, MAX_EPOCHS = 10**12, 1_000_000
# The largest `gen` in `vgpu.io/resize-drop`. A Job's records count from 1, or from a number that its author wrote on a
# pod.
MAX_GEN = 10**12
MAX_SECONDS = 366 * 86_400
# Most seconds for a checkpoint, because other jobs wait for it: as long as a pod's grace period may be, by default an
# hour (parameter mostGraceSeconds).
MAX_CHECKPOINT = 3600
# Most widths that a Job may list.
MAX_WIDTHS = 16
_NUMBER = re.compile(r"[1-9][0-9]{0,12}")
_RATIO = re.compile(r"[1-9][0-9]{0,5}(?:\.[0-9]{1,3})?")
_PART = re.compile(r"0|[1-9][0-9]{0,4}")
# Most characters of a malformed text that a message repeats.
_SHOWN = 63
_WIDTHS = re.compile(rf"{_NUMBER.pattern}(?:,{_NUMBER.pattern}){{0,{MAX_WIDTHS - 1}}}")
_MODEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class _LimitsAlone:
    """Refuses ResourceClaims in pods of Jobs in queues, because the cards of claims could not be counted.

    Claims in pods of the default scheduler are for other drivers, and count as no card.
    """

    def of(self, pod: Pod, container: Container) -> None:
        """Raise RequestError if the container uses a claim, unless the default scheduler places its pod."""
        if container.claims and pod.scheduler not in ("", "default-scheduler"):
            raise RequestError(
                f"container {container.name} uses a claim, and queues count no claims: ask in limits, or leave out the"
                f" label {annotations.QUEUE}"
            )

    def check(self, pod: Pod) -> None:
        """Accept every pod."""


LIMITS_ALONE: RequestSource = _LimitsAlone()


def job_spec(
    job: Job,
    prefixes: Collection[str],
    priorities: Mapping[str, PriorityClass],
    share: Callable[[Request], float],
    split_ratio: float = inf,
) -> JobSpec:
    """The specification of `job`, which has a queue label. Raises RequestError if a label or the spec is malformed.

    `prefixes` are the prefixes of the resource names for cards. `priorities` are the cluster's PriorityClasses by name;
    the empty name is for pods that name none. `share` returns the share of a card that a slice takes. `split_ratio` is
    the ratio of splits (Jobs of sub-tasks) without the annotation.
    """
    _check_keys(job)
    queue = queue_name(job)
    request = pod_request(job.template, prefixes, LIMITS_ALONE)
    order, split_of, owner, goal = _order(job), _split_of(job), _width_owner(job), _goal(job, request)
    divided = order is not None and not split_of
    width = _window(job, goal) if divided else _width(job, goal, owner)
    group, size, joint = _group(job, width, divided)
    priority = priorities.get(job.priority_class, PriorityClass())
    return JobSpec(
        key=job.key,
        uid=job.uid,
        asked=width.asked,
        least=width.least,
        most=width.most,
        widths=width.allowed,
        request=replace(request, pod="") if request else PodRequest("", (), host=job.template.host),
        nodes=job.nodes,
        cards=sum(asks.whole or asks.count * share(asks) for _, asks in request.containers)
        if request
        else 0.0,
        queue=queue,
        user=job.namespace,
        group=group,
        group_size=size,
        group_jobs=_group_jobs(job),
        joint=joint,
        role=_role(job, width.least < width.most),
        split=order or (Split.ORDERED if split_of else None),
        parts=(job.completions or 0) if divided else 0,
        split_ratio=_split_ratio(job, split_ratio, divided=divided),
        barrier=_barrier(job, split_of),
        split_of=split_of,
        part=_part(job, split_of),
        goal=goal,
        app_type=_app_type(job),
        expected_seconds=duration(job),
        checkpoint_seconds=float(_number(job, annotations.CHECKPOINT_SECONDS, MAX_CHECKPOINT) or 0),
        resumable=stop_consent(job, owner, divided=divided),
        min_runtime=least_runtime(job),
        on_hold=on_hold(job),
        priority=priority.value,
        preempts=priority.preempts and job.template.preempts,
        width_owner=owner,
        kueue=annotations.KUEUE_QUEUE in job.labels,
        dropped=dropped(job),
        created=datetime.fromisoformat(job.created).timestamp() if job.created else 0.0,
    )


def queue_name(job: Job) -> str:
    """The name of the job's queue. Raises RequestError if it is empty, or another controller starts the job."""
    if job.managed_by not in ("", KUBERNETES_CONTROLLER):
        raise RequestError(
            f"managedBy is {job.managed_by}, a controller that decides by itself when and how wide the Job runs:"
            f" leave out managedBy, or the label {annotations.QUEUE}"
        )
    queue = job.labels[annotations.QUEUE]
    if not queue:
        raise RequestError(f"label {annotations.QUEUE} is empty: write the name of a queue, such as default")
    return queue


def _check_keys(job: Job) -> None:
    """Raise RequestError for a label or annotation with the prefix `vgpu.io/` that is not read on a Job."""
    for kept, here, there, found, meant in (
        (job.labels, LABELS, ANNOTATIONS, "label", "an annotation"),
        (job.annotations, ANNOTATIONS + OURS, LABELS, "annotation", "a label"),
    ):
        for key in sorted(kept):
            if not key.startswith(annotations.PREFIX) or key in here:
                continue
            if key in there:
                raise RequestError(f"{found} {key}: write {meant} instead")
            if key in POD_LABELS or key in POD_ANNOTATIONS:
                raise RequestError(f"{found} {key}: write it on the pods, in spec.template.metadata")
            raise RequestError(
                f"{key[:127]} is no key of vgpu: remove it, or write one of the annotations {', '.join(ANNOTATIONS)}"
                f" or of the labels {', '.join(LABELS)}"
            )


def _width_owner(job: Job) -> str:
    """The name of the controller that decides the number of pods in place of the engine; empty if none does."""
    if job.owner not in CREATORS:
        return job.owner
    elastic = job.annotations.get(annotations.KUEUE_ELASTIC) == "true"
    return "Kueue" if annotations.KUEUE_QUEUE in job.labels and not elastic else ""


class _Width(NamedTuple):
    """The present width of a Job, its bounds, and the allowed widths (empty: all between the bounds)."""

    asked: int
    least: int
    most: int
    allowed: tuple[int, ...] = ()


def _width(job: Job, goal: Goal | None, owner: str) -> _Width:
    """The present width of a Job, its bounds and allowed widths. Raises RequestError if they contradict each other.

    For a Job with a goal only the bounds and the allowed widths matter.
    """
    _check_count("parallelism", job.parallelism)
    _check_count("completions", job.completions)
    asked = job.width
    if asked > MAX_GANG:
        raise RequestError(f"parallelism is {job.parallelism}: write at most {MAX_GANG}")
    least = _number(job, annotations.MIN_REPLICAS, MAX_GANG)
    most = _number(job, annotations.MAX_REPLICAS, MAX_GANG)
    if least is not None and most is not None and least > most:
        raise RequestError(
            f"{annotations.MIN_REPLICAS} is {least} and {annotations.MAX_REPLICAS} {most}: write a minimum that is not"
            " more than the maximum"
        )
    listed = _listed(job)
    if owner or (least is None and most is None and goal is None and not listed):
        return _Width(asked, asked, asked)
    _check_elastic(job)
    if not goal and not (least or asked) <= asked <= (most or asked):
        raise RequestError(
            f"completions and parallelism are {asked}: write a width that is not less than {annotations.MIN_REPLICAS}"
            f" and not more than {annotations.MAX_REPLICAS}"
        )
    if listed:
        return _one_of(listed, least or 1, most or MAX_GANG, asked, chosen=goal is None and not has_run(job))
    if goal:
        least, most = least or 1, most or MAX_GANG
        return _Width(min(max(asked, least), most), least, most)
    return _Width(asked, least or asked, most or asked)


def _listed(job: Job) -> tuple[int, ...]:
    """The allowed numbers of pods in the annotation `vgpu.io/widths`, ascending; empty without the annotation."""
    text = job.annotations.get(annotations.WIDTHS)
    if text is None:
        return ()
    found = tuple(map(int, text.split(","))) if _WIDTHS.fullmatch(text) else (MAX_GANG + 1,)
    if found[-1] > MAX_GANG or any(one >= following for one, following in pairwise(found)):
        meant = f"at most {MAX_WIDTHS} whole numbers from 1 to {MAX_GANG} in ascending order, such as 1,2,4,8"
        raise _malformed(annotations.WIDTHS, text, meant)
    return found


def has_run(job: Job) -> bool:
    """True for a Job that was started before.

    The width of such a Job need not be in its list of allowed widths: the author may have changed the list since.
    """
    return not job.suspend or annotations.RESIZE in job.annotations or bool(job.kept)


def on_hold(job: Job) -> bool:
    """True if a person holds the Job back by annotation. Raises RequestError if the annotation is malformed."""
    return _flag(job, annotations.HOLD) is not None and held(job)


def held(job: Job) -> bool:
    """True if the annotation `vgpu.io/hold` holds the Job back; false for a Job of Kueue, which decides alone."""
    return job.annotations.get(annotations.HOLD) == "true" and annotations.KUEUE_QUEUE not in job.labels


def _one_of(listed: Sequence[int], least: int, most: int, asked: int, *, chosen: bool) -> _Width:
    """The width of a Job whose author listed the allowed widths: the least listed width not below `asked`.

    Only listed widths from `least` to `most` are allowed. If all are below `asked`, the present width is the largest.
    Raises RequestError if no listed width is within the bounds, or if the author has `chosen` the width `asked` and it
    is not allowed.
    """
    allowed = tuple(width for width in listed if least <= width <= most)
    if not allowed:
        raise RequestError(
            f"annotation {annotations.WIDTHS} has no width from {annotations.MIN_REPLICAS} to"
            f" {annotations.MAX_REPLICAS}: write one that has, or leave out the bounds"
        )
    if chosen and asked not in allowed:
        raise RequestError(
            f"completions and parallelism are {asked}, and {annotations.WIDTHS} allows {', '.join(map(str, allowed))}:"
            " write one of these into both"
        )
    nearest = next((width for width in allowed if width >= asked), allowed[-1])
    return _Width(nearest, allowed[0], allowed[-1], allowed)


def _check_count(name: str, written: int | None) -> None:
    """Raise RequestError if `written` is below 1: a Job that runs without pods is neither waiting nor done.

    `name` is the name of the field in the error.
    """
    if written is not None and written < 1:
        raise RequestError(f"{name} is {written}: write at least 1")


def _check_elastic(job: Job) -> None:
    """Raise RequestError if the Job's number of pods cannot change while it runs, as the Job is written."""
    _check_resizable(job, "a width that changes")
    if job.completions != job.parallelism:
        raise RequestError(
            f"completions is {job.completions or 'not written'} and parallelism {job.parallelism}: write one number"
            f" into both, the width of the Job, or {annotations.SPLIT}, with which completions is the number of"
            " sub-tasks"
        )
    if job.backoff_limit_per_index is not None:
        raise RequestError(
            "backoffLimitPerIndex counts the failures of an index, which may leave and come back: write backoffLimit"
            " instead"
        )


def _window(job: Job, goal: Goal | None) -> _Width:
    """The width of a split (a Job of sub-tasks): the number of sub-tasks that run at a time, from one to all.

    Raises RequestError if the Job is written in a way in which it cannot be a split.
    """
    for key in (annotations.MIN_REPLICAS, annotations.MAX_REPLICAS, annotations.WIDTHS):
        if key in job.annotations:
            raise RequestError(
                f"annotation {key}: leave it out, because a split runs as many sub-tasks at a time as there is room for"
            )
    if goal:
        raise RequestError(
            f"annotations {annotations.SPLIT} and {annotations.SAMPLES}: write one of them, because only a job without"
            " sub-tasks is sized"
        )
    _check_resizable(job, "a split")
    _check_count("parallelism", job.parallelism)
    parts = job.completions or 0
    if not 1 <= parts <= MAX_PARTS:
        raise RequestError(
            f"completions is {parts}: write the number of sub-tasks, 1 to {MAX_PARTS}, of which each finds its own in"
            " $JOB_COMPLETION_INDEX"
        )
    return _Width(1, 1, min(parts, MAX_GANG))


def _check_resizable(job: Job, cause: str) -> None:
    """Raise RequestError if the Job's number of pods cannot change while it runs; `cause` says what needs this."""
    if not job.indexed:
        raise RequestError(f"completionMode is NonIndexed: {cause} needs completionMode: Indexed")
    if job.replacement != "Failed":
        raise RequestError(
            f"podReplacementPolicy is {job.replacement or 'not written'}: {cause} needs podReplacementPolicy: Failed,"
            " because otherwise a pod is replaced while it still holds its slice"
        )
    if job.restart_policy != "Never":
        raise RequestError(
            f"restartPolicy is {job.restart_policy or 'not written'}: {cause} needs restartPolicy: Never in"
            " spec.template.spec"
        )
    if job.success_policy:
        raise RequestError(
            f"successPolicy ends the Job by some of its pods, and {cause} removes pods: leave it out"
        )


def _order(job: Job) -> Split | None:
    """The order of sub-tasks in the annotation `vgpu.io/split`; None without the annotation."""
    text = job.annotations.get(annotations.SPLIT)
    if text is None:
        return None
    try:
        return Split(text)
    except ValueError:
        raise _malformed(annotations.SPLIT, text, "ordered or any") from None


def _split_of(job: Job) -> str:
    """The name of the split (a task in parts) of which the Job is a sub-task; empty if the Job is no sub-task."""
    name = job.labels.get(annotations.SPLIT_OF, "")
    if annotations.SPLIT_OF in job.labels and not name:
        raise RequestError(
            f"label {annotations.SPLIT_OF} is empty: write a name, one for all sub-tasks of the split"
        )
    return name


def _part(job: Job, split_of: str) -> int | None:
    """The number of the Job among the sub-tasks of its split (a task in parts); None if it is no sub-task."""
    text = job.labels.get(annotations.PART)
    if (text is None) != (split_of == ""):
        raise RequestError(
            f"labels {annotations.SPLIT_OF} and {annotations.PART}: write both, the name of the split and the number of"
            " the sub-task, or none"
        )
    if text is None:
        return None
    if not _PART.fullmatch(text):
        raise _malformed(annotations.PART, text, f"a whole number from 0 to {MAX_PARTS - 1}", "label")
    return int(text)


def _split_ratio(job: Job, usual: float, *, divided: bool) -> float:
    """The ratio in the annotation `vgpu.io/split-ratio`; `usual` without the annotation.

    With the ratio 4, a split (a Job of sub-tasks) begins once more than a quarter of its sub-tasks have room. Raises
    RequestError if the annotation is malformed, or is on a Job without sub-tasks (`divided` is false).
    """
    text = job.annotations.get(annotations.SPLIT_RATIO)
    if text is None:
        return usual
    if not _RATIO.fullmatch(text):
        raise _malformed(annotations.SPLIT_RATIO, text, "a number of at least 1, such as 4 or 2.5")
    if not divided:
        raise RequestError(
            f"annotation {annotations.SPLIT_RATIO} is about the sub-tasks of one Job: write {annotations.SPLIT} too, or"
            " leave it out"
        )
    return float(text)


def _barrier(job: Job, split_of: str) -> bool:
    """True if all running sub-tasks of the Job's split (a task in parts) must end before others start."""
    barrier = _flag(job, annotations.BARRIER)
    if barrier is not None and not split_of:
        # Kubernetes starts the next index of a Job as soon as one ends.
        raise RequestError(
            f"annotation {annotations.BARRIER} needs sub-tasks that are Jobs of their own: write {annotations.SPLIT_OF}"
            f" and {annotations.PART} on each, or leave it out"
        )
    return bool(barrier)


def duration(job: Job) -> float | None:
    """The duration of the Job that its author declared, in seconds; None if it is not written."""
    return _seconds(job, annotations.EXPECTED_DURATION)


def dropped(job: Job) -> int:
    """The number (`gen`) of the change record that the job's author has ended by annotation; 0 for none."""
    return _number(job, annotations.RESIZE_DROP, MAX_GEN) or 0


def stop_consent(job: Job, owner: str = "", *, divided: bool = False) -> bool | None:
    """True if the job consents to be stopped for a job of its priority; None if nothing is written.

    False if another controller (`owner`, or Kueue) decides when the job runs. Raises RequestError for a split
    (`divided`) with the annotation.
    """
    resumable = _flag(job, annotations.RESUMABLE)
    if resumable is not None and divided:
        raise RequestError(
            f"annotation {annotations.RESUMABLE}: leave it out, because the sub-tasks of a split begin again, and so a"
            " split is not stopped for a Job of its priority"
        )
    if owner or annotations.KUEUE_QUEUE in job.labels:
        return False
    return resumable


def least_runtime(job: Job) -> float | None:
    """The seconds after each start in which the job gives nothing to jobs of its priority; None if not written."""
    return _seconds(
        job, annotations.MIN_RUNTIME, MAX_MIN_RUNTIME_S, "a time of at most 24 hours, such as 2h or 90m"
    )


def _group(job: Job, width: _Width, divided: bool) -> tuple[str, int, bool]:
    """The group of a Job's pods, the number of pods that start together, and whether the Job itself names the group.

    The number is 0 if it is not written. Raises RequestError if the Job and its pods contradict each other.
    """
    of_job, of_pods = job.labels.get(annotations.GROUP), job.template.label(annotations.GROUP)
    if of_job == "":
        raise RequestError(f"label {annotations.GROUP} is empty: write the group's name")
    if of_job and of_pods and of_job != of_pods:
        raise RequestError(
            f"label {annotations.GROUP} is {of_job} on the Job and {of_pods} on its pods: write one name in both places"
        )
    size = job.template.label(annotations.GROUP_SIZE)
    if not size:
        return of_job or of_pods, 0, bool(of_job)
    # Its form was checked with the request of the pods, if these ask for a card.
    number = int(size) if _NUMBER.fullmatch(size) else 0
    if divided:
        raise RequestError(
            f"label {annotations.GROUP_SIZE} of the pods: leave it out, because each sub-task starts when there is room"
            " for it"
        )
    least = width.least if width.allowed else _number(job, annotations.MIN_REPLICAS, MAX_GANG)
    together = least or width.asked
    if not of_job and (number > together or (least and number != least)):
        if width.allowed:
            raise RequestError(
                f"label {annotations.GROUP_SIZE} of the pods is {size}, but the Job's smallest width is {least}: write"
                f" {least}"
            )
        raise RequestError(
            f"label {annotations.GROUP_SIZE} of the pods is {size}, but "
            + (f"{annotations.MIN_REPLICAS} is {least}" if least else f"the Job runs {width.asked}")
            + f": write {together} in both"
        )
    return of_job or of_pods, number, bool(of_job)


def _group_jobs(job: Job) -> int:
    """The written number of Jobs of the Job's group; 0 if it is not written."""
    number = _number(job, annotations.GROUP_JOBS, MAX_GANG)
    if number and not job.labels.get(annotations.GROUP):
        raise RequestError(
            f"annotation {annotations.GROUP_JOBS} needs the label {annotations.GROUP}: write the group's name, one on"
            " all of its Jobs"
        )
    return number or 0


def _role(job: Job, elastic: bool) -> str:
    """The role of the Job in its group; empty if none is written.

    Raises RequestError if the Job cannot have the written role.
    """
    role = job.labels.get(annotations.ROLE)
    if role is None:
        return ""
    if role not in ROLES:
        raise _malformed(annotations.ROLE, role, "master, ps or trainer", "label")
    if not job.labels.get(annotations.GROUP):
        raise RequestError(
            f"label {annotations.ROLE} needs {annotations.GROUP}: write the group's name, one on all of its Jobs"
        )
    if elastic and role != TRAINER:
        raise RequestError(
            f"label {annotations.ROLE} is {role}, whose width stays: write {annotations.MIN_REPLICAS} and"
            f" {annotations.MAX_REPLICAS} on the trainers' Job only"
        )
    if annotations.GROUP_JOBS not in job.annotations and not job.template.label(annotations.GROUP_SIZE):
        raise RequestError(
            f"label {annotations.ROLE} is {role}, and nothing says how many Jobs wait for each other: write the"
            f" annotation {annotations.GROUP_JOBS} with the number of the group's Jobs, such as '3', on each of them"
        )
    return role


def _goal(job: Job, request: PodRequest | None) -> Goal | None:
    """The goal of a Job whose width is to be found; None if the Job has none of the annotations for it.

    Raises RequestError if some of the annotations are missing, or contradict each other.
    """
    samples = _number(job, annotations.SAMPLES, MAX_SAMPLES)
    epochs = _number(job, annotations.EPOCHS, MAX_EPOCHS)
    seconds = _seconds(job, annotations.DURATION)
    most = _seconds(job, annotations.DURATION_AT_MOST)
    model = job.annotations.get(annotations.MODEL)
    if model is not None and not _MODEL.fullmatch(model):
        raise _malformed(annotations.MODEL, model, "a name such as resnet50, of letters, digits and . _ -")
    _check_card_models(job)
    if samples is None and epochs is None and seconds is None and most is None:
        return None
    if samples is None or seconds is None or model is None:
        needed = {annotations.SAMPLES: samples, annotations.DURATION: seconds, annotations.MODEL: model}
        missing = ", ".join(key for key, value in needed.items() if value is None)
        raise RequestError(
            f"a Job that is to be sized lacks {missing}: write {missing} too, or leave out the others"
        )
    if most is not None and most < seconds:
        raise RequestError(
            f"{annotations.DURATION_AT_MOST} is less than {annotations.DURATION}: write at least as long a time"
        )
    if _app_type(job) != DEFAULT_TYPE:
        raise RequestError(
            f"annotation {annotations.APP_TYPE} is {_app_type(job)}: only jobs of type {DEFAULT_TYPE} are sized; leave"
            f" it out, or write parallelism in place of {annotations.SAMPLES}"
        )
    if request is None or any(not asks.whole for _, asks in request.containers):
        raise RequestError(
            "the pods of a Job that is to be sized must ask for whole cards, for which rates are known: write them in"
            f" resources.limits, or parallelism in place of {annotations.SAMPLES}"
        )
    bounded = annotations.MIN_REPLICAS in job.annotations or annotations.MAX_REPLICAS in job.annotations
    return Goal(samples, epochs or 1, seconds, most or seconds, model, bounded)


def _check_card_models(job: Job) -> None:
    """Raise RequestError if the Job names other card models than its pods, whose annotation decides."""
    models = job.annotations.get(annotations.CARD_MODEL)
    if models is not None and models != job.template.annotation(annotations.CARD_MODEL):
        raise RequestError(
            f"annotation {annotations.CARD_MODEL} of the Job is not that of its pods, by which cards are chosen: write"
            " it in spec.template.metadata.annotations too"
        )


def _app_type(job: Job) -> str:
    """The application type: the kind of resource that the job needs most (`gpu`, `cpu` or `memory`)."""
    text = job.annotations.get(annotations.APP_TYPE, DEFAULT_TYPE)
    if text not in TYPES:
        raise _malformed(annotations.APP_TYPE, text, "gpu, cpu or memory")
    return text


def _flag(job: Job, key: str) -> bool | None:
    """The truth value (`true` or `false`) in the annotation `key`; None without the annotation."""
    text = job.annotations.get(key)
    if text not in (None, "true", "false"):
        raise _malformed(key, text, "true or false")
    return None if text is None else text == "true"


def _number(job: Job, key: str, most: int) -> int | None:
    """The whole number in the annotation `key`, 1 to `most`; None without the annotation."""
    text = job.annotations.get(key)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or int(text) > most:
        raise _malformed(key, text, f"a whole number from 1 to {most}")
    return int(text)


def _seconds(
    job: Job,
    key: str,
    longest: float = MAX_SECONDS,
    meant: str = "a time of at most 366 days, such as 8h, 90m or 1h30m",
) -> float | None:
    """The duration in the annotation `key`, in seconds, at most `longest`; None without the annotation.

    Raises RequestError if the value is malformed; `meant` says in the error what to write.
    """
    text = job.annotations.get(key)
    if text is None:
        return None
    seconds = duration_seconds(text) or 0
    if not 0 < seconds <= longest:
        raise _malformed(key, text, meant)
    return float(seconds)


def _malformed(key: str, text: str, meant: str, place: str = "annotation") -> RequestError:
    shown = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return RequestError(f"{place} {key} is {shown!r}: write {meant}")
