"""Who is admitted next: rules Q1 to Q4, shares of queues and users, groups."""

from dataclasses import replace
from typing import Any

import pytest

from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.job import JobPhase, JobState
from device_plugin.core.jobs.plan import Admit, Draft, Refuse
from device_plugin.core.jobs.queue import due_at, in_turn, ordered, places, with_widest
from device_plugin.core.jobs.rules import HOUR, Rules
from device_plugin.core.jobs.spec import Split
from hack.bench.jobs.slots import SlotRoom
from tests.builders.jobs import running, stopped, waiting
from tests.core.jobs.rounds import NOW, RULES, planned, widths

LATELY = NOW - 60


def order(*jobs: JobState, rules: Rules = RULES) -> list[str]:
    draft = Draft(NOW, jobs, SlotRoom(100, sum(job.width for job in jobs)))
    return [
        "+".join(job.spec.key[1] for job in unit) for unit in in_turn(draft, ordered(jobs, NOW, rules), rules)
    ]


def new(name: str, *, since: float = LATELY, **spec: Any) -> JobState:
    return replace(waiting(name, **spec), since=since)


def test_q1_what_fits_runs() -> None:
    jobs = [running("a", 2), new("b", least=2, most=2), new("c")]
    assert widths(jobs, planned(5, *jobs)) == {"a": 2, "b": 2, "c": 1}


def test_q3_what_does_not_fit_waits_in_order_of_its_need() -> None:
    assert order(new("a", least=4, most=4), new("b", least=2, most=2), new("c")) == ["c", "b", "a"]


def test_q3_of_equal_needs_the_oldest_goes_first() -> None:
    assert order(new("a", since=LATELY), new("b", since=LATELY - 1)) == ["b", "a"]


def test_q3_jobs_that_are_expected_to_be_short_go_first_whatever_they_need() -> None:
    known = replace(new("a", most=8, least=8), remaining=60.0)
    longer = stopped("b", attained=2 * HOUR, since=LATELY)
    longest = stopped("c", attained=9 * HOUR, since=LATELY)
    assert order(longest, longer, known) == ["a", "b", "c"]


def test_q3_who_has_waited_or_was_stopped_for_too_long_goes_first() -> None:
    aged = new("aged", since=NOW - RULES.age_s - 2, most=9, least=9)
    older = stopped("older", since=NOW - RULES.stop_s - 5, attained=100 * HOUR)
    fresh = stopped("fresh", since=NOW - RULES.stop_s + 5, attained=100 * HOUR)
    assert order(fresh, new("new"), aged, older) == ["older", "aged", "new", "fresh"]


@pytest.mark.parametrize(
    ("width", "most", "ran_s", "limit"),
    [
        (8, 8, 2 * HOUR, 2 * HOUR),
        (8, 8, 60.0, RULES.age_s),
        (8, 8, 20 * HOUR, RULES.stop_s),
        (8, 12, 2 * HOUR, RULES.elastic_stop_s),
        (1, 1, RULES.quantum_s, RULES.stop_s),
        (1, 1, RULES.quantum_s - 1, RULES.age_s),
    ],
)
def test_q3_the_widest_rigid_job_is_stopped_for_no_longer_than_it_ran(
    width: int, most: int, ran_s: float, limit: float
) -> None:
    job = stopped("job", since=NOW, least=width, most=most, attained=ran_s * width)
    assert due_at(replace(job, widest=True), RULES) == NOW + limit
    assert due_at(job, RULES) == NOW + RULES.stop_limit(job.spec)


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
def test_q4_of_equal_queues_that_whose_job_waits_longer_goes_first_whatever_its_name(
    first: str, second: str
) -> None:
    older = new("older", since=LATELY - 5, queue=first, most=8, least=8)
    assert order(older, new("newer", since=LATELY, queue=second)) == ["older", "newer"]
    due = new("due", since=NOW - RULES.age_s, queue=second)
    assert order(older, due) == ["due", "older"]


def test_q3_the_widest_is_the_stopped_job_that_needs_more_than_each_other_that_waits() -> None:
    wide, small, runs = stopped("wide", least=8, most=8), new("small", least=4, most=4), running("runs", 9)

    def widest(*jobs: JobState) -> list[str]:
        return [job.spec.key[1] for job in with_widest(jobs) if job.widest]

    assert widest(small, wide, runs) == widest(wide) == ["wide"]
    assert widest(wide, new("equal", least=8, most=8)) == []
    assert widest(wide, new("wider", least=9, most=9)) == []
    assert widest(runs) == widest() == []


def test_q3_a_split_that_was_stopped_waits_for_its_whole_time() -> None:
    job = stopped("job", since=NOW, least=2, most=8, parts=8, attained=2 * HOUR)
    assert due_at(replace(job, widest=True), RULES) == NOW + RULES.stop_s


