"""Room for a job that does not fit: rules R2 and R5, priorities, turns."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.job import JobPhase, JobState
from device_plugin.core.jobs.plan import Admit, Scale, Suspend, Window
from device_plugin.core.jobs.room import LedgerRoom
from device_plugin.core.jobs.rules import HOUR, Rules
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.requests import PodRequest
from tests.builders.cards import inventory
from tests.builders.jobs import running, stopped, waiting
from tests.builders.requests import whole_request
from tests.core.jobs import rounds
from tests.core.jobs.rounds import NOW, widths

LATELY = NOW - 60
# Whom jobs give way to is the concern of test_consent: here all of them consent.
RULES = Rules(resumable=True)
planned = partial(rounds.planned, rules=RULES)


def new(name: str, **spec: Any) -> JobState:
    return replace(waiting(name, **spec), since=LATELY)


def test_r2_one_job_shrinks_by_what_is_needed() -> None:
    wide, job = running("wide", 16, least=1, most=16), new("new")
    assert planned(16, wide, job).steps == (
        Scale(wide.spec.key, 16, 15, job.spec.key),
        Admit(job.spec.key, 1),
    )
    large = new("large", least=7, most=7)
    assert widths([wide, large], planned(16, wide, large)) == {"wide": 9, "large": 7}


def test_r2_the_fewest_shrink() -> None:
    jobs = [running(name, width, least=1, most=8) for name, width in (("a", 3), ("b", 8), ("c", 4))]
    job = new("new", least=6, most=6)
    assert widths([*jobs, job], planned(15, *jobs, job)) == {"a": 3, "b": 2, "c": 4, "new": 6}
    larger = new("new", least=9, most=9)
    assert widths([*jobs, larger], planned(15, *jobs, larger)) == {"a": 3, "b": 1, "c": 2, "new": 9}


def test_r2_nobody_shrinks_if_it_admits_nobody() -> None:
    jobs = [running("a", 8, least=4, most=8, since=LATELY), new("new", least=5, most=5)]
    assert planned(8, *jobs).steps == ()


def test_r2_one_shrink_makes_room_for_many() -> None:
    wide = running("wide", 128, least=1, most=128)
    for count, width in ((1, 127), (64, 64), (127, 1)):
        plan = planned(128, wide, *(new(f"s{n:02}") for n in range(count)))
        assert [step.after for step in plan.steps if isinstance(step, Scale)] == [width]
        assert sum(isinstance(step, Admit) for step in plan.steps) == count


def test_r2_of_several_nodes_only_replicas_shrink_whose_cards_are_of_use() -> None:
    """Each job's last replica is on a node of its own, and the new job needs two cards of one node."""
    ledger = Ledger()
    for node, count in (("a", 2), ("b", 3)):
        ledger.set_node(node, inventory(node, count))
    placer = Placer(ledger)
    jobs, replicas = [], {}
    for name, node, width in (("far", "a", 2), ("near", "b", 3)):
        job = running(name, width, least=1, most=width)
        replicas[job.spec.key] = [f"{name}-{n}" for n in range(width)]
        for holder in replicas[job.spec.key]:
            grant = placer.place(replace(whole_request(holder, 1)), (node,))
            ledger.hold(grant)  # type: ignore[arg-type]
        jobs.append(job)
    pair = replace(new("pair").spec, request=whole_request("", 2), cards=2.0)
    plan = plan_round(
        NOW, [*jobs, JobState(spec=pair, since=LATELY)], LedgerRoom(ledger, placer, replicas), RULES
    )
    assert plan.steps == (Scale(("default", "near"), 3, 1, pair.key), Admit(pair.key, 1))


