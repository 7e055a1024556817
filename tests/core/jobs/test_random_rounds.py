"""Promises of every plan, over random states: consent, gain against loss, a reservation or a reason, rest."""

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.job import JobKey, JobPhase, JobState
from device_plugin.core.jobs.plan import Admit, Plan, Refuse, Scale, Step, Suspend
from device_plugin.core.jobs.queue import due, with_widest
from device_plugin.core.jobs.room import LedgerRoom, Room
from device_plugin.core.jobs.rules import HOUR, Rules
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from hack.bench.jobs.slots import SlotRoom
from tests.builders.cards import inventory
from tests.core.jobs.rounds import NOW, carried_out
from tests.core.jobs.test_engine import check, random_jobs

STATES = int(os.environ.get("ROUNDS_STATES", "1500"))
# On a ledger a round takes about five times as long.
ON_NODES = max(1, STATES // 5)
ROUNDS = 3

Rooms = Callable[[Sequence[JobState]], Room]
Place = Callable[[random.Random], tuple[Sequence[JobState], int, Rooms]]


def varied(rng: random.Random, job: JobState) -> JobState:
    """The job with what it consents to, and with a past."""
    spec = replace(
        listed(rng, job).spec if rng.random() < 0.5 else job.spec,
        resumable=rng.choice((None, None, True, False)),
        min_runtime=rng.choice((None, None, 0.0, 2 * HOUR)),
    )
    return replace(
        job, spec=spec, started=max(job.since - rng.choice((0, HOUR)), NOW - 20 * HOUR) if job.width else -1.0,
        stopped_s=rng.choice((0.0, 0.0, 5 * HOUR, 12 * HOUR)) if job.width else 0.0,
        displaced=job.phase is JobPhase.STOPPED and rng.random() < 0.5, unanswered=int(rng.random() < 0.1),
    )  # fmt: skip


def listed(rng: random.Random, job: JobState) -> JobState:
    """The job with some of the widths between its bounds; one that runs may have none of them."""
    least, most = job.spec.least, job.spec.most
    if not job.spec.elastic:
        return job
    between = range(least + 1, most)
    chosen = {least, most, *rng.sample(between, min(len(between), rng.randint(0, 3)))}
    if job.width and rng.random() < 0.9:
        chosen.add(job.width)
    widths = tuple(sorted(chosen))
    asked = next(width for width in widths if width >= job.spec.asked)
    return replace(job, spec=replace(job.spec, widths=widths, asked=asked))


def random_rules(rng: random.Random) -> Rules:
    return Rules(
        resumable=rng.random() < 0.3, resumable_queues=frozenset(rng.choice(("", "a"))),
        min_runtime_s=rng.choice((0.0, 0.0, HOUR)), young_s=rng.choice((0.0, 600.0)),
        weights=rng.choice(({}, {"b": 3.0})),
    )  # fmt: skip


def on_slots(rng: random.Random) -> tuple[Sequence[JobState], int, Rooms]:
    """Random jobs, the number of cards, and the room of each round."""
    slots = rng.randint(1, 40)
    jobs = [varied(rng, job) for job in random_jobs(rng, slots, 2)]
    return jobs, slots, lambda jobs: SlotRoom(slots, sum(job.width * int(job.spec.cards) for job in jobs))


def on_nodes(rng: random.Random) -> tuple[Sequence[JobState], int, Rooms]:
    """As `on_slots`, on a few nodes of 4 or 8 cards; replicas ask for 1 card, 2 or 4."""
    ledger, each = Ledger(), rng.choice((4, 8))
    names = [f"n{number}" for number in range(rng.randint(1, 4))]
    for name in names:
        ledger.set_node(name, inventory(name, each))
    placer, jobs = Placer(ledger), list[JobState]()
    rooms = [LedgerRoom(ledger, placer, {})]
    for job in random_jobs(rng, each * len(names), rng.choice((2, 4))):
        if not job.width or rooms[0].take(job.spec, job.width):
            jobs.append(varied(rng, job))

    def room(_: Sequence[JobState]) -> Room:
        rooms.append(LedgerRoom(ledger, placer, rooms[-1].replicas()))
        return rooms[-1]

    return jobs, each * len(names), room


def with_held(rng: random.Random) -> tuple[Sequence[JobState], int, Rooms]:
    """As `on_slots`, but some of the jobs that wait are held."""
    jobs, slots, room = on_slots(rng)
    held = [replace(job, phase=JobPhase.HELD) if job.queued and rng.random() < 0.4 else job for job in jobs]
    return held, slots, room


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("place", "states"), [(on_slots, STATES), (on_nodes, ON_NODES), (with_held, ON_NODES)]
)
def test_every_plan_keeps_its_promises_and_comes_to_rest_in_two_rounds(place: Place, states: int) -> None:
    seed = int(os.environ.get("ROUNDS_SEED", random.randrange(1 << 30)))
    print(f"{states} states, seed {seed}")
    for number in range(states):
        comes_to_rest(seed + number, place)