def test_q3_cards_are_kept_for_the_oldest_beyond_its_hour() -> None:
    busy = running("busy", 6, since=LATELY)
    large = new("large", least=4, most=4, since=NOW - RULES.age_s)
    small = new("small")
    assert widths([busy, large, small], planned(8, busy, large, small))["small"] == 0
    young = replace(large, since=NOW - RULES.age_s + 1)
    assert widths([busy, young, small], planned(8, busy, young, small))["small"] == 1


def test_q3_no_cards_are_kept_where_other_pods_are_in_the_way() -> None:
    large, small = new("large", least=8, most=8, since=NOW - RULES.age_s), new("small")
    room = SlotRoom(8, held=3)
    assert plan_round(NOW, [large, small], room, RULES).steps == (Admit(small.spec.key, 1),)


@pytest.mark.parametrize(
    ("blocker", "kept"),
    [
        (running("blocker", 1, since=NOW - RULES.quantum_s + 1, queue="mine"), True),
        (running("blocker", 1, since=NOW - RULES.quantum_s, queue="mine"), True),
        (replace(running("blocker", 1, since=NOW - RULES.quantum_s), held=True), True),
        (running("blocker", 1, since=NOW - RULES.quantum_s + 1, user="large"), True),
        (running("blocker", 1, since=NOW - RULES.quantum_s, user="large"), False),
        (running("blocker", 1, least=1, most=9, parts=9, since=NOW - RULES.quantum_s), False),
        (running("blocker", 1, since=NOW - RULES.turn_s, queue="mine", user="other"), True),
    ],
)
def test_q3_cards_are_kept_whatever_is_in_the_way_but_jobs_of_the_same_user(
    blocker: JobState, kept: bool
) -> None:
    large = new("large", least=4, most=4, queue="a", user="large", since=NOW - 100 * RULES.age_s)
    small = new("small", queue="b", user="other")
    after = widths([blocker, large, small], planned(4, blocker, large, small))
    assert (after["large"], after["small"]) == (0, 0 if kept else 1)


def test_q4_what_no_empty_pool_holds_is_refused_and_is_looked_at_again_when_nodes_come() -> None:
    job = new("large", least=9, most=9)
    (refused,) = planned(8, job).steps
    assert isinstance(refused, Refuse)
    assert refused.text == "needs 9 replicas, and 8 fit even if nothing else runs: ask for fewer"
    known = replace(job, phase=JobPhase.REFUSED)
    assert planned(8, known).steps == ()
    assert planned(9, known).steps == (Admit(job.spec.key, 9),)


def test_q4_what_fits_no_card_is_refused() -> None:
    (refused,) = planned(0, new("a")).steps
    assert isinstance(refused, Refuse)
    assert refused.text == "no node could hold one replica even if nothing else ran: ask for less"


def test_higher_priorities_go_first() -> None:
    assert order(new("a"), new("b", priority=5, least=3, most=3), new("c", priority=9)) == ["c", "b", "a"]


def test_queues_share_by_weight() -> None:
    jobs = [new(f"{queue}{n}", queue=queue) for n in range(4) for queue in ("a", "b")]
    rules = Rules(weights={"b": 3.0})
    chosen = widths(jobs, planned(4, *jobs, rules=rules))
    assert sum(width for name, width in chosen.items() if name.startswith("a")) == 1
    assert sum(width for name, width in chosen.items() if name.startswith("b")) == 3


def test_users_of_a_queue_with_less_service_go_first() -> None:
    busy = running("busy", 1, user="ann", attained=50 * HOUR)
    assert order(busy, new("a", user="ann"), new("b", user="bob", least=2, most=2)) == ["b", "a"]


def of_users(*users: str, **spec: Any) -> list[JobState]:
    """Forty equal jobs of each user, of whom the first one's are the oldest and the first by name."""
    return [
        new(f"{user}{n}", user=user, since=LATELY + number, **spec)
        for number, user in enumerate(users)
        for n in range(40)
    ]


@pytest.mark.parametrize("late", [0.0, 9 * HOUR])
@pytest.mark.parametrize("cards", [2, 6, 16])
def test_equal_users_of_a_queue_take_turns_in_a_round(cards: int, late: float) -> None:
    jobs = [replace(job, since=job.since - late) for job in of_users("ann", "bob")]
    chosen = widths(jobs, planned(cards, *jobs))
    assert sum(width for name, width in chosen.items() if name.startswith("ann")) == cards / 2
    assert sum(width for name, width in chosen.items() if name.startswith("bob")) == cards / 2


def test_of_users_with_equal_service_that_one_goes_first_that_has_fewer_cards_now() -> None:
    jobs = [running("ann", 3, user="ann"), *of_users("ann", "bob")]
    chosen = widths(jobs, planned(8, *jobs))
    assert sum(width for name, width in chosen.items() if name.startswith("bob")) == 4


def test_a_split_has_no_more_turns_in_a_round_than_the_jobs_of_an_equal_user() -> None:
    split, *_ = jobs = [new("s", user="ann", most=40, parts=40), *of_users("bob")]
    assert widths(jobs, planned(16, *jobs))["s"] == 8
    assert widths([split], planned(16, split))["s"] == 16