def test_r5_a_job_shrinks_here_and_another_grows_there_when_that_admits_somebody() -> None:
    """Four cards of one node become free for the new job; the idle cards of other nodes are of no use to it."""
    ledger = Ledger()
    for node, count in (("a", 4), ("b", 3)):
        ledger.set_node(node, inventory(node, count))
    placer = Placer(ledger)
    replicas = {}
    jobs = [running("here", 4, least=1, most=4), running("there", 1, least=1, most=4)]
    for job, node in zip(jobs, ("a", "b"), strict=True):
        replicas[job.spec.key] = [f"{job.spec.key[1]}-{n}" for n in range(job.width)]
        for holder in replicas[job.spec.key]:
            ledger.hold(placer.place(whole_request(holder, 1), (node,)))  # type: ignore[arg-type]
    three = replace(new("block").spec, request=whole_request("", 3), cards=3.0)
    room = LedgerRoom(ledger, placer, replicas)
    plan = plan_round(NOW, [*jobs, JobState(spec=three, since=LATELY)], room, RULES)
    assert plan.steps == (
        Scale(("default", "here"), 4, 1, three.key),
        Admit(three.key, 1),
        Scale(("default", "there"), 1, 3),
    )


def test_a_long_job_is_suspended_for_a_new_one_after_its_quantum() -> None:
    long, job = running("long", 1, since=NOW - RULES.quantum_s, attained=9 * HOUR), new("new")
    assert planned(1, long, job).steps == (Suspend(long.spec.key, job.spec.key), Admit(job.spec.key, 1))
    assert planned(1, replace(long, since=long.since + 1), job).steps == ()


def test_a_job_is_not_suspended_for_one_of_its_own_level() -> None:
    long = running("long", 1, attained=9 * HOUR)
    assert planned(1, long, stopped("other", attained=10 * HOUR, since=LATELY)).steps == ()


def test_the_longest_is_suspended_first_and_shrinking_comes_before_it() -> None:
    jobs = [running("a", 1, attained=5 * HOUR), running("b", 1, attained=50 * HOUR)]
    wide = running("w", 2, least=1, most=2, attained=HOUR)
    assert widths([*jobs, new("x")], planned(2, *jobs, new("x"))) == {"a": 1, "b": 0, "x": 1}
    assert widths([*jobs, wide, new("x")], planned(4, *jobs, wide, new("x"))) == {
        "a": 1,
        "b": 1,
        "w": 1,
        "x": 1,
    }


def test_a_job_that_ran_before_waits_for_the_end_of_a_turn_that_is_as_long_as_the_job_is_old() -> None:
    old = running("old", 1, attained=16 * HOUR, since=NOW - 8 * HOUR)
    back = stopped("back", attained=3 * HOUR, since=NOW - RULES.cooldown_s)
    assert widths([old, back], planned(1, old, back)) == {"old": 0, "back": 1}
    younger = replace(old, since=old.since + 1)
    assert planned(1, younger, back).steps == ()


def test_equals_give_way_to_a_stopped_job_after_a_cooldown() -> None:
    wide, back = running("wide", 4, most=4), stopped("back", since=NOW - RULES.cooldown_s)
    lately = replace(back, since=back.since + 1)
    assert widths([wide, back], planned(4, wide, back)) == {"wide": 3, "back": 1}
    assert planned(4, wide, lately).steps == ()
    assert planned(5, wide, lately).steps == (Admit(back.spec.key, 1),), "it may take a free card at once"
    lower = running("wide", 4, most=4, priority=-1)
    assert widths([lower, lately], planned(4, lower, lately)) == {"wide": 3, "back": 1}


def test_who_was_stopped_for_too_long_goes_before_any_job_after_its_quantum() -> None:
    short = running("short", 1, since=NOW - RULES.quantum_s, attained=2 * HOUR)
    back = stopped("back", attained=500 * HOUR, since=NOW - RULES.stop_s)
    assert widths([short, back], planned(1, short, back)) == {"short": 0, "back": 1}
    lately = replace(short, since=NOW - RULES.due_quantum_s + 1)
    assert planned(1, lately, back).steps == ()


@pytest.mark.parametrize(("priority", "gives"), [(1, True), (0, False), (-1, False)])
def test_higher_priorities_shrink_and_suspend_lower_ones_at_once(priority: int, *, gives: bool) -> None:
    rigid = running("rigid", 2, since=LATELY)
    job = new("new", priority=priority)
    assert bool(planned(2, rigid, job).steps) is gives


