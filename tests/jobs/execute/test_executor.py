"""The writes that are due: which, how many, and what each one says."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import CHECKPOINT, GRANT, MAX_INT, RESIZE
from device_plugin.core.contract.checkpoint import Checkpoint
from device_plugin.core.contract.resize import Resize, api_time
from device_plugin.core.jobs.job import JobKey
from device_plugin.core.jobs.plan import Admit, Plan, Scale, Step, Suspend, Window
from device_plugin.core.pods import Pod
from device_plugin.jobs.execute.executor import MOST_KEPT, Executor
from device_plugin.jobs.execute.new_records import ASK_SECONDS, SPARED_SECONDS
from device_plugin.jobs.execute.writes import JOIN_SECONDS, Action, Write
from device_plugin.kube.api import JOBS, PODS
from device_plugin.state.managed import FIRST_PAUSE, Managed
from tests.builders.batch_jobs import GRACE, ended, job, managed, replica, resize, spec, waiting
from tests.builders.pods import main
from tests.jobs.execute.world import grant

NOW = 1010.0
A, B = ("default", "a"), ("default", "b")


class Free:
    """A trial with so many free replicas."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas

    def take(self, wanted: Mapping[JobKey, int]) -> bool:
        if sum(wanted.values()) > self.replicas:
            return False
        self.replicas -= sum(wanted.values())
        return True

    def may_fit(self, job: JobKey, count: int) -> bool:
        assert job
        return count <= self.replicas


def due(*jobs: Managed, steps: Sequence[Step] = (), free: int = 0, now: float = NOW) -> dict[str, Write]:
    """The writes that are due, by the names of their Jobs."""
    known: Mapping[JobKey, Managed] = {each.key: each for each in jobs}
    return {write.key[1]: write for write in Executor(now, known, Free(free)).due(Plan(tuple(steps)))}


def carried_out(seen: Managed, write: Write) -> Managed:
    """The Job after a write, its pods as they were."""
    made = seen.job
    if write.action in (Action.START, Action.STOP):
        made = replace(made, suspend=write.action is Action.STOP)
    if write.width is not None:
        made = replace(made, parallelism=write.width, completions=write.width)
    past = write.record.past if write.record is not None and write.keeps else seen.past
    return replace(seen, job=made, record=write.record or seen.record, past=past)


def body(write: Write) -> Any:
    return json.loads(json.dumps(write.body))


# What each change costs


def test_a_shrink_is_three_writes() -> None:
    a, b = managed(job("a", 4)), managed(waiting("b", 2))
    b = replace(b, spec=replace(b.spec, priority=7))
    a = replace(a, pods=tuple(_granted(a.job, index) for index in range(4)))
    plan: list[Step] = [Scale(A, 4, 2, B), Admit(B, 2)]

    (record,) = due(a, b, steps=plan).values()
    assert record.action is Action.RECORD
    assert record.record == resize(
        4, 2, gen=1, asked=NOW, until=NOW + JOIN_SECONDS, beneficiary=B, replicas=2, priority=7, author_width=4,
        grants=(grant("uid-a-2", "n1-2"), grant("uid-a-3", "n1-3")),
    )  # fmt: skip
    assert "spec" not in body(record)
    a = carried_out(a, record)

    (width,) = due(a, b).values()
    assert width.record is not None
    assert width.record.until == NOW + JOIN_SECONDS + GRACE, "only now they are told to end"
    assert body(width)["spec"] == {"parallelism": 2, "completions": 2}
    assert body(width)["metadata"]["resourceVersion"] == a.job.version
    assert Resize.decode(body(width)["metadata"]["annotations"][RESIZE]).applied
    a = carried_out(a, width)
    assert not due(a, b, free=9), "the pods have not left yet"

    a = replace(a, job=replace(a.job, active=2), pods=a.pods[:2])
    (start,) = due(a, b, free=2).values()
    assert body(start)["spec"] == {"suspend": False}, "its width is what its user wrote"
    assert not due(a, carried_out(b, start), free=9), "at rest nothing is written"


def test_a_growth_is_two_writes() -> None:
    a = managed(job("a", 2))
    (record,) = due(a, steps=[Scale(A, 2, 4)], free=2).values()
    assert "spec" not in body(record)
    (width,) = due(carried_out(a, record), free=2).values()
    assert body(width)["spec"] == {"parallelism": 4, "completions": 4}
    assert not due(carried_out(carried_out(a, record), width), free=9)


