"""What is known of Jobs and their pods, whatever order the news comes in."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from msgspec import structs

from device_plugin.core.batch import Job, JobCondition
from device_plugin.core.contract.annotations import CHECKPOINT, MAX_INT, POOL, RESIZE
from device_plugin.core.contract.checkpoint import Checkpoint
from device_plugin.core.contract.resize import MAX_REFUSAL
from device_plugin.core.errors import RequestError
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.progress import MOST, ContainerName, Progress, ProgressReport
from device_plugin.core.timestamps import seconds
from device_plugin.state.jobs import GONE_REMEMBERED, KnownJobs
from tests.builders.batch_jobs import job, replica, resize, spec

A = ("default", "a")


def read(of: Job) -> JobSpec:
    if "bad" in of.annotations:
        raise RequestError("write something else")
    return spec(of)


@pytest.fixture
def known() -> KnownJobs:
    return KnownJobs(read)


def test_a_job_only_moves_forward(known: KnownJobs) -> None:
    known.see(job("a", 4, version="12"))
    known.see(job("a", 2, version="9"))
    assert known.managed()[A].job.parallelism == 4
    known.see(job("a", 3, version="100"))
    assert known.managed()[A].job.parallelism == 3


def test_a_job_that_is_gone_does_not_come_back(known: KnownJobs) -> None:
    known.see(job("a"))
    known.gone("uid-a")
    known.see(job("a", version="9"))
    assert known.managed() == {}
    for number in range(GONE_REMEMBERED):
        known.see(job(f"other{number}"))
        known.gone(f"uid-other{number}")
    known.see(job("a", version="9"))
    assert A in known.managed(), "it is not remembered for ever"


def test_after_a_restored_etcd_lower_versions_count_and_the_answers_to_writes_since_then_stay(
    known: KnownJobs,
) -> None:
    known.sync([job("a", 2, version="900000"), job("b", 2, version="900001"), job("c", version="900002")])
    known.gone("uid-c")
    known.doubt()
    known.see(job("b", 3, version="1001"))  # the answer to our write, which the list does not show yet
    known.sync([job("a", 4, version="1000"), job("b", 2, version="999"), job("c", version="998")])
    found = {name: managed.job.parallelism for (_, name), managed in known.managed().items()}
    assert found == {"a": 4, "b": 3, "c": job("c").parallelism}
    known.see(job("a", 2, version="999"))
    assert known.managed()[A].job.parallelism == 4, "from now on the order counts again"


def test_a_job_without_the_label_is_left_alone(known: KnownJobs) -> None:
    known.see(job("a", labels={"vgpu.io/colour": "red"}, annotations={"bad": ""}))
    assert not known.managed()
    assert not known.problems()


def test_a_job_that_leaves_its_queue_is_left_alone(known: KnownJobs) -> None:
    known.see(job("a"))
    known.see(job("a", version="2", labels={}))
    assert known.managed() == {}


def test_what_a_list_does_not_have_is_gone(known: KnownJobs) -> None:
    assert known.why_not_synced() == "jobs and pods of jobs were not listed yet"
    known.sync([job("a"), job("b")])
    known.pods.sync([replica(job("a"), 0), replica(job("b"), 0)])
    known.sync([job("a")])
    known.pods.sync([replica(job("a"), 0)])
    assert list(known.managed()) == [A]
    assert known.why_not_synced() == ""


def test_pods_belong_to_their_job_until_they_have_ended(known: KnownJobs) -> None:
    made = job("a", 3)
    known.pods.see(replica(made, 1))
    known.see(made)
    known.pods.see(replica(made, 0))
    known.pods.see(replica(made, 2))
    assert [pod.index for pod in known.managed()[A].pods] == [0, 1, 2]
    known.pods.see(replica(made, 1, phase="Failed"))
    known.pods.gone("uid-a-2")
    known.pods.gone("nobody")
    assert [pod.index for pod in known.managed()[A].pods] == [0]
    known.pods.see(structs.replace(replica(made, 0), owner="ReplicaSet", uid="x"))
    assert len(known.managed()[A].pods) == 1


def test_a_pod_of_another_namespace_that_names_a_job_as_its_owner_is_none_of_its_pods(
    known: KnownJobs,
) -> None:
    made = job("a")
    known.see(made)
    known.pods.see(replica(made, 0))
    known.pods.see(structs.replace(replica(made, 0), namespace="other", uid="stranger"))
    assert [pod.uid for pod in known.managed()[A].pods] == ["uid-a-0"]
    for at in range(0, 400, 10):
        said = {("other", "a-0-x", "main"): ProgressReport(Progress(at, 1000), at)}
        known.receive("n1", said, float(at))
    assert (known.managed()[A].saved, known.managed()[A].history) == (0, None)
    known.pods.gone("stranger")
    known.pods.gone("uid-a-0")
    assert known.managed()[A].pods == ()


def test_only_what_changes_counts_as_a_change(known: KnownJobs) -> None:
    known.see(job("a"))
    known.pods.see(replica(job("a"), 0))
    before = known.changes
    known.see(job("a"))
    known.pods.see(replica(job("a"), 0))
    known.pods.gone("nobody")
    known.gone("nobody")
    assert known.changes == before


NOISE: tuple[dict[str, Any], ...] = (
    {}, {"annotations": {"kueue.x-k8s.io/colour": "red"}}, {"annotations": {RESIZE: "nonsense"}},
    {"labels": {"vgpu.io/queue": "default", "kueue.x-k8s.io/colour": "red"}}, {"ready": 0}, {"failed": 3},
    {"backoff_limit_per_index": 9},
    {"conditions": (JobCondition("SuccessCriteriaMet"),)},
)  # fmt: skip
NEWS: tuple[dict[str, Any], ...] = (
    {"parallelism": 3}, {"completions": 3}, {"suspend": True}, {"deleting": True}, {"succeeded": 1}, {"active": 1},
    {"terminating": 1}, {"started": "2027-01-15T07:00:00Z"}, {"conditions": (JobCondition("Failed"),)},
    {"annotations": {POOL: "hygon.com/dcu/a"}}, {"annotations": {"bad": ""}},
    {"annotations": {RESIZE: resize(4, 2).encode()}},
)  # fmt: skip


def test_what_no_plan_reads_is_no_change_whoever_writes_it_in_a_loop(known: KnownJobs) -> None:
    known.see(job("a", 2))
    before = known.changes
    for number, fields in enumerate(NOISE, 2):
        known.see(job("a", 2, **{**fields, "version": f"{number}"}))
        assert (known.changes, known.unplanned) == (before, number - 1), fields
        assert known.managed()[A].job.version == f"{number}", "the next write needs the newest"


@pytest.mark.parametrize("fields", NEWS, ids=str)
def test_what_a_plan_reads_is_a_change(known: KnownJobs, fields: dict[str, Any]) -> None:
    known.see(job("a", 2))
    before = known.changes
    known.see(job("a", 2, **{**fields, "version": "2"}))
    assert known.changes == before + 1
    known.see(job("a", 2, version="3"))
    assert known.changes == before + 2


def test_how_long_a_pod_may_wait_for_a_node_is_a_setting() -> None:
    known = KnownJobs(read, stranded_seconds=30.0)
    made, created = job("a"), "2027-01-15T08:00:00Z"
    known.see(made)
    known.pods.see(replica(made, 0, node="", created=created))
    since = seconds(created, 0.0)
    assert [known.managed()[A].stranded(since + age) for age in (29.0, 30.0)] == [0, 1]
    assert list(known.managed()[A].deadlines(since)) == [since + 30.0]


def test_a_record_is_read_with_its_job_and_one_that_cannot_be_read_is_none(known: KnownJobs) -> None:
    known.see(job("a", annotations={RESIZE: "nonsense"}, kept="nonsense"))
    assert (known.managed()[A].record, known.managed()[A].past, known.managed()[A].lost) == (
        None,
        None,
        False,
    )
    record = resize(4, 2, beneficiary=("default", "b"), replicas=1)
    known.see(job("a", version="2", annotations={RESIZE: record.encode()}, kept=record.past.encode()))
    found = known.managed()[A]
    assert (found.record, found.past, found.lost) == (record, record.past, False)


@pytest.mark.parametrize("left", ["", "nonsense", resize(4, 3).encode()])
def test_a_record_that_is_removed_or_replaced_by_an_older_one_is_known_still(
    known: KnownJobs, left: str
) -> None:
    record = resize(4, 2, gen=7, beneficiary=("default", "b"), replicas=1)
    known.see(job("a", annotations={RESIZE: record.encode()}))
    before = known.changes
    known.see(job("a", version="2", annotations={RESIZE: left} if left else {}))
    found = known.managed()[A]
    assert (found.record, found.lost, known.changes) == (record, True, before + 1)
    known.read_again()
    assert known.managed()[A].record == record
    later = resize(2, 4, gen=8)
    known.see(job("a", version="3", annotations={RESIZE: later.encode()}))
    assert (known.managed()[A].record, known.managed()[A].lost) == (later, False)


def test_who_has_not_seen_a_record_takes_its_past_from_the_status(known: KnownJobs) -> None:
    record = resize(4, 2, gen=7, attained=500.0, unsaved=1, beneficiary=("default", "b"), replicas=1)
    known.see(job("a", kept=record.past.encode()))
    found = known.managed()[A]
    assert (found.record, found.lost) == (record.past, True)
    assert found.attained(record.asked) == 500.0
    known.see(job("a", version="2", kept=record.past.encode(), annotations={RESIZE: record.encode()}))
    assert (known.managed()[A].record, known.managed()[A].lost) == (record, False)


def test_a_request_for_a_checkpoint_is_that_of_index_0(known: KnownJobs) -> None:
    made, asked = job("a", 2), Checkpoint(gen=3, until=1000, saved=1)
    known.see(made)
    known.pods.see(replica(made, 1, annotations={CHECKPOINT: asked.encode()}))
    assert known.managed()[A].checkpoint is None
    known.pods.see(replica(made, 0, annotations={CHECKPOINT: asked.encode()}))
    assert known.managed()[A].checkpoint == asked
    known.pods.see(replica(made, 0, annotations={CHECKPOINT: "nonsense"}))
    assert known.managed()[A].checkpoint is None


def test_a_malformed_job_has_a_problem_until_it_is_mended(known: KnownJobs) -> None:
    known.see(job("a", annotations={"bad": ""}))
    assert known.managed() == {}
    assert {key: text for key, (_, text) in known.problems().items()} == {A: "write something else"}
    known.see(job("a", version="2"))
    assert known.problems() == {}
    assert A in known.managed()


def test_a_width_that_may_not_change_is_forgotten_with_its_job(known: KnownJobs) -> None:
    made = job("a")
    known.see(made)
    known.keep_width(made.uid, "no")
    assert known.managed()[A].rigid == "no"
    # It may quote the whole template, which a tenant wrote.
    known.keep_width(made.uid, "x\n" * MAX_REFUSAL)
    assert known.managed()[A].rigid == ("x " * MAX_REFUSAL)[:MAX_REFUSAL].strip()
    known.gone(made.uid)
    known.see(replace(made, uid="another"))
    assert known.managed()[A].rigid == ""


def test_all_jobs_are_read_again_when_what_they_are_read_with_changes() -> None:
    least = 1
    known = KnownJobs(lambda made: spec(made, priority=least))
    known.see(job("a"))
    least = 7
    known.read_again()
    assert known.managed()[A].spec.priority == 7


def told(
    pod: str, checkpoints: int, container: str = "main", namespace: str = "default"
) -> dict[ContainerName, ProgressReport]:
    return {(namespace, pod, container): ProgressReport(None, checkpoints)}


def test_what_an_agent_tells_is_believed_of_the_pods_on_its_node(known: KnownJobs) -> None:
    made = job("a", 2)
    known.see(made)
    known.pods.see(replica(made, 1))
    assert known.managed()[A].received == -inf
    known.pods.see(replica(made, 0))
    known.receive("n2", told("a-0-x", 9), 10.0)
    assert (known.managed()[A].saved, known.managed()[A].received) == (0, -inf)
    known.receive("n1", told("a-1-x", 9) | told("a-0-x", 8, namespace="other") | told("nobody", 7), 20.0)
    assert (known.managed()[A].saved, known.managed()[A].received) == (0, 20.0), "index 0 has told of none"
    known.receive("n1", told("a-0-x", 2) | told("a-0-x", 3, "sidecar"), 30.0)
    assert (known.managed()[A].saved, known.managed()[A].received) == (5, 30.0)


def test_the_time_in_which_a_job_was_stopped_is_no_time_of_work(known: KnownJobs) -> None:
    """Its next pod may have done more at its first report than the last one had at its last."""
    known.see(job("a"))

    def works(pod: str, begins: float, done: int) -> None:
        known.pods.see(structs.replace(replica(job("a"), 0), uid=pod))
        for step in range(61):
            report = ProgressReport(Progress(done + step * 10, 10_000))
            known.receive("n1", {("default", "a-0-x", "main"): report}, begins + step * 10.0)
        known.pods.gone(pod)

    works("first", 0.0, 0)
    works("second", 100_000.0, 605)
    history = known.managed()[A].history
    assert history is not None
    assert history.seconds_left(1) == pytest.approx(10_000 - 1205)


def test_more_checkpoints_than_a_request_can_name_are_cut(known: KnownJobs) -> None:
    known.see(job("a"))
    known.pods.see(replica(job("a"), 0))
    known.receive("n1", told("a-0-x", MOST), 10.0)
    assert known.managed()[A].saved == MAX_INT
    assert Checkpoint.decode(Checkpoint(1, 1, known.managed()[A].saved).encode()).saved == MAX_INT


def test_nodes_are_of_use_while_first_pods_of_queued_jobs_are_bound_to_them(known: KnownJobs) -> None:
    """Hundreds of agents have nothing to tell that would be heard."""
    pod = replica(job("a"), 0)
    known.pods.see(structs.replace(pod, node=""))
    assert not known.on("n1")
    known.pods.see(pod)
    known.pods.see(replica(job("a", 2), 1, node="n2"))
    assert not known.on("n1"), "its Job is in no queue"
    known.see(job("a"))
    assert known.on("n1")
    assert not known.on("n2")
    known.pods.see(structs.replace(pod, uid="newer"))
    known.pods.gone(pod.uid)
    assert known.on("n1"), "another pod has the name now"
    known.pods.see(structs.replace(pod, uid="newer", phase="Succeeded"))
    assert not known.on("n1")


def test_what_programs_tell_is_no_change_but_for_what_a_request_waits_for(known: KnownJobs) -> None:
    record = resize(2, 1, gen=3)
    made = job("a", 2, annotations={RESIZE: record.encode()}, version="2")
    asked = {CHECKPOINT: Checkpoint(gen=3, until=1000, saved=1).encode()}
    known.see(job("a", 2))
    known.pods.see(replica(made, 1))
    known.pods.see(replica(made, 0))
    changes = known.changes
    known.receive("n1", told("a-0-x", 1), 8.0)
    assert known.changes == changes
    known.see(made)
    known.receive("n1", told("a-0-x", 1), 10.0)
    changes = known.changes
    assert changes == 5, "the count before the request"
    known.pods.see(replica(made, 0, annotations=asked))
    known.receive("n1", told("a-0-x", 1), 20.0)
    assert known.changes == changes + 1, "that of the pod"
    known.receive("n1", told("a-0-x", 2), 30.0)
    assert known.changes == changes + 2
    known.receive("n1", told("a-0-x", 3), 40.0)
    known.receive("n1", told("a-1-x", 9), 50.0)
    assert known.changes == changes + 2
    applied = resize(2, 1, gen=3, applied=True)
    known.see(replace(made, version="3", annotations={RESIZE: applied.encode()}))
    known.receive("n1", told("a-0-x", 0), 60.0)
    known.receive("n1", told("a-0-x", 9), 70.0)
    assert known.changes == changes + 3, "that of the Job"


def test_what_is_heard_goes_with_its_pod(known: KnownJobs) -> None:
    made = job("a")
    known.see(made)
    known.pods.see(replica(made, 0))
    known.receive("n1", told("a-0-x", 2), 10.0)
    known.pods.gone("uid-a-0")
    known.pods.see(replica(made, 0))
    assert (known.managed()[A].saved, known.managed()[A].received) == (0, -inf)