def test_a_lower_priority_never_makes_a_higher_one_shrink() -> None:
    wide = running("wide", 8, least=1, most=8, priority=1, attained=500 * HOUR)
    assert planned(8, wide, replace(new("new"), since=0.0)).steps == ()


def test_sub_tasks_are_suspended_for_a_higher_priority_only() -> None:
    split = running("split", 4, most=8, parts=8, attained=500 * HOUR)
    equal, higher = (new("new", least=2, most=2, priority=priority) for priority in (0, 1))
    assert planned(4, split, equal).steps == ()
    assert widths([split, higher], planned(4, split, higher))["split"] == 0


def test_lower_priorities_give_first() -> None:
    low, other = running("low", 4, least=1, most=4, priority=-1), running("other", 8, least=1, most=8)
    chosen = widths([low, other, new("new")], planned(12, low, other, new("new")))
    assert chosen == {"low": 3, "other": 8, "new": 1}


def test_what_was_given_beyond_the_need_goes_to_equal_priorities_before_lower_ones() -> None:
    long = running("long", 4, attained=400 * HOUR, since=NOW - 20 * HOUR)
    polite = new("a-polite", least=2, most=2, preempts=False)
    jobs = [long, polite, new("other", least=2, most=2), new("low", least=2, most=2, priority=-1)]
    assert widths(jobs, planned(4, *jobs)) == {"long": 0, "a-polite": 2, "other": 2, "low": 0}


def test_a_job_that_does_not_preempt_neither_shrinks_nor_suspends_others() -> None:
    jobs = [running("wide", 4, least=1, most=4), running("low", 4, priority=-1)]
    assert planned(8, *jobs, new("new", preempts=False, priority=9)).steps == ()


def test_another_queue_gives_only_what_it_has_beyond_its_share() -> None:
    wide = running("wide", 8, least=1, most=8, queue="a")
    mine = running("mine", 4, queue="b")
    two = new("two", least=2, most=2, queue="b")
    assert widths([wide, mine, two], planned(12, wide, mine, two)) == {"wide": 6, "mine": 4, "two": 2}
    five = new("five", least=5, most=5, queue="b")
    assert planned(12, wide, mine, five).steps == ()
    assert planned(12, wide, mine, five, rules=replace(RULES, weights={"b": 2.0})).steps


def test_what_is_not_the_engines_to_change_gives_nothing() -> None:
    owned = replace(running("owned", 4, least=1, most=4), held=True)
    pending = replace(running("pending", 4, least=1, most=4), phase=JobPhase.STARTING)
    assert planned(8, owned, pending, new("new", priority=1)).steps == ()


def test_e2_a_group_with_a_role_without_cards_starts_together_where_another_job_shrinks() -> None:
    ledger = Ledger()
    ledger.set_node("a", inventory("a", 9))
    placer = Placer(ledger)
    room = LedgerRoom(ledger, placer, {})
    wide = running("wide", 8, least=1, most=8)
    assert room.take(wide.spec, 8)
    more = {"group": "g", "joint": True, "group_size": 3}
    master = new("m", role="master", request=PodRequest("", ()), cards=0.0, **more)
    trainer = new("t", role="trainer", least=3, most=3, **more)
    plan = plan_round(NOW, [wide, master, trainer], room, RULES)
    assert plan.steps == (
        Scale(wide.spec.key, 8, 6, master.spec.key),
        Admit(master.spec.key, 1),
        Admit(trainer.spec.key, 3),
    )


def group(*members: tuple[str, int], **more: Any) -> list[JobState]:
    """The running Jobs of group g, each by its name and its width."""
    spec: dict[str, Any] = {"group": "g", "joint": True} | more
    return [running(name, width, **spec) for name, width in members]


