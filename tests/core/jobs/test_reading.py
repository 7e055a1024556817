"""What is written on a Job: what becomes of it, and what to write instead of what is wrong."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from device_plugin.core.contract.annotations import KEYS, KUEUE_QUEUE
from device_plugin.core.errors import RequestError
from device_plugin.core.jobs.reading import ANNOTATIONS, LABELS, OURS, job_spec
from device_plugin.core.jobs.spec import Goal, Split
from device_plugin.core.pods import Container, ContainerKind
from device_plugin.core.requests import DEFAULT_PREFIXES, Request
from tests.builders.bad_jobs import BAD, BAD_LABELS, QUEUED, SIZED, UNREADABLE
from tests.builders.cards import CORES, FAMILY, MEM
from tests.builders.written_jobs import CLASSES, ELASTIC, job, read, spec, template

PLAIN = {"indexed": False, "replacement": "TerminatingOrFailed", "restart_policy": "OnFailure"}


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


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({}, (1, 4, 8, (1, 2, 4, 8))),
        ({"min-replicas": "2"}, (2, 4, 8, (2, 4, 8))),
        ({"max-replicas": "7"}, (1, 4, 4, (1, 2, 4))),
        ({"min-replicas": "3", "max-replicas": "7"}, (4, 4, 4, (4,))),
    ],
)  # fmt: skip
def test_listed_widths_are_the_bounds_and_written_bounds_leave_some_out(
    written: Mapping[str, str], expected: tuple[int, int, int, tuple[int, ...]]
) -> None:
    found = spec(QUEUED, {"widths": "1,2,4,8", **written}, suspend=True)
    assert (found.least, found.asked, found.most, found.widths) == expected
    assert found.elastic is (len(found.widths) > 1)


def test_sixteen_widths_may_be_listed() -> None:
    widths = tuple(range(1009, 1025))
    written = {"widths": ",".join(map(str, widths))}
    assert spec(QUEUED, written, parallelism=1024, completions=1024).widths == widths


@pytest.mark.parametrize(
    "ran",
    [{"suspend": False}, {"suspend": True, "kept": "{}"}, {"suspend": True, "annotations": {"resize": "{}"}}],
)
def test_a_job_that_ran_before_other_widths_were_listed_is_read_with_the_nearest(
    ran: Mapping[str, Any],
) -> None:
    written = {"widths": "1,2,4,8", **ran.get("annotations", {})}
    fields = {key: value for key, value in ran.items() if key != "annotations"}
    for width, asked in ((3, 4), (9, 8)):
        found = spec(QUEUED, written, parallelism=width, completions=width, **fields)
        assert (found.asked, found.least, found.most) == (asked, 1, 8)


def test_a_sized_job_needs_no_listed_width_and_consents_to_no_change_without_bounds() -> None:
    found = spec(QUEUED, {**SIZED, "widths": "2,4,8"}, parallelism=1, completions=1, suspend=True)
    assert (found.asked, found.least, found.most, found.elastic) == (2, 2, 8, False)
    bounded = spec(QUEUED, {**SIZED, "widths": "2,4,8", "max-replicas": "4"}, suspend=True)
    assert (bounded.least, bounded.most, bounded.elastic) == (2, 4, True)


@pytest.mark.parametrize("fields", [{"labels": {**QUEUED, KUEUE_QUEUE: "theirs"}}, {"owner": "JobSet"}])
def test_another_controller_decides_the_width_whatever_is_listed(fields: Mapping[str, Any]) -> None:
    found = spec(annotations={"widths": "1,2,8"}, suspend=True, **fields)
    assert (found.asked, found.least, found.most, found.widths) == (4, 4, 4, ())


def test_the_smallest_listed_width_starts_together() -> None:
    pods = template(labels={"group": "train", "group-size": "4"})
    assert spec(QUEUED, {"widths": "2,4,8", "min-replicas": "3"}, template=pods).group_size == 4


def test_the_request_is_that_of_one_replica() -> None:
    found = spec(template=template({MEM: "4", CORES: "15"}))
    assert found.request.containers == (("main", Request(FAMILY, 0, 4, 15)),)
    assert (found.request.pod, found.cards) == ("", 0.25)
    assert spec(template=template({FAMILY: "2"})).cards == 2


def test_a_job_whose_pods_ask_for_no_card_is_queued_too() -> None:
    found = spec({**QUEUED, "group": "g", "role": "master"}, {"group-jobs": "2"}, template=template({}))
    assert (found.request.containers, found.cards, found.role) == ((), 0, "master")


def test_roles_of_a_group() -> None:
    found = spec({**QUEUED, "group": "g", "role": "trainer"}, {"group-jobs": "3"})
    assert (found.group, found.role, found.joint, found.group_size) == ("g", "trainer", True, 0)
    assert found.group_jobs == 3
    sized = template(labels={"group": "g", "group-size": "2"})
    assert spec({**QUEUED, "group": "g", "role": "trainer"}, template=sized).group_jobs == 0


def test_kubeflows_role_labels_are_not_ours() -> None:
    theirs = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}
    assert spec({**QUEUED, **theirs}, template=template(labels=theirs)).role == ""


def test_the_pods_say_how_many_start_together() -> None:
    found = spec(template=template(labels={"group": "train", "group-size": "2"}))
    assert (found.group, found.group_size, found.joint) == ("train", 2, False)


@pytest.mark.parametrize("order", ["ordered", "any"])
def test_split_into_sub_tasks(order: str) -> None:
    found = spec(QUEUED, {"split": order}, completions=3000, parallelism=1)
    assert (found.split, found.parts, found.barrier) == (Split(order), 3000, False)
    assert (found.asked, found.least, found.most, found.elastic) == (1, 1, 1024, False)


def test_a_split_begins_by_the_ratio_that_is_written_or_else_by_that_of_the_setting() -> None:
    written = job(QUEUED, {"split": "any", "split-ratio": "4"}, completions=1000, parallelism=1)
    plain = job(QUEUED, {"split": "any"}, completions=1000, parallelism=1)
    found = [job_spec(each, DEFAULT_PREFIXES, CLASSES, lambda _: 1, 2.5) for each in (written, plain)]
    assert [each and (each.split_ratio, each.first_parts) for each in found] == [(4.0, 251), (2.5, 401)]
    assert read(plain).first_parts == 1, "as soon as one fits"


@pytest.mark.parametrize(
    ("written", "expected"), [({}, Split.ORDERED), ({"split": "any", "barrier": "true"}, Split.ANY)]
)
def test_a_sub_task_that_is_a_job_of_its_own(written: Mapping[str, str], expected: Split) -> None:
    found = spec({**QUEUED, "split-of": "nightly", "part": "3"}, written)
    assert (found.split_of, found.part, found.split, found.parts) == ("nightly", 3, expected, 0)
    assert found.barrier is ("barrier" in written)


def test_sized() -> None:
    found = spec(QUEUED, SIZED)
    assert found.goal == Goal(1_281_167, 90, 8 * 3600.0, 16 * 3600.0, "resnet50")
    assert (found.least, found.most, found.elastic) == (1, 1024, False)
    bounded = spec(QUEUED, {**SIZED, **ELASTIC}, parallelism=1, completions=1)
    assert (bounded.least, bounded.asked, bounded.most, bounded.elastic) == (2, 2, 8, True)
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


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("false", False), (None, None)])
def test_a_job_says_whether_its_program_goes_on_after_a_stop(text: str | None, expected: bool | None) -> None:
    assert spec(annotations={"resumable": text} if text else {}).resumable is expected


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("false", False), (None, False)])
def test_a_person_holds_a_job(text: str | None, *, expected: bool) -> None:
    assert spec(annotations={"hold": text} if text else {}).on_hold is expected


def test_a_job_of_kueue_is_not_held() -> None:
    assert spec({**QUEUED, KUEUE_QUEUE: "theirs"}, {"hold": "true"}).on_hold is False


@pytest.mark.parametrize("fields", [{"labels": {**QUEUED, KUEUE_QUEUE: "theirs"}}, {"owner": "JobSet"}])
def test_another_controller_stops_its_jobs_itself(fields: Mapping[str, Any]) -> None:
    assert spec(annotations={"resumable": "true"}, **fields).resumable is False
    assert spec(**fields).resumable is False, "whatever the engine's settings say"


def test_a_sub_task_that_is_a_job_may_say_that_it_goes_on() -> None:
    assert spec({**QUEUED, "split-of": "nightly", "part": "3"}, {"resumable": "true"}).resumable is True


@pytest.mark.parametrize(("text", "seconds"), [("2h", 7200), ("1d", 86_400), ("24h", 86_400), ("90s", 90)])
def test_the_least_time_that_it_runs(text: str, seconds: float) -> None:
    assert spec(annotations={"min-runtime": text}).min_runtime == seconds
    assert spec().min_runtime is None


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


@pytest.mark.parametrize(("annotations", "fields", "words"), BAD + UNREADABLE)
def test_bad_input_says_what_to_write(
    annotations: Mapping[str, str], fields: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(RequestError, match=re.escape(words)):
        spec(QUEUED, annotations, **fields)


@pytest.mark.parametrize(("labels", "words"), BAD_LABELS)
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


@pytest.mark.no_cover
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


def test_pods_of_a_queue_may_not_ask_by_claims() -> None:
    main = Container("main", ContainerKind.MAIN, {}, ("gpu",))
    made = replace(template({}), scheduler="vgpu-scheduler", containers=(main,), claims={"gpu": ""})
    with pytest.raises(RequestError, match="container main uses a claim, and queues count no claims: ask in"):
        spec(template=made)
    assert spec(template=replace(made, scheduler="default-scheduler")).cards == 0
