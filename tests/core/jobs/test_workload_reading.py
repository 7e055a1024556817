"""Workloads of other kinds than Job, read into checked specifications."""

from typing import Any

import pytest

from device_plugin.core.errors import RequestError
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.spec import PriorityClass
from device_plugin.core.jobs.workload_reading import ANNOTATIONS, workload_spec
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.core.workload_kinds import JOB_SET, RAY_CLUSTER, WorkloadKind
from tests.builders.workloads import QUEUED, Sets, body, decoded, workload


def read(kind: WorkloadKind, sets: Sets = ((1, 1),), **more: Any) -> JobSpec:
    priorities = {"high": PriorityClass(7, preempts=False)}
    return workload_spec(workload(kind, "a", sets, **more), DEFAULT_PREFIXES, priorities, lambda _: 0.5)


def test_it_is_rigid_and_as_large_as_all_of_its_pods() -> None:
    spec = read(JOB_SET, ((4, 2),))
    assert (spec.key, spec.user, spec.queue) == (("default", "jobset/a"), "default", "default")
    assert (spec.least, spec.asked, spec.most, spec.cards) == (4, 4, 4, 2.0)
    assert not spec.elastic
    assert spec.sets == ()


def test_different_pods_are_sets_the_largest_first_and_equal_ones_are_one_set() -> None:
    spec = read(RAY_CLUSTER, ((1, 1), (2, 4), (3, 1)))
    assert [(each.asked, each.cards) for each in spec.sets] == [(2, 4.0), (4, 1.0)]
    assert spec.asked * spec.cards == pytest.approx(12.0)
    assert spec.request == spec.sets[0].request
    assert spec.dealt(0, 6) == [(spec.sets[0], 2), (spec.sets[1], 4)]
    assert spec.dealt(1, 2) == [(spec.sets[0], 1), (spec.sets[1], 1)]
    assert spec.dealt(6, 1) == [(spec.sets[1], 1)]


def test_its_priority_class_and_its_annotations_count() -> None:
    written = {"vgpu.io/resumable": "true", "vgpu.io/min-runtime": "2h", "vgpu.io/expected-duration": "90m"}
    spec = read(JOB_SET, annotations=written, priorityClassName="high")
    assert (spec.priority, spec.preempts) == (7, False)
    assert (spec.resumable, spec.min_runtime, spec.expected_seconds) == (True, 7200.0, 5400.0)
    assert written.keys() < set(ANNOTATIONS)


@pytest.mark.parametrize(
    ("sets", "more", "said"),
    [
        (((1, 1),), {"labels": {"vgpu.io/queue": ""}}, "is empty"),
        (
            ((1, 1),),
            {"labels": QUEUED | {"vgpu.io/group": "g"}},
            "label vgpu.io/group is not read on a JobSet",
        ),
        (((1, 1),), {"annotations": {"vgpu.io/widths": "1,2"}}, "vgpu.io/widths is not read on a JobSet"),
        (((1025, 1),), {}, "1025 pods that start together: write at most 1024"),
        (((1, 17),), {}, "at most 16"),
        ([(1, 1)], {"annotations": {"vgpu.io/min-runtime": "x"}}, "vgpu.io/min-runtime"),
    ],
)
def test_what_is_malformed_is_refused_with_what_to_write(sets: Sets, more: Any, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        read(JOB_SET, sets, **more)


def test_too_many_different_requests_are_refused() -> None:
    assert read(JOB_SET, [(1, 1)] * 40).asked == 40
    found = body(JOB_SET, "a", [(1, 1)] * 40)
    for number, each in enumerate(found["spec"]["replicatedJobs"]):
        each["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"n": str(number)}
    with pytest.raises(RequestError, match="more than 32 different requests"):
        workload_spec(decoded(JOB_SET, found), DEFAULT_PREFIXES, {}, lambda _: 1.0)