def test_e2_a_group_is_suspended_whole_for_a_higher_priority_though_a_part_would_suffice() -> None:
    jobs, urgent = group(("p", 1), ("t", 3)), new("urgent", priority=1, least=2, most=2)
    assert widths([*jobs, urgent], planned(4, *jobs, urgent)) == {"p": 0, "t": 0, "urgent": 2}


def test_e2_a_master_without_cards_is_suspended_with_its_trainers() -> None:
    ledger = Ledger()
    ledger.set_node("a", inventory("a", 2))
    room = LedgerRoom(ledger, Placer(ledger), {})
    (trainers,) = group(("t", 2))
    (master,) = group(("m", 1), request=PodRequest("", ()), cards=0.0)
    assert room.take(trainers.spec, 2)
    urgent = new("urgent", priority=1)
    assert plan_round(NOW, [master, trainers, urgent], room, RULES).steps == (
        Suspend(master.spec.key, urgent.spec.key),
        Suspend(trainers.spec.key, urgent.spec.key),
        Admit(urgent.spec.key, 1),
    )


def test_e2_a_group_is_suspended_when_the_turn_of_all_its_jobs_is_over() -> None:
    old, young = group(("a", 1), ("b", 1), attained=9 * HOUR, since=NOW - RULES.quantum_s)
    job = new("new")
    assert widths([old, young, job], planned(2, old, young, job)) == {"a": 0, "b": 0, "new": 1}
    assert planned(2, old, replace(young, since=young.since + 1), job).steps == ()


def test_e2_a_group_that_turns_out_not_to_be_needed_is_spared_whole() -> None:
    jobs = [
        *group(("a", 1), ("b", 1), priority=-2),
        running("x", 3, priority=-1),
        running("y", 3, priority=-1),
    ]
    for least, expected in ((7, {"a": 0, "b": 0, "x": 0, "y": 0}), (6, {"a": 1, "b": 1, "x": 0, "y": 0})):
        large = new("large", least=least, most=least)
        assert widths([*jobs, large], planned(8, *jobs, large)) == expected | {"large": least}


def test_e2_a_trainer_shrinks_before_its_group_is_suspended() -> None:
    (servers,), (trainers,) = group(("p", 1)), group(("t", 4), least=1, most=4)
    for least, expected in ((2, {"p": 1, "t": 2}), (4, {"p": 0, "t": 0})):
        job = new("new", priority=1, least=least, most=least)
        found = widths([servers, trainers, job], planned(5, servers, trainers, job))
        assert found == expected | {"new": least}


@pytest.mark.parametrize(
    "change",
    [
        {"phase": JobPhase.RESIZING},
        {"phase": JobPhase.STOPPING},
        {"held": True},
    ],
)
def test_e2_a_group_of_which_one_job_cannot_be_suspended_is_left_running(change: dict[str, Any]) -> None:
    first, second = group(("a", 2), ("b", 2))
    assert planned(4, first, replace(second, **change), new("new", priority=1)).steps == ()


def test_e2_a_group_that_could_not_start_again_is_not_suspended() -> None:
    """A Job of it has ended or was deleted, and its pods wait for those of all of its Jobs."""
    left = group(("t", 3), group_size=4)
    assert planned(3, *left, new("new", priority=1)).steps == ()
    whole = group(("t", 3), ("m", 1), group_size=4)
    assert planned(4, *whole, new("new", priority=1, least=2, most=2)).steps


def test_e2_a_group_makes_no_room_for_its_own_jobs_and_stops_with_none_of_them_started() -> None:
    part, rest = group(("a", 2), attained=500 * HOUR), new("b", group="g", joint=True)
    others = [running("busy", 1, since=LATELY, priority=2), *part, rest]
    assert planned(3, *others).steps == ()
    urgent = new("urgent", priority=1, least=2, most=2)
    assert widths([*others, urgent], planned(3, *others, urgent)) == {"busy": 1, "a": 0, "b": 0, "urgent": 2}


def test_what_kueue_starts_is_not_suspended() -> None:
    assert planned(2, running("theirs", 2, kueue=True), new("new", priority=1)).steps == ()