def test_an_admission_is_one_write_and_sets_the_width_where_it_is_another_one() -> None:
    (start,) = due(managed(waiting("b", 4)), steps=[Admit(B, 3)], free=3).values()
    assert body(start)["spec"] == {"suspend": False, "parallelism": 3, "completions": 3}


def test_a_stop_leaves_the_numbers_as_they_are() -> None:
    a, b = managed(job("a", 4)), managed(waiting("b", 4))
    (record,) = due(a, b, steps=[Suspend(A, B), Admit(B, 4)]).values()
    assert record.record is not None
    assert (record.record.before, record.record.after) == (4, 0)
    (stop,) = due(carried_out(a, record), b).values()
    assert body(stop)["spec"] == {"suspend": True}


def test_a_checkpoint_is_one_more_write_of_the_pod_of_index_0() -> None:
    slow = spec(job("a", 4), checkpoint_seconds=120.0)
    a, b = replace(managed(job("a", 4)), spec=slow, saved=3, received=NOW - 30), managed(waiting("b", 2))
    (record,) = due(a, b, steps=[Scale(A, 4, 2, B), Admit(B, 2)]).values()
    assert record.record is not None
    assert record.record.until == NOW + ASK_SECONDS + 120 + JOIN_SECONDS
    a = carried_out(a, record)

    (ask,) = due(a, b).values()
    assert (ask.kind, ask.of.name, ask.subresource) == (PODS, "a-0-x", "status")
    asked = json.loads(body(ask)["metadata"]["annotations"][CHECKPOINT])
    assert asked == {"v": 1, "gen": 1, "until": NOW + 120, "saved": 3}
    assert "spec" not in body(ask)

    a = replace(a, checkpoint=Checkpoint.decode(json.dumps(asked)))
    assert not due(a, b, now=NOW + 119), "it is waited for"
    (width,) = due(replace(a, saved=4), b).values()
    assert width.kind is JOBS
    assert due(a, b, now=NOW + 120)["a"].action is Action.WIDTH, "or until its time is over"
    assert due(replace(a, pods=()), b)["a"].action is Action.WIDTH, "there is nobody to ask"
    stale = replace(a, checkpoint=Checkpoint(gen=9, until=0, saved=3), saved=4)
    assert due(stale, b)["a"].action is Action.ASK, "an answer to another question is none"


def test_where_the_count_of_checkpoints_is_old_none_is_the_answer_and_the_whole_time_is_given() -> None:
    slow, record = spec(job("a", 4), checkpoint_seconds=120.0), resize(4, 2, asked=NOW, until=NOW + 300)
    a = replace(managed(job("a", 4), record=record), spec=slow, saved=3, received=NOW - 31)
    assert not due(a), "what the agent says is waited for"
    assert due(replace(a, received=NOW + 3), now=NOW + 3)["a"].action is Action.ASK
    late = NOW + ASK_SECONDS
    (ask,) = due(a, now=late).values()
    asked = Checkpoint.decode(body(ask)["metadata"]["annotations"][CHECKPOINT])
    a = replace(a, checkpoint=asked, saved=MAX_INT, received=late + 5)
    assert not due(a, now=late + 119)
    assert due(a, now=late + 120)["a"].action is Action.WIDTH


def missed(a: Managed, b: Managed, now: float = NOW) -> Resize:
    """The record after a shrink from 4 to 2 whose request for a checkpoint had no answer until its time was over."""
    (record,) = due(a, b, steps=[Scale(A, 4, 2, B), Admit(B, 2)], now=now).values()
    assert record.record is not None
    asked = Checkpoint(gen=record.record.gen, until=int(now), saved=a.saved)
    (write,) = due(replace(carried_out(a, record), checkpoint=asked), b, now=now).values()
    assert write.record is not None
    return write.record


def test_two_checkpoints_in_a_row_that_did_not_come_spare_the_job_for_an_hour() -> None:
    slow = spec(job("a", 4), checkpoint_seconds=120.0)
    a, b = replace(managed(job("a", 4)), spec=slow), managed(waiting("b", 2))
    first = missed(a, b)
    assert (first.unsaved, first.spared_until) == (1, 0.0)
    second = missed(replace(a, record=first), b, now=first.until + 9)
    assert (second.unsaved, second.spared_until) == (2, first.until + 9 + SPARED_SECONDS)
    assert Resize.decode(second.encode()).spared_until == int(second.spared_until), (
        "an engine that follows reads it"
    )

    grown = replace(managed(job("a", 2), record=second), spec=slow)
    (growth,) = due(grown, steps=[Scale(A, 2, 4)], free=2, now=second.until).values()
    assert growth.record is not None
    assert (growth.record.unsaved, growth.record.spared_until) == (2, second.spared_until), "it goes on"