@pytest.mark.parametrize(
    ("seed", "place"),
    [
        (942962789, on_slots), (500016508, on_slots), (500000435, on_slots), (500134405, on_slots),
        (600008562, on_slots), (600015693, on_slots), (600024054, on_slots), (166744524, on_slots), (80421, on_slots),
        (432760518, on_slots), (30009272, on_slots), (30019175, on_slots), (600004150, on_nodes),
    ],
    ids=[
        "who runs on reserved cards gives them to no other", "a reservation by ends of jobs that were to give",
        "those behind take their least widths", "a reserved job starts at once",
        "no split has more sub-tasks than its most", "a reserved job of a group that stops", "a split starts anew",
        "who begins anew waits for whom the plan stops", "who has just started gives nothing",
        "a reservation ends and its cards are used", "a queue waits no more once its job is admitted beside another",
        "a job that is within its share again goes before a lower priority",
        "a split starts anew on nodes",
    ],
)  # fmt: skip
def test_states_in_which_plans_came_to_no_rest_or_broke_a_promise(seed: int, place: Place) -> None:
    comes_to_rest(seed, place)


def comes_to_rest(seed: int, place: Place) -> None:
    """Raise AssertionError if a plan breaks a promise, or the third one changes anything.

    The third plan may still admit jobs:
    - a job that the second plan stopped, on cards beyond the need: in the plan that stops a job it cannot start;
    - any job, on the cards of a reservation that the third plan makes no more. Here all rounds are at one moment, and a
      job that stopped and started again in it is counted no more in the estimate of the delay (core/jobs/delay.py).
    """
    rng = random.Random(seed)
    rules = random_rules(rng)
    jobs, cards, room = place(rng)
    plans: list[Plan] = []
    try:
        while len(plans) < ROUNDS:
            plans.append(plan_round(NOW, jobs, room(jobs), rules))
            check(jobs, plans[-1], cards)
            promised(jobs, plans[-1], rules)
            jobs = carried_out(jobs, plans[-1], NOW)
        stopped = {step.job for step in plans[-2].steps if isinstance(step, Suspend)}
        released = plans[-2].reserved.keys() - plans[-1].reserved.keys()
        assert all(isinstance(step, Admit) and (released or step.job in stopped) for step in plans[-1].steps)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {plans}") from error


def promised(jobs: Sequence[JobState], plan: Plan, rules: Rules) -> None:
    """Raise AssertionError if the plan breaks what jobs were promised."""
    states = {job.spec.key: job for job in with_widest(jobs)}
    for step, for_whom in giving(plan):
        consents(states, step, for_whom, rules)
    gains(states, plan, rules)
    only_listed(states, plan)
    after = {job.spec.key: job for job in carried_out(jobs, plan, NOW)}
    assert not any(after[key].width for key in (*plan.reserved, *plan.unreserved))
    held = {key for key, job in states.items() if job.phase is JobPhase.HELD}
    changed = {step.job for step in plan.steps} | {key for _, key in giving(plan)}
    assert held.isdisjoint((*changed, *plan.reserved, *plan.unreserved)), (
        "nothing starts or gives way for a held job"
    )
    refused = {step.job for step in plan.steps if isinstance(step, Refuse)}
    for job in after.values():
        before = states[job.spec.key]
        if due(before, NOW, rules) and not job.width and job.phase is not JobPhase.REFUSED:
            key = job.spec.key
            assert key in refused or (key in plan.reserved) is not (key in plan.unreserved), key


