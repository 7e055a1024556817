"""Cards reserved for jobs that are due: which ones, for whom, and what starts beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from device_plugin.core.contract.grants import Grant
from device_plugin.core.jobs.delay import LONGEST_S
from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.job import JobState
from device_plugin.core.jobs.plan import Admit, Plan
from device_plugin.core.jobs.reservation import BEHIND_OTHERS, FIRST_STEPS, MOST_RESERVED, TOO_DEAR
from device_plugin.core.jobs.room import LedgerRoom
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from tests.builders.cards import inventory
from tests.builders.jobs import running, stopped, waiting
from tests.builders.requests import whole_request
from tests.core.jobs.rounds import NOW, RULES, planned

LONG_AGO = NOW - LONGEST_S


def due(name: str, width: int, *, since: float = LONG_AGO, **spec: Any) -> JobState:
    """A rigid job that has waited for long."""
    return replace(waiting(name, least=width, most=width, **spec), since=since)


def new(name: str, width: int = 1, **spec: Any) -> JobState:
    return due(name, width, since=NOW - 60, **spec)


def ending(name: str, width: int, seconds: float, **spec: Any) -> JobState:
    """A running job that is known to end in `seconds`."""
    job = running(name, width, since=NOW - 60, attained=60.0 * width, **spec)
    return replace(job, remaining=seconds * width**job.exponent)


def started(plan: Plan) -> set[str]:
    return {step.job[1] for step in plan.steps if isinstance(step, Admit)}


def on_nodes(nodes: int, each: int, held: Mapping[str, Sequence[JobState]], *more: JobState) -> Plan:
    """The plan of a round on `nodes` nodes n0, n1 … of `each` cards; by node, the jobs that lie there."""
    ledger = Ledger()
    for number in range(nodes):
        ledger.set_node(f"n{number}", inventory(f"n{number}", each))
    placer, replicas = Placer(ledger), {}
    for node, jobs in held.items():
        for job in jobs:
            replicas[job.spec.key] = [f"{job.spec.key[1]}-{n}" for n in range(job.width)]
            for holder in replicas[job.spec.key]:
                grant = placer.place(replace(job.spec.request, pod=holder), (node,))
                assert isinstance(grant, Grant)
                ledger.hold(grant)
    jobs = [job for each_ in held.values() for job in each_]
    return plan_round(NOW, [*jobs, *more], LedgerRoom(ledger, placer, replicas), RULES)


def test_a_due_job_starts_first_by_the_known_ends_and_the_next_ones_wait_for_it() -> None:
    jobs = [ending("a", 2, 600.0), ending("b", 3, 1200.0), ending("c", 3, 9000.0)]
    late = due("late", 6)
    plan = planned(9, *jobs, late, new("small"))
    assert plan.reserved[late.spec.key].start == pytest.approx(NOW + 1200.0)
    assert started(plan) == set()
    assert started(planned(9, *jobs, replace(late, since=NOW - RULES.age_s + 1), new("small"))) == {"small"}


@pytest.mark.parametrize("needed", [1, 2, FIRST_STEPS, FIRST_STEPS + 1, FIRST_STEPS**2 + 1, 100])
def test_it_starts_at_the_first_of_many_ends_that_are_enough(needed: int) -> None:
    jobs = [ending(f"j{number}", 1, 100.0 * number) for number in range(1, 101)]
    late = due("late", needed)
    assert planned(100, *jobs, late).reserved[late.spec.key].start == pytest.approx(NOW + 100.0 * needed)


@pytest.mark.parametrize(
    ("remaining", "starts"),
    [(None, False), (1100.0, True), (1300.0, False)],
    ids=["unknown", "ends before", "too long"],
)
def test_behind_it_starts_what_is_known_to_end_before(remaining: float | None, *, starts: bool) -> None:
    small = replace(new("small"), remaining=remaining)
    plan = planned(8, ending("a", 7, 1200.0), due("late", 8), small)
    assert (started(plan) == {"small"}) is starts
    assert ("default", "late") in plan.reserved


@pytest.mark.parametrize(("node", "starts"), [("n0", set()), ("n1", {"other"})])
def test_a_job_that_gives_way_leaves_reserved_cards_to_the_reservation(node: str, starts: set[str]) -> None:
    """A job of a lower priority runs on reserved cards until then; who may stop it may not take these."""
    block = due("block", 1, request=whole_request("", 4), cards=4.0, priority=1)
    low = ending("low", 1, 600.0, priority=-1)
    held = {"n0": [ending("a", 3, 900.0, priority=1)], "n1": [ending("b", 3, 90_000.0, priority=1)]}
    for each, jobs in held.items():
        jobs.append(low if each == node else ending("high", 1, 800.0, priority=1))
    plan = on_nodes(2, 4, held, block, new("other"))
    assert plan.reserved[block.spec.key].nodes == ("n0",)
    assert started(plan) == starts


def test_a_reserved_job_starts_in_the_round_in_which_its_last_cards_are_given() -> None:
    low = running("low", 4, since=NOW - 60, priority=-1)
    plan = planned(4, low, due("late", 2, preempts=False), new("other", 2))
    assert started(plan) == {"late", "other"}
    assert not plan.reserved


def test_whoever_ran_longer_than_declared_is_not_believed() -> None:
    liar = running("liar", 1, since=NOW - 60, user="liar", expected_seconds=10.0)
    for user, starts in (("liar", set()), ("honest", {"small"})):
        small = replace(new("small", user=user, expected_seconds=60.0), remaining=60.0)
        plan = planned(9, ending("a", 7, 1200.0), liar, due("late", 8), small)
        assert started(plan) == starts


def test_what_touches_no_reserved_card_starts() -> None:
    """A job of 4 cards on one node waits for one of two nodes: all other cards are for use."""
    block = due("block", 1, request=whole_request("", 4), cards=4.0)
    held = {"n0": [ending("a", 3, 900.0)], "n1": [ending("b", 3, 90_000.0)]}
    plan = on_nodes(2, 4, held, block, new("x"), new("y"))
    assert plan.reserved[block.spec.key].nodes == ("n0",)
    assert plan.reserved[block.spec.key].start == pytest.approx(NOW + 900.0)
    assert len(started(plan)) == 1, "the fourth card of n1"


def test_one_due_job_that_needs_a_node_does_not_keep_the_pool() -> None:
    """Ten nodes of 8 cards, of which 70 are idle: a card of each node runs a job of which no end is known."""
    held = {f"n{n}": [running(f"r{n}", 1, since=NOW - 3000.0 - n)] for n in range(10)}
    block = due("block", 1, since=NOW - 2 * RULES.age_s, request=whole_request("", 8), cards=8.0)
    plan = on_nodes(10, 8, held, block, *(new(f"s{n:02}") for n in range(40)))
    assert len(started(plan)) == 40
    told = plan.reserved.get(block.spec.key)
    assert told is not None or plan.unreserved[block.spec.key] == TOO_DEAR
    # After some hours the cards of one node are worth it, and of one node only.
    patient = replace(block, since=NOW - 40 * RULES.age_s)
    few = on_nodes(10, 8, held, patient, *(new(f"s{n:02}") for n in range(4)))
    assert few.reserved[block.spec.key].start == inf
    assert len(few.reserved[block.spec.key].nodes) == 1
    assert len(started(few)) == 4


def test_several_due_jobs_have_cards_of_their_own() -> None:
    held = {"n0": [ending("a", 1, 900.0)], "n1": [ending("b", 1, 1800.0)], "n2": [ending("c", 1, 1e6)]}
    blocks = [
        due(f"block{n}", 1, since=LONG_AGO - n, request=whole_request("", 4), cards=4.0) for n in (1, 0)
    ]
    plan = on_nodes(3, 4, held, *blocks, *(new(f"s{n}") for n in range(9)))
    assert [plan.reserved[block.spec.key].nodes for block in blocks] == [("n0",), ("n1",)]
    assert len(started(plan)) == 3, "those of n2"


def test_all_due_jobs_beyond_a_few_have_a_reason() -> None:
    jobs = [due(f"d{n:02}", 3, since=LONG_AGO - n, user=f"u{n}") for n in range(MOST_RESERVED + 3)]
    plan = planned(100, ending("a", 98, 900.0), *jobs)
    assert len(plan.reserved) == MOST_RESERVED
    assert list(plan.unreserved.values()) == [BEHIND_OTHERS] * 3


def test_a_stopped_job_that_is_due_has_a_reservation() -> None:
    for elastic, limit in ((False, RULES.stop_s), (True, RULES.elastic_stop_s)):
        spec = {"least": 8, "most": 12 if elastic else 8}
        back = stopped("back", since=NOW - limit, attained=8 * limit, **spec)
        plan = planned(12, ending("a", 7, 1200.0), back)
        assert back.spec.key in plan.reserved
        assert planned(12, ending("a", 7, 1200.0), replace(back, since=back.since + 1)).reserved == {}


def test_a_split_gives_up_all_but_its_least_sub_tasks_to_a_due_job() -> None:
    split = running("split", 4, least=1, most=16, parts=16, since=NOW - 600)
    plan = planned(7, split, due("late", 4))
    assert ("default", "late") in plan.reserved
    assert started(plan) == set()
    assert not [step for step in plan.steps if step.job == split.spec.key], "it takes none of the free cards"