def test_a_checkpoint_that_came_ends_the_count() -> None:
    slow = spec(job("a", 4), checkpoint_seconds=120.0)
    record = resize(4, 2, gen=2, beneficiary=B, replicas=2, unsaved=1)
    a = replace(managed(job("a", 4), record=record), spec=slow, checkpoint=Checkpoint(2, 2000, 3), saved=4)
    (write,) = due(a, managed(waiting("b", 2))).values()
    assert write.record is not None
    assert write.record.unsaved == 0
    silent = replace(a, checkpoint=Checkpoint(2, 0, MAX_INT), saved=0)
    (write,) = due(silent, managed(waiting("b", 2))).values()
    assert write.record is not None
    assert write.record.unsaved == 1, "of one that nobody could hear of nothing is known"


# Pods that the API server refuses


def taken_back(seen: Managed, now: float = NOW) -> Write | None:
    known = {seen.key: replace(seen, refusal="exceeded quota: q")}
    found = Executor(now, known, Free(0)).due(Plan())
    return found[0] if found else None


def test_an_elastic_job_goes_back_to_the_pods_that_it_has() -> None:
    grew = resize(2, 6, gen=3, applied=True)
    write = taken_back(managed(job("a", 6, active=4), record=grew))
    assert write is not None
    assert body(write)["spec"] == {"parallelism": 4, "completions": 4}
    assert write.record is not None
    assert (write.record.gen, write.record.refusals, write.record.refusal) == (4, 1, "exceeded quota: q")
    after = carried_out(managed(job("a", 6, active=4), record=grew), write)
    (kept,) = due(after).values()
    assert (kept.action, kept.subresource, kept.record) == (Action.KEEP, "status", write.record)
    assert not due(carried_out(after, kept)), "that is all"
    assert after.paused_until == write.record.asked + FIRST_PAUSE


def test_a_job_with_listed_widths_goes_back_to_one_that_its_pods_suffice_for() -> None:
    seen = managed(job("a", 6, active=5), record=resize(2, 6, gen=3, applied=True))
    seen = replace(seen, spec=replace(seen.spec, least=2, widths=(2, 4, 6)))
    write = taken_back(seen)
    assert write is not None
    assert body(write)["spec"] == {"parallelism": 4, "completions": 4}
    started = replace(seen, job=replace(seen.job, active=1), record=resize(0, 6, applied=True), pods=())
    write = taken_back(started)
    assert write is not None
    assert body(write)["spec"] == {"suspend": True}, "one is less than any of them"


def test_below_its_least_width_a_job_that_was_just_started_stops() -> None:
    started = resize(0, 4, applied=True)
    rigid = managed(job("a", 4, active=3), record=started)
    rigid = replace(rigid, spec=replace(rigid.spec, least=4, most=4))
    write = taken_back(rigid)
    assert write is not None
    assert body(write)["spec"] == {"suspend": True}
    assert taken_back(rigid, now=started.until + 1) is None, "it may have run, and would lose what it did"
    assert taken_back(replace(rigid, spec=replace(rigid.spec, kueue=True))) is None
    unbound = replace(rigid, pods=tuple(structs.replace(pod, node="") for pod in rigid.pods))
    assert taken_back(unbound, now=started.until + 1) is not None, "none of its pods has begun"