def test_e2_of_a_group_that_is_suspended_no_other_job_starts_in_that_round() -> None:
    part, rest = group(("a", 3)), new("b", group="g", joint=True)
    urgent = new("urgent", priority=1, least=2, most=2)
    assert widths([*part, rest, urgent], planned(3, *part, rest, urgent)) == {"a": 0, "b": 0, "urgent": 2}


def test_no_job_keeps_the_cards_of_another_queue_by_what_it_tells() -> None:
    ending = replace(running("ending", 4, attained=400 * HOUR, since=NOW - 2 * HOUR), remaining=1.0)
    same, other = new("same", least=4, most=4), new("other", least=4, most=4, queue="other")
    assert planned(6, ending, same).steps == ()
    assert widths([ending, other], planned(6, ending, other)) == {"ending": 4, "other": 0}, (
        "its share is more"
    )
    both = [ending, running("more", 2, since=NOW - 2 * HOUR)]
    assert widths([*both, other], planned(6, *both, other)) == {"ending": 0, "more": 2, "other": 4}


def test_no_job_takes_the_cards_of_another_queue_by_what_it_tells() -> None:
    began = running("began", 6, attained=1.0, since=NOW - 2 * HOUR)
    back = NOW - RULES.cooldown_s
    short = replace(stopped("short", since=back, attained=9 * HOUR, queue="other"), remaining=1.0)
    assert planned(6, began, short).steps == ()
    same = replace(stopped("short", since=back, attained=9 * HOUR, least=3, most=3), remaining=1.0)
    assert planned(6, began, same).steps == ()
    late = replace(began, attained=60 * HOUR, since=NOW - 20 * HOUR)
    assert widths([late, same], planned(6, late, same)) == {"began": 0, "short": 3}


def test_nobody_gives_way_to_a_split_that_gives_way_in_turn() -> None:
    rigid = running("rigid", 2, queue="b", since=LATELY)
    began = NOW - RULES.cooldown_s
    split = replace(running("split", 3, least=1, most=17, parts=17, priority=1, since=began), young=2)
    late = stopped("late", cards=2.0, queue="b", priority=1, since=NOW - 20 * HOUR)
    plan = planned(5, rigid, split, late)
    admitted = {step.job for step in plan.steps if isinstance(step, (Admit, Window))}
    assert admitted
    assert admitted >= {step.beneficiary for step in plan.steps if isinstance(step, (Scale, Suspend))}


def test_a_job_gives_what_its_listed_widths_let_it_give() -> None:
    wide, job = running("wide", 8, least=1, most=8, widths=(1, 2, 4, 8)), new("new", least=2, most=2)
    steps = planned(8, wide, job).steps
    assert steps == (Scale(wide.spec.key, 8, 4, job.spec.key), Admit(job.spec.key, 2))
    assert planned(8, wide, new("one")).steps == (), "three cards would be idled for one"
    two = [new("one"), new("two")]
    assert widths([wide, *two], planned(8, wide, *two)) == {"wide": 4, "one": 1, "two": 1}
    late = replace(new("late"), since=NOW - RULES.age_s)
    assert widths([wide, late], planned(8, wide, late)) == {"wide": 4, "late": 1}


def test_several_jobs_give_by_their_listed_widths() -> None:
    jobs = [running(name, 4, least=1, most=4, widths=(1, 4)) for name in "ab"]
    job = new("new", least=4, most=4)
    assert widths([*jobs, job], planned(8, *jobs, job)) == {"a": 1, "b": 1, "new": 4}


def test_a_job_starts_with_the_listed_width_that_is_asked_for_or_the_smallest() -> None:
    job = new("new", least=2, most=8, asked=4, widths=(2, 4, 8))
    busy = running("busy", 4)
    for cards, width in ((5, 0), (6, 2), (7, 2), (8, 4), (11, 4), (12, 8)):
        assert widths([job, busy], planned(cards, job, busy))["new"] == width