def test_places_say_that_users_take_turns() -> None:
    found = {key[1]: place for key, place in places(of_users("ann", "bob"), NOW, RULES).items()}
    assert sorted(found, key=found.__getitem__)[:4] == ["ann0", "bob0", "ann1", "bob1"]
    assert sorted(found.values()) == [*range(1, 81)]


def test_q3_thousands_of_jobs_that_wait_for_long_pass_no_user_with_less_service() -> None:
    busy = running("busy", 4, user="ann", attained=50 * HOUR)
    old = [new(f"a{number}", user="ann", since=NOW - 9 * HOUR) for number in range(4000)]
    late, young = new("late", user="bob", since=NOW - 2 * HOUR), new("young", user="bob")
    assert order(busy, *old, late, young)[:2] == ["late", "a0"]


def group(name: str, role: str, **spec: Any) -> JobState:
    return new(name, group="g", joint=True, group_size=4, role=role, **spec)


def test_e2_a_group_starts_when_all_of_its_jobs_fit_together() -> None:
    jobs = [group("m", "master"), group("p", "ps"), group("t", "trainer", least=2, most=6)]
    assert planned(6, running("busy", 3, since=LATELY), *jobs).steps == ()
    assert widths(jobs, planned(6, *jobs)) == {"m": 1, "p": 1, "t": 4}


def test_e2_a_group_waits_for_jobs_that_do_not_exist_yet() -> None:
    jobs = [group("m", "master"), group("t", "trainer", least=2, most=6)]
    assert planned(8, *jobs).steps == ()


def test_e2_a_group_that_was_stopped_starts_again_when_all_of_its_jobs_have_stopped() -> None:
    first = stopped("m", group="g", joint=True, since=LATELY)
    second = stopped("t", group="g", joint=True, since=LATELY)
    leaving = replace(second, phase=JobPhase.STOPPING)
    assert planned(8, first, leaving).steps == ()
    assert widths([first, second], planned(8, first, second)) == {"m": 1, "t": 1}


def test_e1_a_group_whose_jobs_contradict_each_other_is_refused() -> None:
    trainer = group("t", "trainer")
    jobs = [group("m", "master"), replace(trainer, spec=replace(trainer.spec, group_size=3))]
    steps = planned(8, *jobs).steps
    texts = {step.text for step in steps if isinstance(step, Refuse)}
    assert (len(steps), len(texts)) == (2, 1)
    assert "say that group g has 4 and 3 pods that start together" in texts.pop()


def test_q4_a_group_that_no_empty_pool_holds_is_refused_and_is_looked_at_again_when_nodes_come() -> None:
    jobs = [group("m", "master"), group("t", "trainer", least=3, most=3)]
    (first, second) = planned(3, *jobs).steps
    assert isinstance(first, Refuse)
    assert isinstance(second, Refuse)
    assert first.text == second.text == (
        "the Jobs of group g need more cards together than all nodes have: write smaller minima, or ask for less"
    )  # fmt: skip
    known = [replace(job, phase=JobPhase.REFUSED) for job in jobs]
    assert planned(3, *known).steps == ()
    assert widths(known, planned(4, *known)) == {"m": 1, "t": 3}


def test_q4_a_group_that_ran_before_waits_for_its_nodes() -> None:
    jobs = [replace(group(name, "trainer", least=2, most=2), phase=JobPhase.STOPPED) for name in ("a", "b")]
    assert planned(3, *jobs).steps == ()


def part(number: int, **spec: Any) -> JobState:
    """A sub-task that is a Job of its own."""
    return new(f"s{number}", split_of="s", part=number, **({"split": Split.ORDERED} | spec))


def test_q2_sub_tasks_that_contradict_each_other_are_refused() -> None:
    texts = {
        step.text for step in planned(8, part(1), part(2, split=Split.ANY)).steps if isinstance(step, Refuse)
    }
    assert len(texts) == 1
    assert "have different vgpu.io/split" in texts.pop()


@pytest.mark.parametrize("parts", [4, 16])
def test_q2_a_split_job_runs_as_many_sub_tasks_as_fit(parts: int) -> None:
    job = new("s", most=parts, parts=parts)
    assert widths([job], planned(3, job)) == {"s": 3}
    assert widths([job], planned(32, job)) == {"s": parts}


def test_places_are_those_of_each_queue_and_a_group_has_one() -> None:
    members = [
        new(name, queue="other", group="g", joint=True, group_size=2, priority=priority)
        for name, priority in (("g1", 5), ("g2", 5))
    ]
    alone = new("alone", queue="other", group="half", joint=True, group_size=2)
    jobs = [running("r", 2), new("a", least=4, most=4), new("b"), new("c", queue="other"), *members, alone]
    found = {key[1]: place for key, place in places(jobs, NOW, RULES).items()}
    assert found == {"b": 1, "a": 2, "g1": 1, "g2": 1, "c": 2}