def test_the_jobs_of_a_group_stop_together_and_pause_for_as_long() -> None:
    started = resize(0, 2, applied=True)
    master, lacks = of_group("b", "master"), of_group("c", "trainer", 2)
    runs = replace(managed(job("b"), record=replace(started, after=1, refusals=0)), spec=master.spec)
    lacks = replace(
        managed(job("c", 2, active=1), record=replace(started, asked=1003.0, refusals=2, refusal="before")),
        spec=replace(lacks.spec, least=2, most=2), refusal="exceeded quota: q",
    )  # fmt: skip
    writes = due(runs, lacks)
    assert [(name, write.action) for name, write in writes.items()] == [
        ("b", Action.STOP),
        ("c", Action.STOP),
    ]
    records = [write.record for write in writes.values() if write.record is not None]
    assert [record.refusal for record in records] == ["exceeded quota: q"] * 2
    assert {(record.asked, record.refusals) for record in records} == {(NOW, 3)}
    pauses = {carried_out(each, writes[each.key[1]]).paused_until for each in (runs, lacks)}
    assert pauses == {NOW + 4 * FIRST_PAUSE}

    # The one that is stopped first waits when the engine is killed in between.
    halfway = carried_out(runs, writes["b"])
    assert {name: write.action for name, write in due(halfway, lacks).items()} == {
        "b": Action.KEEP,
        "c": Action.STOP,
    }

    longer = replace(runs, record=replace(started, after=1, until=NOW - 1))
    assert not due(longer, lacks), "it may have begun, and would lose what it did"
    done = replace(runs, job=ended(job("b")))
    assert not due(done, lacks), "the group could not start again"
    elastic = replace(lacks, spec=replace(lacks.spec, least=1, most=2))
    assert [write.action for write in due(runs, elastic).values()] == [Action.WIDTH]


def test_thousands_of_refused_jobs_in_one_group_cost_little() -> None:
    started = resize(0, 2, applied=True)
    jobs = [
        replace(
            managed(job(f"j{number}", 2, active=1), record=started), refusal="exceeded quota: q",
            spec=replace(of_group(f"j{number}", "trainer", 2).spec, least=2, most=2),
        )
        for number in range(4000)
    ]  # fmt: skip
    begin = time.process_time()
    assert len(due(*jobs)) == len(jobs)
    assert time.process_time() - begin < 2


def test_a_split_goes_on_with_the_sub_tasks_that_run() -> None:
    split = job("a", 4, completions=16, active=3)
    write = taken_back(replace(managed(split), spec=spec(split, parts=16)))
    assert write is not None
    assert body(write)["spec"] == {"parallelism": 3}


def test_a_split_gives_the_cards_of_sub_tasks_that_have_just_begun_in_three_writes() -> None:
    split, b = job("a", 4, completions=16, succeeded=3), managed(waiting("b", 1))
    ages = {3: 500, 4: 5, 5: 70, 6: 20}
    pods = [
        structs.replace(_granted(split, index), created=api_time(NOW - age)) for index, age in ages.items()
    ]
    a = Managed(job=split, spec=spec(split, parts=16), pods=tuple(pods))
    plan: list[Step] = [Scale(A, 4, 3, B), Admit(B, 1)]
    (record,) = due(a, b, steps=plan).values()
    assert record.record is not None
    assert record.record.grants == (grant("uid-a-4", "n1-4"),), "the latest"
    (width,) = due(carried_out(a, record), b).values()
    assert body(width)["spec"] == {"parallelism": 3}
    left = replace(a.job, parallelism=3, active=3)
    after = replace(carried_out(carried_out(a, record), width), job=left, pods=tuple(pods[:1] + pods[2:]))
    (start,) = due(after, b, free=1).values()
    assert start.key == B

    assert not due(a, b, steps=[Scale(A, 4, 1, B), Admit(B, 3)]), "only two have just begun"
    assert due(carried_out(a, record), b, now=NOW + 59)["a"].action is Action.DROP, "by then none has"


# Records that are removed, and what is kept of them


def test_a_change_is_announced_on_the_job_and_in_its_status_at_once() -> None:
    a, b = managed(job("a", 4)), managed(waiting("b", 2))
    (record,) = due(a, b, steps=[Scale(A, 4, 2, B), Admit(B, 2)]).values()
    assert record.record is not None
    assert record.subresource == "status"
    (kept,) = body(record)["status"]["conditions"]
    past = Resize.decode(kept["message"])
    assert (kept["type"], past) == (RESIZE, record.record.past)
    assert (past.gen, past.asked, past.until, past.applied, past.grants) == (1, NOW, NOW, True, ())
    (width,) = due(carried_out(a, record), b).values()
    assert (width.subresource, "status" in body(width)) == ("", False)


@pytest.mark.parametrize(
    ("record", "kept"),
    [
        (resize(0, 4, applied=True), True),  # a start has nothing that could be removed to gain anything
        (resize(2, 4, applied=True), True),
        (resize(4, 2), True),
        (resize(4, 2, applied=True), False),
        (resize(4, 0, applied=True), False),
    ],
)
def test_what_a_shrink_or_a_stop_leaves_is_kept_once_it_is_carried_out(record: Resize, kept: bool) -> None:
    a = managed(job("a", record.width, suspend=not record.width, active=0), record=record, past=None)
    assert a.unkept is not kept
    assert not replace(a, past=record.past).unkept
    assert replace(a, past=replace(record, unsaved=1).past).unkept is not kept, "another count of answers"
    assert not replace(a, job=ended(a.job)).unkept


