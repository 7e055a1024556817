"""What is written on a Job: what becomes of it, and what to write instead of what is wrong."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.annotations import KEYS
from device_plugin.core.errors import RequestError
from device_plugin.core.jobs.reading import ANNOTATIONS, LABELS, OURS, job_spec
from device_plugin.core.jobs.spec import Goal, Split
from device_plugin.core.requests import DEFAULT_PREFIXES, Request
from tests.builders.cards import CORES, FAMILY, MEM
from tests.builders.written_jobs import CLASSES, ELASTIC, job, read, spec, template

QUEUED = {"queue": "default"}
SIZED = {
    "samples": "1281167",
    "epochs": "90",
    "duration": "8h",
    "duration-at-most": "16h",
    "model": "resnet50",
}
SPLIT = {"split": "ordered"}
PLAIN = {"indexed": False, "replacement": "TerminatingOrFailed", "restart_policy": "OnFailure"}


def test_a_job_without_the_label_is_left_alone() -> None:
    strange = job(
        {}, {"min-replicas": "none", "colour": "red"}, parallelism=0, managed_by="example.com/other"
    )
    assert job_spec(strange, DEFAULT_PREFIXES, CLASSES, lambda _: 1) is None


def test_with_the_label_only_it_is_rigid() -> None:
    found = read(job(QUEUED, {}, parallelism=3, completions=None, **PLAIN))
    assert (found.asked, found.least, found.most, found.elastic) == (3, 3, 3, False)
    assert (found.key, found.queue, found.user, found.cards) == (("ns", "train"), "default", "ns", 1)


def test_it_never_runs_more_pods_than_successes_are_waited_for() -> None:
    assert spec(QUEUED, {}, parallelism=8, completions=3).asked == 3


def test_with_bounds_it_is_elastic() -> None:
    found = spec()
    assert (found.least, found.asked, found.most, found.elastic) == (2, 4, 8, True)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"min-replicas": "2"}, (2, 4)), ({"max-replicas": "6"}, (4, 6)),
        ({"min-replicas": "4", "max-replicas": "4"}, (4, 4)),
        ({"min-replicas": "1", "max-replicas": "1024"}, (1, 1024)),
    ],
)  # fmt: skip
def test_a_bound_that_is_missing_is_the_width(bounds: Mapping[str, str], expected: tuple[int, int]) -> None:
    found = spec(QUEUED, bounds)
    assert (found.least, found.most) == expected


def test_the_request_is_that_of_one_replica() -> None:
    found = spec(template=template({MEM: "4", CORES: "15"}))
    assert found.request.containers == (("main", Request(FAMILY, 0, 4, 15)),)
    assert (found.request.pod, found.cards) == ("", 0.25)
    assert spec(template=template({FAMILY: "2"})).cards == 2


def test_a_job_whose_pods_ask_for_no_card_is_queued_too() -> None:
    found = spec({**QUEUED, "group": "g", "role": "master"}, {}, template=template({}))
    assert (found.request.containers, found.cards, found.role) == ((), 0, "master")


def test_roles_of_a_group() -> None:
    found = spec({**QUEUED, "group": "g", "role": "trainer"})
    assert (found.group, found.role, found.joint, found.group_size) == ("g", "trainer", True, 0)


def test_the_pods_say_how_many_start_together() -> None:
    found = spec(template=template(labels={"group": "train", "group-size": "2"}))
    assert (found.group, found.group_size, found.joint) == ("train", 2, False)


@pytest.mark.parametrize("order", ["ordered", "any"])
def test_split_into_sub_tasks(order: str) -> None:
    found = spec(QUEUED, {"split": order, "barrier": "true"}, completions=3000, parallelism=1)
    assert (found.split, found.parts, found.barrier) == (Split(order), 3000, True)
    assert (found.asked, found.least, found.most, found.elastic) == (1, 1, 1024, False)


@pytest.mark.parametrize(("written", "expected"), [({}, Split.ORDERED), ({"split": "any"}, Split.ANY)])
def test_a_sub_task_that_is_a_job_of_its_own(written: Mapping[str, str], expected: Split) -> None:
    found = spec({**QUEUED, "split-of": "nightly", "part": "3"}, written)
    assert (found.split_of, found.part, found.split, found.parts) == ("nightly", 3, expected, 0)


def test_sized() -> None:
    found = spec(QUEUED, SIZED)
    assert found.goal == Goal(1_281_167, 90, 8 * 3600.0, 16 * 3600.0, "resnet50")
    assert (found.least, found.most) == (1, 1024)
    bounded = spec(QUEUED, {**SIZED, **ELASTIC}, parallelism=1, completions=1)
    assert (bounded.least, bounded.asked, bounded.most) == (2, 2, 8)
    short = spec(
        QUEUED, {key: text for key, text in SIZED.items() if key in ("samples", "duration", "model")}
    )
    assert short.goal == Goal(1_281_167, 1, 8 * 3600.0, 8 * 3600.0, "resnet50")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("8h", 28_800), ("90m", 5400), ("1h30m", 5400), ("45s", 45), ("2d", 172_800), ("1d2h3m4s", 93_784),
     ("366d", 31_622_400)],
)  # fmt: skip
def test_times(text: str, seconds: float) -> None:
    assert spec(annotations={"expected-duration": text}).expected_seconds == seconds


def test_a_long_checkpoint() -> None:
    assert spec(annotations={"checkpoint-seconds": "120"}).checkpoint_seconds == 120


@pytest.mark.parametrize(
    ("name", "expected"),
    [("", (0, True)), ("high", (1000, True)), ("polite", (500, False)), ("unknown", (0, True))],
)
def test_priority_is_that_of_the_pods_class(name: str, expected: tuple[int, bool]) -> None:
    found = spec(priority_class=name)
    assert (found.priority, found.preempts) == expected
    assert not spec(template=replace(template(), preempts=False)).preempts


def test_created_is_in_seconds_since_1970() -> None:
    assert spec(created="1970-01-02T00:00:10Z").created == 86_410


def test_with_kueue_its_width_stays_unless_kueue_says_that_it_may_change() -> None:
    queued = {**QUEUED, "kueue.x-k8s.io/queue-name": "theirs"}
    fixed, elastic = spec(queued), spec(queued, {**ELASTIC, "kueue.x-k8s.io/elastic-job": "true"})
    assert (fixed.kueue, fixed.width_owner, fixed.elastic, fixed.asked) == (True, "Kueue", False, 4)
    assert (elastic.kueue, elastic.width_owner, elastic.elastic) == (True, "", True)


@pytest.mark.parametrize(
    ("owner", "expected"), [("JobSet", "JobSet"), ("TrainJob", "TrainJob"), ("CronJob", "")]
)
def test_the_width_of_a_job_below_a_controller_is_left_alone(owner: str, expected: str) -> None:
    found = spec(owner=owner)
    assert (found.width_owner, found.elastic) == (expected, not expected)


# Bad input: what is written, and what is said.
@pytest.mark.parametrize(
    ("annotations", "fields", "words"),
    [
        ({"min-replicas": "5", "max-replicas": "3"}, {}, "min-replicas is 5 and vgpu.io/max-replicas 3: write"),
        ({"min-replicas": "0"}, {}, "annotation vgpu.io/min-replicas is '0': write a whole number from 1 to 1024"),
        ({"max-replicas": "eight"}, {}, "annotation vgpu.io/max-replicas is 'eight': write a whole number from 1"),
        ({"max-replicas": ""}, {}, "annotation vgpu.io/max-replicas is '': write"),
        ({"max-replicas": "08"}, {}, "is '08': write"),
        ({"max-replicas": "٣"}, {}, "is '٣': write"),
        ({"max-replicas": "1025"}, {}, "is '1025': write a whole number from 1 to 1024"),
        ({"max-replicas": "9" * 60}, {}, "write a whole number from 1 to 1024"),
        ({}, {"parallelism": 1025, "completions": 1025}, "parallelism is 1025: write at most 1024"),
        ({}, {"parallelism": 0}, "parallelism is 0: write at least 1"),
        ({}, {"completions": 0}, "completions is 0: write at least 1"),
        (ELASTIC, {"indexed": False}, "completionMode is NonIndexed: a width that changes needs"),
        (ELASTIC, {"completions": 8}, "completions is 8 and parallelism 4: write one number into both"),
        (ELASTIC, {"completions": None}, "completions is None and parallelism 4: write one number into both"),
        (ELASTIC, {"parallelism": 1, "completions": 1}, "completions and parallelism are 1: write a width"),
        (ELASTIC, {"parallelism": 9, "completions": 9}, "completions and parallelism are 9: write a width"),
        (ELASTIC, {"template": template(labels={"group": "g", "group-size": "4"})},
         "label vgpu.io/group-size of the pods is 4, but vgpu.io/min-replicas is 2: write 2 in both"),
        ({}, {"template": template(labels={"group": "g", "group-size": "5"})}, "is 5, but the Job runs 4: write 4"),
        (ELASTIC, {"restart_policy": "OnFailure"}, "restartPolicy is OnFailure: a width that changes needs"),
        (ELASTIC, {"success_policy": True}, "successPolicy ends the Job by some of its pods"),
        (ELASTIC, {"backoff_limit_per_index": 1}, "backoffLimitPerIndex counts the failures of an index"),
        (ELASTIC, {"replacement": "TerminatingOrFailed"}, "needs podReplacementPolicy: Failed, because"),
        ({}, {"managed_by": "kueue.x-k8s.io/multikueue"}, "managedBy is kueue.x-k8s.io/multikueue, a controller"),
        (SPLIT, {"completions": None}, "completions is 0: write the number of sub-tasks, 1 to 100000"),
        (SPLIT, {"completions": 0}, "completions is 0: write the number of sub-tasks"),
        (SPLIT, {"completions": 100_001}, "completions is 100001: write the number of sub-tasks"),
        (SPLIT, {"indexed": False}, "completionMode is NonIndexed: a split needs completionMode: Indexed"),
        (SPLIT, {"restart_policy": "OnFailure"}, "restartPolicy is OnFailure: a split needs restartPolicy: Never"),
        ({**SPLIT, **ELASTIC}, {}, "annotation vgpu.io/min-replicas: leave it out, because a split runs"),
        (SPLIT | SIZED, {}, "annotations vgpu.io/split and vgpu.io/samples: write one of them"),
        (SPLIT, {"template": template(labels={"group": "g", "group-size": "2"})}, "leave it out, because each"),
        ({"split": "sorted"}, {}, "annotation vgpu.io/split is 'sorted': write ordered or any"),
        ({"split": ""}, {}, "annotation vgpu.io/split is '': write ordered or any"),
        ({"barrier": "true"}, {}, "annotation vgpu.io/barrier needs sub-tasks: write vgpu.io/split too"),
        (SPLIT | {"barrier": "yes"}, {}, "annotation vgpu.io/barrier is 'yes': write true or false"),
        ({"expected-duration": "8 hours"}, {}, "is '8 hours': write a time of at most 366 days, such as 8h"),
        ({"expected-duration": "8"}, {}, "is '8': write a time"),
        ({"expected-duration": "0h"}, {}, "is '0h': write a time"),
        ({"expected-duration": "30m1h"}, {}, "is '30m1h': write a time"),
        ({"expected-duration": "367d"}, {}, "is '367d': write a time of at most 366 days"),
        ({"checkpoint-seconds": "2m"}, {}, "checkpoint-seconds is '2m': write a whole number from 1 to 3600"),
        ({"checkpoint-seconds": "3601"}, {}, "is '3601': write a whole number from 1 to 3600"),
        ({"app-type": "tpu"}, {}, "annotation vgpu.io/app-type is 'tpu': write gpu, cpu or memory"),
        (SIZED | {"app-type": "cpu"}, {}, "app-type is cpu: only jobs of type gpu are sized"),
        (SIZED | {"duration": "8 hours"}, {}, "annotation vgpu.io/duration is '8 hours': write a time"),
        (SIZED | {"duration-at-most": "7h"}, {}, "vgpu.io/duration-at-most is less than vgpu.io/duration"),
        (SIZED | {"model": "ResNet 50"}, {}, "annotation vgpu.io/model is 'ResNet 50': write a name such as resnet50"),
        (SIZED | {"samples": "1.2M"}, {}, "annotation vgpu.io/samples is '1.2M': write a whole number from 1 to"),
        ({"samples": "5"}, {}, "lacks vgpu.io/duration, vgpu.io/model: write vgpu.io/duration, vgpu.io/model too"),
        ({"duration": "8h"}, {}, "a Job that is to be sized lacks vgpu.io/samples, vgpu.io/model"),
        (SIZED, {"template": template({MEM: "4"})}, "must ask for whole cards, for which rates are known"),
        (SIZED, {"template": template({})}, "must ask for whole cards"),
        (SIZED | {"card-model": "Z100"}, {}, "annotation vgpu.io/card-model of the Job is not that of its pods"),
        (SIZED, {"indexed": False}, "completionMode is NonIndexed: a width that changes needs"),
        ({"vgpu.io/colour": "red"}, {}, "vgpu.io/colour is no key of vgpu: remove it, or write one of the annotations"),
        ({"queue": "a"}, {}, "annotation vgpu.io/queue: write a label instead"),
        ({"policy": "pack"}, {}, "annotation vgpu.io/policy: write it on the pods, in spec.template.metadata"),
        ({}, {"template": template({FAMILY: "1", MEM: "1"})}, "container main asks for whole cards and a slice"),
    ],
)  # fmt: skip
def test_bad_input_says_what_to_write(
    annotations: Mapping[str, str], fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(RequestError, match=re.escape(words)):
        spec(QUEUED, annotations, **fields)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"queue": ""}, "label vgpu.io/queue is empty: write the name of a queue, such as default"),
        ({**QUEUED, "group": "g", "role": "worker"}, "label vgpu.io/role is 'worker': write master, ps or trainer"),
        ({**QUEUED, "role": "ps"}, "label vgpu.io/role needs vgpu.io/group: write the group's name"),
        ({**QUEUED, "group": "g", "role": "ps"}, "label vgpu.io/role is ps, whose width stays: write"),
        ({**QUEUED, "group": ""}, "label vgpu.io/group is empty"),
        ({**QUEUED, "split-of": "n"}, "labels vgpu.io/split-of and vgpu.io/part: write both"),
        ({**QUEUED, "part": "3"}, "labels vgpu.io/split-of and vgpu.io/part: write both"),
        ({**QUEUED, "split-of": "", "part": "3"}, "label vgpu.io/split-of is empty"),
        ({**QUEUED, "split-of": "n", "part": "three"}, "vgpu.io/part is 'three': write a whole number from 0 to 99999"),
        ({**QUEUED, "min-replicas": "2"}, "label vgpu.io/min-replicas: write an annotation instead"),
        ({**QUEUED, "group-size": "2"}, "label vgpu.io/group-size: write it on the pods, in spec.template.metadata"),
        ({**QUEUED, "colour": "red"}, "vgpu.io/colour is no key of vgpu"),
    ],
)  # fmt: skip
def test_bad_labels_say_what_to_write(labels: Mapping[str, str], words: str) -> None:
    with pytest.raises(RequestError, match=re.escape(words)):
        spec(labels)


def test_the_groups_of_a_job_and_of_its_pods_are_one() -> None:
    with pytest.raises(
        RequestError, match="group is g on the Job and other on its pods: write one name in both"
    ):
        spec({**QUEUED, "group": "g"}, template=template(labels={"group": "other"}))


def test_a_message_is_short_whatever_is_written() -> None:
    long = "x" * 256_000
    for annotations in ({"min-replicas": long}, {"duration": long}, {"model": long}, {f"vgpu.io/{long}": ""}):
        with pytest.raises(RequestError) as raised:
            spec(QUEUED, annotations)
        assert len(str(raised.value)) < 1000


@given(
    st.dictionaries(st.sampled_from((*ANNOTATIONS, *OURS)), st.text(max_size=64)),
    st.dictionaries(st.sampled_from(LABELS), st.text(max_size=64)),
)
def test_whatever_is_written_is_read_or_refused(
    annotations: Mapping[str, str], labels: Mapping[str, str]
) -> None:
    try:
        found = spec({**QUEUED, **labels}, annotations)
    except RequestError:
        return
    assert 1 <= found.least <= found.asked <= found.most <= 1024


def test_every_key_is_on_the_reference_page() -> None:
    described = {(key.name, key.kind) for key in KEYS if key.object == "Job"}
    assert described == {(key, "label") for key in LABELS} | {
        (key, "annotation") for key in (*ANNOTATIONS, *OURS)
    }