def only_listed(states: Mapping[JobKey, JobState], plan: Plan) -> None:
    """Raise AssertionError if the plan gives a job a width that its author does not list."""
    for job in carried_out(list(states.values()), plan, NOW):
        width = job.width
        assert not width or width == states[job.spec.key].width or job.spec.allows(width), (
            job.spec.key,
            width,
        )


@given(st.integers(0, 1 << 32), st.sampled_from((1.0, 0.8, 0.5)))
def test_no_plan_gives_a_job_a_width_that_is_not_listed(seed: int, use: float) -> None:
    rng = random.Random(seed)
    rules = replace(random_rules(rng), use=use)
    jobs, _, room = on_slots(rng)
    jobs = [listed(rng, job) for job in jobs]
    for _ in range(ROUNDS):
        plan = plan_round(NOW, jobs, room(jobs), rules)
        only_listed({job.spec.key: job for job in jobs}, plan)
        jobs = carried_out(jobs, plan, NOW)


def giving(plan: Plan) -> Iterator[tuple[Suspend | Scale, JobKey]]:
    """The steps by which a job gives, and the job that it gives to."""
    for step in plan.steps:
        if isinstance(step, (Suspend, Scale)) and step.beneficiary is not None:
            yield step, step.beneficiary


def together(states: Mapping[JobKey, JobState], key: JobKey, *, running: bool) -> Sequence[JobState]:
    """The jobs of a group that run, or that wait; or else the job itself."""
    spec = states[key].spec
    members = [
        job for job in states.values() if spec.joint and job.spec.joint and job.spec.group == spec.group
    ]
    return [job for job in members if bool(job.width) is running] or [states[key]]


def consents(
    states: Mapping[JobKey, JobState], step: Suspend | Scale, for_whom: JobKey, rules: Rules
) -> None:
    """Raise AssertionError if a job gives without its consent."""
    stop = isinstance(step, Suspend)
    givers = together(states, step.job, running=True) if stop else [states[step.job]]
    waiting = min(job.spec.priority for job in together(states, for_whom, running=False))
    given = max(job.spec.priority for job in givers)
    assert given <= waiting, "a higher priority gives to a lower one"
    for job in givers if given == waiting else ():
        assert not stop or rules.may_stop(job.spec), job.spec.key
        protected = rules.min_runtime(job.spec) if stop else max(rules.young_s, rules.min_runtime(job.spec))
        assert job.started + protected <= NOW, job.spec.key


def gains(states: Mapping[JobKey, JobState], plan: Plan, rules: Rules) -> None:
    """Raise AssertionError if a plan idles more cards than it uses anew, and nobody is due for whom it does."""
    beneficiaries = {job.spec.key for _, key in giving(plan) for job in together(states, key, running=False)}
    if any(due(states[key], NOW, rules) for key in beneficiaries):
        return
    changes = [added(states, step) for step in plan.steps]
    used = sum(change for change in changes if change > 0)
    given = -sum(change for change in changes if change < 0)
    assert used >= given - used, (used, given)


def added(states: Mapping[JobKey, JobState], step: Step) -> float:
    """The cards that a step takes, below 0 if it gives some."""
    job = states[step.job]
    (after,) = carried_out([job], Plan((step,)), NOW)
    return (after.width - job.width) * job.spec.cards


def test_the_checks_see_a_stop_without_consent_and_a_loss() -> None:
    rng = random.Random(1)
    jobs = random_jobs(rng, 40, 2)
    runs = next(job for job in jobs if job.width > 1)
    waits = replace(runs, phase=JobPhase.WAITING, width=0, since=NOW)
    waits = replace(waits, spec=replace(waits.spec, key=("default", "w"), group="", joint=False, least=1))
    alone = replace(runs, spec=replace(runs.spec, group="", joint=False))
    states = {job.spec.key: job for job in (alone, waits)}
    plan = Plan((Suspend(alone.spec.key, waits.spec.key), Admit(waits.spec.key, 1)))
    with pytest.raises(AssertionError):
        consents(states, plan.steps[0], waits.spec.key, Rules())  # type: ignore[arg-type]
    if alone.width > 2:
        with pytest.raises(AssertionError):
            gains(states, plan, Rules())