def test_a_removed_record_is_written_back_a_bounded_number_at_a_time_and_what_it_promises_first() -> None:
    over = resize(4, 0, applied=True, until=NOW - 1)
    jobs = [
        replace(managed(waiting(f"j{number:02}", 4), record=over), lost=True)
        for number in range(MOST_KEPT + 3)
    ]
    frees = resize(4, 2, applied=True, beneficiary=B, replicas=2, until=NOW + 60)
    giving = replace(managed(job("z", 2), 4, frees), lost=True)
    writes = due(*jobs, giving, managed(waiting("b", 2)))
    assert {write.action for write in writes.values()} == {Action.KEEP}
    assert (len(writes), next(iter(writes))) == (MOST_KEPT, "z")
    assert Resize.decode(body(writes["z"])["metadata"]["annotations"][RESIZE]) == frees


def test_a_job_whose_record_was_removed_gets_its_next_one_and_no_write_beside_it() -> None:
    stopped = managed(waiting("a", 4), record=resize(4, 0, gen=8, applied=True, until=NOW - 1, attained=90.0))
    (start,) = due(replace(stopped, lost=True), steps=[Admit(A, 4)], free=4).values()
    assert start.record is not None
    assert (start.action, start.record.gen, start.record.attained) == (Action.START, 9, 90.0)


def test_its_author_ends_what_is_under_way_by_its_number() -> None:
    frees = resize(
        4, 2, gen=7, applied=True, beneficiary=B, replicas=2, until=NOW + 60, grants=(grant("p", "n1-2"),)
    )
    a, b = managed(job("a", 2), 4, frees), managed(waiting("b", 2))

    def dropping(gen: int) -> Managed:
        return replace(a, spec=replace(a.spec, dropped=gen))

    assert not due(a, b)
    assert not due(dropping(6), b)
    assert not due(dropping(8), b)
    (write,) = due(dropping(7), b).values()
    assert write.record is not None
    assert (write.action, write.record.until, write.record.grants) == (Action.DROP, 0.0, ())
    assert not due(carried_out(dropping(7), write), b), "it is ended once"


def test_what_is_not_the_engines_is_left_as_it_is() -> None:
    lacks = managed(job("a", 4, active=3))
    for seen in (
        managed(job("a", 4)),
        replace(lacks, rigid="no"),
        replace(lacks, spec=replace(lacks.spec, width_owner="JobSet")),
        replace(lacks, job=replace(lacks.job, succeeded=0, completed_indexes="3")),
        managed(job("a", 4, active=3), record=resize(4, 2, beneficiary=B, replicas=2)),
    ):
        write = taken_back(seen)
        assert write is None or write.action is Action.DROP


def test_each_refusal_in_a_row_doubles_the_pause_and_a_growth_that_succeeded_ends_the_row() -> None:
    seen, pauses = managed(job("a", 4, active=2), record=resize(2, 4, applied=True)), []
    for _ in range(9):
        write = taken_back(seen)
        assert write is not None
        seen = carried_out(seen, write)
        assert seen.record is not None
        pauses.append(seen.paused_until - seen.record.asked)
        (growth,) = due(seen, steps=[Scale(A, 2, 4)], free=2).values()
        assert growth.record is not None
        seen = replace(managed(job("a", 4, active=2)), record=replace(growth.record, applied=True))
        assert seen.paused_until == 0
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    whole = replace(managed(job("a", 4)), record=seen.record)
    (growth,) = due(whole, steps=[Scale(A, 4, 6)], free=2).values()
    assert growth.record is not None
    assert growth.record.refusals == 0


# What is not done


def test_nothing_starts_or_grows_without_room() -> None:
    assert not due(managed(waiting("b", 2)), steps=[Admit(B, 2)], free=1)
    assert not due(managed(job("a", 2)), steps=[Scale(A, 2, 4)], free=1)
    two = [managed(waiting("a", 2)), managed(waiting("b", 2))]
    assert list(due(*two, steps=[Admit(A, 2), Admit(B, 2)], free=3)) == ["a"], (
        "what one takes the other has not"
    )


