"""Groups of Jobs: what all of them agree on, and what is said where they do not."""

import random
from dataclasses import replace
from typing import Any

import pytest

from device_plugin.core.jobs.groups import group_problem, undeclared, waiting_for_others
from device_plugin.core.jobs.job import JobPhase, JobSpec, JobState
from tests.builders.written_jobs import ELASTIC, spec, template


def member(role: str, size: str = "", **fields: Any) -> JobSpec:
    """The Job of a role of group g, which has `jobs` of them: one master, one server, and trainers from 2 to 8."""
    labels = {"group": "g", "group-size": size} if size else {"group": "g"}
    queue, jobs = fields.pop("queue", "default"), fields.pop("jobs", "3")
    number = {"group-jobs": jobs} if jobs else {}
    count = {} if role == "trainer" else {"parallelism": 1, "completions": 1}
    made: dict[str, Any] = {"name": role, "template": template(labels=labels), **count, **fields}
    bounds = ELASTIC if role == "trainer" else {}
    return spec({"queue": queue, "group": "g", "role": role}, {**bounds, **number}, **made)


def group(size: str = "") -> list[JobSpec]:
    jobs = [member(role, size) for role in ("master", "ps", "trainer")]
    random.Random(size).shuffle(jobs)
    return jobs


@pytest.mark.parametrize("size", ["", "4"])
def test_a_group_that_agrees(size: str) -> None:
    assert group_problem(group(size)) == ""
    assert undeclared(group(size)) == 0


def test_pods_of_jobs_that_do_not_exist_yet() -> None:
    assert undeclared([member("master", "4", jobs="")]) == 3
    assert undeclared([member("master", "4", jobs=""), member("trainer", "4", jobs="")]) == 1
    assert undeclared([]) == 0


def test_pods_without_cards_are_not_counted() -> None:
    master = member("master", template=template({}, labels={"group": "g"}), jobs="2")
    jobs = [master, member("trainer", "2", jobs="")]
    assert (group_problem(jobs), undeclared(jobs)) == ("", 0)


def test_jobs_that_do_not_exist_yet() -> None:
    assert [undeclared(group()[:count]) for count in (1, 2, 3)] == [2, 1, 0]
    unsaid = spec({"queue": "default", "group": "g"}, name="other")
    assert undeclared([unsaid, member("ps")]) == 1, "one that does not say how many counts"


def test_jobs_that_do_not_agree_how_many_they_are() -> None:
    assert group_problem([member("ps"), member("trainer", jobs="2")]) == (
        "Jobs ps and trainer say that group g has 3 and 2 Jobs: write one vgpu.io/group-jobs on all of them"
    )
    more = [*group(), member("trainer", name="more")]
    assert group_problem(more) == (
        "vgpu.io/group-jobs of group g is 3, but it has 4 Jobs: write 4 on all of them, or another vgpu.io/group on"
        " some"
    )


def test_what_a_job_of_a_group_waits_for() -> None:
    def told(*jobs: JobState) -> dict[str, str]:
        return {key[1]: text for key, text in waiting_for_others(jobs).items()}

    states = {role: JobState(spec=member(role)) for role in ("master", "ps", "trainer")}
    assert told(states["master"]) == {"master": "2 more Jobs of group g"}
    runs = replace(states["ps"], phase=JobPhase.RUNNING, width=1)
    assert told(states["master"], runs) == {"master": "1 more Job of group g"}
    assert told(*states.values()) == {}
    assert told(JobState(spec=member("ps", "3", jobs=""))) == {"ps": "2 more pods of group g"}
    assert told(JobState(spec=spec())) == {}


def test_two_jobs_of_one_group_with_different_sizes() -> None:
    jobs = [member("ps", "4"), member("trainer", "3")]
    assert group_problem(jobs) == (
        "the pods of Jobs ps and trainer say that group g has 4 and 3 pods that start together: write one"
        " vgpu.io/group-size on all of them, or none"
    )
    assert "group g has no and 3 pods" in group_problem([member("ps"), member("trainer", "3")])


def test_a_group_that_is_larger_than_its_size() -> None:
    assert "vgpu.io/group-size of group g is 3, but its Jobs need 4 pods at least: write 4" in group_problem(
        group("3")
    )


def test_a_group_that_is_larger_than_a_gang_may_be() -> None:
    jobs = [
        member("ps", parallelism=600, completions=600),
        member("master", parallelism=600, completions=600),
    ]
    assert group_problem(jobs) == "group g needs 1200 pods at least: write smaller minima, 1024 in all"


def test_jobs_of_one_group_in_two_queues() -> None:
    found = group_problem([member("ps"), member("trainer", queue="other")])
    assert (
        "Jobs ps and trainer of group g wait in the queues default and other: write one vgpu.io/queue"
        in found
    )


def test_jobs_whose_pods_alone_name_one_group() -> None:
    alone = [
        spec(name=name, template=template(labels={"group": "g", "group-size": "2"}))
        for name in ("one", "two")
    ]
    assert group_problem(alone[:1]) == ""
    found = group_problem(alone)
    assert "the pods of Jobs one and two are of one group, g, but the Jobs are not: write the label" in found
