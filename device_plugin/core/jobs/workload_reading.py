"""Reads a JobSet, a RayJob or a workload of another kind than Job into a checked JobSpec.

These are rigid: all of their pods start together, and the engine leaves their width as it is written.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import inf

from device_plugin.core.batch import Job, WorkloadPods
from device_plugin.core.contract import annotations
from device_plugin.core.errors import RequestError
from device_plugin.core.gang import MOST_CLASSES
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.reading import (
    LIMITS_ALONE,
    OURS,
    dropped,
    duration,
    job_spec,
    least_runtime,
    on_hold,
    queue_name,
    stop_consent,
)
from device_plugin.core.jobs.spec import PriorityClass
from device_plugin.core.requests import MAX_GANG, PodRequest, Request, pod_request
from device_plugin.core.workload_kinds import JOB

LABELS = (annotations.QUEUE,)
ANNOTATIONS = (
    annotations.EXPECTED_DURATION, annotations.RESUMABLE, annotations.MIN_RUNTIME, annotations.HOLD,
    annotations.RESIZE_DROP,
)  # fmt: skip
"""The annotations of these kinds that people write; the other annotations of Jobs are about a width that changes."""


def spec_of(
    job: Job,
    prefixes: Collection[str],
    priorities: Mapping[str, PriorityClass],
    share: Callable[[Request], float],
    split_ratio: float = inf,
) -> JobSpec:
    """The specification of a Job, or of a workload of another kind such as a JobSet, with a queue label.

    Raises RequestError if a label or the spec is malformed. `prefixes` are the prefixes of the resource names for
    cards, `priorities` the PriorityClasses by name. `share` returns the share of a card that a slice takes.
    `split_ratio` is the ratio of splits (Jobs of sub-tasks) without the annotation.
    """
    if job.kind is JOB:
        return job_spec(job, prefixes, priorities, share, split_ratio)
    return workload_spec(job, prefixes, priorities, share)


def workload_spec(
    job: Job,
    prefixes: Collection[str],
    priorities: Mapping[str, PriorityClass],
    share: Callable[[Request], float],
) -> JobSpec:
    """The specification of a workload with a queue label. Raises RequestError if the workload is malformed.

    `prefixes` are the prefixes of the resource names for cards, `priorities` the PriorityClasses by name. `share`
    returns the share of a card that a slice takes.
    """
    _check_keys(job)
    queue = queue_name(job)
    if job.problem:
        raise RequestError(job.problem)
    if job.width > MAX_GANG:
        raise RequestError(f"it has {job.width} pods that start together: write at most {MAX_GANG}")
    priority = priorities.get(job.priority_class, PriorityClass())
    whole = JobSpec(
        key=job.key,
        uid=job.uid,
        asked=job.width,
        least=job.width,
        most=job.width,
        request=PodRequest("", ()),
        cards=0.0,
        queue=queue,
        user=job.namespace,
        expected_seconds=duration(job),
        resumable=stop_consent(job),
        min_runtime=least_runtime(job),
        on_hold=on_hold(job),
        priority=priority.value,
        preempts=priority.preempts and job.template.preempts,
        kueue=annotations.KUEUE_QUEUE in job.labels,
        dropped=dropped(job),
        created=datetime.fromisoformat(job.created).timestamp() if job.created else 0.0,
    )
    sets = _sets(job.sets, whole, prefixes, share)
    first, cards = sets[0], sum(each.asked * each.cards for each in sets)
    return replace(
        whole, request=first.request, nodes=first.nodes, cards=cards / job.width,
        sets=tuple(sets) if len(sets) > 1 else (),
    )  # fmt: skip


def _sets(
    written: Sequence[WorkloadPods],
    whole: JobSpec,
    prefixes: Collection[str],
    share: Callable[[Request], float],
) -> Sequence[JobSpec]:
    """The sets of equal replicas of a workload, each as a job of its own; sets with large requests come first.

    `whole` is the specification of the workload without them. The sets that are `written` with equal requests and nodes
    become one set. Raises RequestError if too many sets differ.
    """
    found = dict[object, JobSpec]()
    for each in written:
        asked = pod_request(each.template, prefixes, LIMITS_ALONE)
        request = replace(asked, pod="", gang=None) if asked else PodRequest("", (), host=each.template.host)
        known = found.get((request, each.nodes))
        count = each.count + (known.asked if known else 0)
        cards = sum(asks.whole or asks.count * share(asks) for _, asks in request.containers)
        found[request, each.nodes] = replace(
            whole, asked=count, least=count, most=count, request=request, nodes=each.nodes, cards=cards
        )
    if len(found) > MOST_CLASSES:
        raise RequestError(
            f"its pods have more than {MOST_CLASSES} different requests: make their requests alike, or split it"
        )
    # Large requests first: they find fewer places.
    return sorted(found.values(), key=lambda each: -each.cards)


def _check_keys(job: Job) -> None:
    """Raise RequestError for a label or annotation with the prefix `vgpu.io/` that is not read on this kind."""
    for kept, here, found in (
        (job.labels, LABELS, "label"),
        (job.annotations, ANNOTATIONS + OURS, "annotation"),
    ):
        for key in sorted(kept):
            if key.startswith(annotations.PREFIX) and key not in here:
                raise RequestError(
                    f"{found} {key[:127]} is not read on a {job.kind.name}: remove it; a {job.kind.name} may have the"
                    f" label {annotations.QUEUE}, and the annotations {', '.join(ANNOTATIONS)}"
                )