def test_room_that_went_since_a_growth_was_recorded_ends_it() -> None:
    (drop,) = due(managed(job("a", 2), record=resize(2, 4)), free=1).values()
    assert drop.action is Action.DROP
    assert Resize.decode(body(drop)["metadata"]["annotations"][RESIZE]).until == 0


def test_a_job_that_others_give_way_to_starts_after_them() -> None:
    a, b = managed(job("a", 4)), managed(waiting("b", 2))
    assert list(due(a, b, steps=[Scale(A, 4, 2, B), Admit(B, 2)], free=9)) == ["a"]
    record = resize(4, 2, beneficiary=B, replicas=2)
    asked = replace(a, record=record)
    assert [write.action for write in due(asked, b, steps=[Admit(B, 2)], free=1).values()] == [Action.WIDTH]


def test_a_job_that_fits_before_others_have_given_way_to_it_starts_and_nobody_gives() -> None:
    a = managed(job("a", 4), record=resize(4, 2, beneficiary=B, replicas=2))
    b = managed(waiting("b", 2))
    (start,) = due(a, b, steps=[Admit(B, 2)], free=2).values()
    assert (start.action, start.key) == (Action.START, B)
    (drop,) = due(a, carried_out(b, start), free=9).values()
    assert (drop.action, drop.key) == (Action.DROP, A)


def test_a_job_to_which_some_have_given_way_starts_where_it_fits_without_the_others() -> None:
    freed = managed(job("a", 2), record=resize(4, 2, beneficiary=B, replicas=3, applied=True))
    slow = managed(job("c", 4), record=resize(4, 3, beneficiary=B, replicas=3, until=5000.0))
    slow = replace(slow, spec=replace(slow.spec, checkpoint_seconds=3600.0))
    b = managed(waiting("b", 3))
    assert "b" not in due(freed, slow, b, free=2)
    assert list(due(freed, slow, b, free=3)) == ["b"], "nor is the other one asked any more"


def test_all_that_give_way_are_waited_for() -> None:
    shrunk = resize(4, 2, beneficiary=B, replicas=3, applied=True)
    a, c = managed(job("a", 2), record=shrunk), managed(job("c", 2), pods=3, record=shrunk)
    b = managed(waiting("b", 3))
    assert not due(a, b, c, free=9)
    assert due(a, b, replace(c, pods=c.pods[:2]), free=9)["b"].action is Action.START


def of_group(name: str, role: str, width: int = 1) -> Managed:
    made = waiting(name, width)
    return replace(managed(made), spec=spec(made, group="g", joint=True, role=role))


def test_jobs_of_a_group_start_together_by_role_or_not_at_all() -> None:
    jobs = [of_group("c", "trainer", 2), of_group("a", "ps"), of_group("b", "master")]
    plan: list[Step] = [Admit(each.key, each.spec.asked) for each in jobs]
    assert not due(*jobs, steps=plan, free=3)
    assert list(due(*jobs, steps=plan, free=4)) == ["b", "a", "c"]
    runs = replace(managed(job("b")), spec=jobs[2].spec)
    assert not due(jobs[0], jobs[1], runs, steps=plan, free=4), "one of them runs by now"


def test_jobs_of_a_group_that_do_not_fit_yet_keep_no_card_from_another_job() -> None:
    asked = managed(job("a", 4), record=resize(4, 2, beneficiary=B, replicas=3, until=5000.0))
    asked = replace(asked, spec=replace(asked.spec, checkpoint_seconds=3600.0))
    group, other = [of_group("b", "master"), of_group("c", "trainer", 2)], managed(waiting("d"))
    plan: list[Step] = [*(Admit(each.key, each.spec.asked) for each in group), Admit(other.key, 1)]
    assert "d" in due(asked, *group, other, steps=plan, free=1)
    assert list(due(asked, *group, other, steps=plan, free=4)) == ["b", "c", "d"], "it fits by now"


def test_what_leaves_for_one_job_of_a_group_is_promised_to_the_pods_of_all_of_them() -> None:
    giver = managed(job("a", 4))
    group = [of_group("b", "master"), of_group("c", "trainer", 2)]
    plan: list[Step] = [Scale(A, 4, 1, B), *(Admit(each.key, each.spec.asked) for each in group)]
    (write,) = due(giver, *group, steps=plan).values()
    assert write.record is not None
    assert (write.record.beneficiary, write.record.replicas) == (B, 3)


def test_what_is_freed_for_one_job_of_a_group_is_for_all_of_them() -> None:
    first, second = of_group("b", "master"), of_group("c", "trainer")
    leaving = managed(job("a", 2), pods=4, record=resize(4, 2, beneficiary=B, replicas=2, applied=True))
    plan: list[Step] = [Admit(B, 1), Admit(("default", "c"), 1)]
    assert not due(leaving, first, second, steps=plan, free=2)
    freed = replace(leaving, pods=leaving.pods[:2])
    assert list(due(freed, first, second, free=2)) == ["b", "c"]
    assert not due(freed, first, second, free=1)


def test_a_group_that_has_changed_since_others_gave_way_to_it_is_planned_anew() -> None:
    first, second = of_group("b", "master"), of_group("c", "trainer")
    freed = managed(job("a", 2), record=resize(4, 2, beneficiary=B, replicas=2, applied=True))
    assert not due(freed, first, second, of_group("d", "ps"), free=3), "one has come"
    two = [replace(each, spec=replace(each.spec, group_jobs=2)) for each in (first, second)]
    assert due(freed, *two, free=2)
    assert not due(freed, two[0], free=2), "one is gone"


def test_the_jobs_of_a_group_share_what_was_promised_beyond_their_least_widths() -> None:
    first, second = of_group("b", "master"), of_group("c", "trainer", 4)
    second = replace(second, spec=replace(second.spec, least=2, most=4))
    freed = managed(job("a", 1), record=resize(5, 1, beneficiary=B, replicas=4, applied=True))
    freed = replace(freed, job=replace(freed.job, parallelism=1, completions=1))
    first = replace(first, spec=replace(first.spec, most=1))
    writes = due(freed, first, second, free=4)
    assert {name: write.record and write.record.after for name, write in writes.items()} == {"b": 1, "c": 3}


def test_no_job_starts_or_changes_to_a_width_that_its_author_has_left_out_since() -> None:
    a = managed(job("a", 2))
    a, b = (replace(each, spec=replace(each.spec, widths=(2, 4))) for each in (a, managed(waiting("b", 2))))
    assert not due(b, steps=[Admit(B, 3)], free=9)
    assert due(b, steps=[Admit(B, 4)], free=9)["b"].width == 4
    for recorded in (resize(2, 3), resize(2, 1, beneficiary=B, replicas=2)):
        assert due(replace(a, record=recorded), b, free=9)["a"].action is Action.DROP
    assert due(replace(a, record=resize(2, 4)), free=9)["a"].action is Action.WIDTH
    rigid = replace(b, rigid="no")
    assert due(rigid, steps=[Admit(B, 3)], free=9)["b"].action is Action.START, "no other one can be written"


def test_what_was_freed_for_a_job_is_used_as_far_as_its_widths_let_it() -> None:
    freed = managed(job("a", 2), record=resize(5, 2, beneficiary=B, replicas=3, applied=True))
    b = managed(waiting("b", 4))
    b = replace(b, spec=replace(b.spec, widths=(1, 2, 4)))
    assert due(freed, b, free=3)["b"].width == 2
    assert not due(freed, replace(b, spec=replace(b.spec, least=4, widths=(4,))), free=3)


def test_the_jobs_of_a_group_share_by_their_widths_what_was_promised_to_them() -> None:
    first, second = of_group("b", "master", 4), of_group("c", "trainer", 4)
    first = replace(first, spec=replace(first.spec, least=1, most=4, widths=(1, 4)))
    second = replace(second, spec=replace(second.spec, least=1, most=4, widths=(1, 2, 4)))
    freed = managed(job("a", 1), record=resize(5, 1, beneficiary=B, replicas=4, applied=True))
    writes = due(freed, first, second, free=4)
    assert {name: write.record and write.record.after for name, write in writes.items()} == {"b": 1, "c": 2}


def test_a_job_of_kueues_is_neither_started_nor_stopped() -> None:
    theirs = replace(managed(waiting("a", 2)), spec=spec(waiting("a", 2), kueue=True))
    assert not due(theirs, steps=[Admit(A, 2)], free=9)
    runs = replace(managed(job("a", 2)), spec=spec(job("a", 2), kueue=True))
    b = managed(waiting("b", 2))
    assert not due(runs, b, steps=[Suspend(A, B), Admit(B, 2)])
    assert due(runs, b, steps=[Scale(A, 2, 1, B), Admit(B, 1)])["a"].action is Action.RECORD


def test_a_shrink_that_would_help_nobody_is_dropped() -> None:
    record = resize(4, 2, beneficiary=B, replicas=2)
    a = managed(job("a", 4), record=record)
    assert due(a)["a"].action is Action.DROP, "it is gone"
    assert due(a, managed(ended(job("b", 2))))["a"].action is Action.DROP
    assert due(a, managed(job("b", 2)))["a"].action is Action.DROP, "it runs"
    later = resize(0, 2, asked=record.asked + 1, applied=True)
    assert due(a, managed(waiting("b", 2), record=later))["a"].action is Action.DROP, "it ran since"


def test_a_job_that_was_stopped_again_is_not_started_by_what_was_freed_before() -> None:
    a = managed(job("a", 2), record=resize(4, 2, beneficiary=B, replicas=2, applied=True))
    b = managed(waiting("b", 2), record=resize(2, 0, asked=1005.0, applied=True))
    assert not due(a, b, free=9)


def test_a_job_with_an_index_that_succeeded_is_not_shrunk() -> None:
    b = managed(waiting("b", 2))
    done = managed(job("a", 4, completed_indexes="3", succeeded=1, active=3))
    plan: list[Step] = [Scale(A, 4, 2, B), Admit(B, 2)]
    assert not due(done, b, steps=plan)
    recorded = replace(done, record=resize(4, 2, beneficiary=B, replicas=2))
    assert due(recorded, b)["a"].action is Action.DROP
    assert due(done, b, steps=[Suspend(A, B), Admit(B, 2)])["a"].action is Action.RECORD, (
        "what succeeded stays"
    )


def test_a_plan_of_before_changes_nothing_that_is_other_now() -> None:
    b = managed(waiting("b", 2))
    plan: list[Step] = [Scale(A, 4, 2, B), Admit(B, 2)]
    for now in (managed(job("a", 3)), managed(waiting("a", 4)), managed(ended(job("a", 4)))):
        assert not due(now, b, steps=plan)
    assert not due(managed(job("a", 4)), managed(job("b", 2)), steps=plan)
    assert not due(steps=plan)
    assert not due(managed(job("a", 4)), b, steps=[Scale(A, 4, 2, B)]), "nobody is admitted"


def test_the_user_wins() -> None:
    b = managed(waiting("b", 2))
    record = resize(4, 2, beneficiary=B, replicas=2)
    for edited in (job("a", 3), waiting("a", 4)):
        assert due(managed(edited, record=record), b)["a"].action is Action.DROP
    grown_again = managed(job("a", 4), record=replace(record, applied=True))
    assert due(grown_again, b)["a"].action is Action.DROP
    assert not due(replace(grown_again, record=replace(record, until=0.0)), b), "once"


def test_each_record_has_a_greater_number_and_a_later_time() -> None:
    old = resize(0, 4, gen=7, asked=NOW + 50, until=NOW, applied=True)
    a = replace(managed(job("a", 4), record=old), checkpoint=Checkpoint(gen=9, until=0, saved=0))
    (write,) = due(a, managed(waiting("b", 1)), steps=[Scale(A, 4, 2, B), Admit(B, 1)]).values()
    assert write.record is not None
    assert (write.record.gen, write.record.asked) == (10, NOW + 51)


def test_a_window_widens_where_there_is_room_and_is_never_made_narrower() -> None:
    split = job("a", 4, completions=16, active=3)
    a = replace(managed(split), spec=spec(split, parts=16))
    wider = due(a, steps=[Window(A, 6)], free=2)["a"]
    assert body(wider)["spec"] == {"parallelism": 6}
    assert wider.record is not None
    assert (wider.record.before, wider.record.after, wider.record.applied) == (4, 6, True)
    assert not due(a, steps=[Window(A, 6)], free=1)
    assert not due(a, steps=[Window(A, 3)], free=2)
    assert not due(a, steps=[Window(A, 4)], free=2), "it is so already"
    stopped = replace(a, job=replace(split, suspend=True, active=0))
    (start,) = due(stopped, steps=[Admit(A, 2)], free=2).values()
    assert body(start)["spec"] == {"suspend": False, "parallelism": 2}


def _granted(of: Job, index: int) -> Pod:
    """A running pod that holds a card of its own."""
    text = grant(f"uid-{of.name}-{index}", f"n1-{index}").encode()
    return replica(of, index, annotations={GRANT: text}, containers=(main({}),))
