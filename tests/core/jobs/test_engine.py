"""What holds for every plan, over random states; and when the next one may differ."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.job import JobKey, JobPhase, JobState
from device_plugin.core.jobs.plan import Admit, Plan, Refuse, Scale, Suspend, Window
from device_plugin.core.jobs.reservation import MOST_RESERVED
from device_plugin.core.jobs.room import LedgerRoom, Site
from device_plugin.core.jobs.rules import HOUR, JUST_STARTED_S, Rules
from device_plugin.core.ledger import Ledger
from device_plugin.core.node_constraints import (
    ANYWHERE,
    NodeConstraints,
    NodeIndex,
    NodeTraits,
    Operator,
    Requirement,
    Taint,
    Toleration,
)
from device_plugin.core.placement import Placer
from hack.bench.jobs.slots import SlotRoom
from tests.builders.cards import inventory
from tests.builders.jobs import job_spec, running, stopped, waiting
from tests.builders.requests import whole_request
from tests.core.jobs.rounds import NOW, RULES, carried_out, planned
from tests.effort import TIMES

STATES = 1_000 * TIMES
GROUPS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {},
    {"group": "g", "joint": True},
    {"group": "h", "joint": True},
)
PHASES = (JobPhase.STARTING, JobPhase.RUNNING, JobPhase.RUNNING, JobPhase.RUNNING, JobPhase.RESIZING)


def random_job(rng: random.Random, name: str, free: int, cards: int) -> JobState:
    """A job in any phase that holds no more than `free` replicas of `cards` each."""
    least = rng.randint(1, 4)
    most = least + rng.choice((0, 0, 1, 4, 16))
    group = rng.choice(GROUPS)
    if not group and rng.random() < 0.1:
        group, least = {"parts": most}, 1
    spec = job_spec(
        name, least=least, most=most, asked=rng.randint(least, most), priority=rng.choice((0, 0, 0, 1, -1)),
        preempts=rng.random() < 0.9, queue=rng.choice("aab"), user=rng.choice("xy"),
        cards=float(cards), request=whole_request("", cards), **group,
    )  # fmt: skip
    since = NOW - rng.choice((1, 100, HOUR, 5 * HOUR, 20 * HOUR))
    attained = rng.choice((0.0, 600.0, HOUR, 7 * HOUR, 300 * HOUR))
    phase = rng.choice((JobPhase.WAITING, JobPhase.STOPPED))
    width = 0
    if free >= least and rng.random() < 0.7:
        width, phase = rng.randint(least, min(most, free)), rng.choice(PHASES)
    known = rng.choice((None, None, 60.0, 50 * HOUR))
    return JobState(
        spec=spec, phase=phase, width=width, since=since, resized=since, attained=attained, remaining=known,
        held=rng.random() < 0.05, young=rng.randint(0, width) if spec.parts else 0,
    )  # fmt: skip


def random_jobs(rng: random.Random, slots: int, most_cards: int) -> list[JobState]:
    jobs: list[JobState] = []
    for number in range(rng.randint(0, 12)):
        cards = rng.choice((1, 1, 1, most_cards))
        free = slots - sum(job.width * int(job.spec.cards) for job in jobs)
        jobs.append(random_job(rng, f"j{number}", free // cards, cards))
    return jobs


def check(jobs: Sequence[JobState], plan: Plan, slots: int) -> None:
    """Raise AssertionError if the plan breaks an invariant."""
    before = {job.spec.key: job for job in jobs}
    after = carried_out(jobs, plan, NOW)
    admitted = {step.job for step in plan.steps if isinstance(step, (Admit, Window))}
    assert sum(job.width * job.spec.cards for job in after) <= slots
    assert all(job.width == 0 or job.spec.least <= job.width <= job.spec.most for job in after)
    assert len({step.job for step in plan.steps}) == len(plan.steps)
    assert len(plan.steps) <= 4 * sum(1 + job.width for job in jobs)
    stopped_groups = {before[step.job].spec.group for step in plan.steps if isinstance(step, Suspend)} - {""}
    assert all(job.width == 0 for job in after if job.spec.group in stopped_groups)
    for step in plan.steps:
        job = before[step.job]
        if isinstance(step, Suspend) or (isinstance(step, Scale) and step.after < step.before):
            assert step.beneficiary in admitted
            other = before[step.beneficiary].spec
            assert job.running
            assert not job.held
            assert other.preempts
            assert other.priority >= job.spec.priority
            assert isinstance(step, Suspend) or not job.spec.parts or step.before - step.after <= job.young
        elif isinstance(step, Scale):
            assert step.after >= min(job.spec.most, step.before * (1 + RULES.wide_growth))
            assert NOW - job.resized >= RULES.cooldown_s
        elif isinstance(step, Admit):
            assert job.queued


PLACES = (
    ANYWHERE,
    NodeConstraints((Requirement("zone", Operator.IN, ("a",)),)),
    NodeConstraints((Requirement("zone", Operator.IN, ("b",)),), tolerations=(Toleration("k"),)),
)


@pytest.mark.no_cover
def test_every_plan_over_random_states_keeps_the_invariants_and_comes_to_rest_in_two_rounds() -> None:
    for seed in range(STATES):
        rng = random.Random(seed)
        slots = rng.randint(1, 40)
        jobs = random_jobs(rng, slots, 2)
        plans: list[Plan] = []
        while len(plans) < 3:
            held = sum(job.width * int(job.spec.cards) for job in jobs)
            plans.append(plan_round(NOW, jobs, SlotRoom(slots, held), RULES))
            check(jobs, plans[-1], slots)
            jobs = carried_out(jobs, plans[-1], NOW)
        assert not plans[-1].steps, f"seed {seed}: {plans}"


def test_every_plan_over_a_ledger_keeps_the_invariants() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(40):
        ledger = Ledger()
        nodes = rng.randint(1, 5)
        for number in range(nodes):
            ledger.set_node(f"n{number}", inventory(f"n{number}", 8))
        placer, jobs = Placer(ledger), list[JobState]()
        replicas: Mapping[JobKey, Sequence[str]] = {}
        for job in random_jobs(rng, 8 * nodes, 4):
            room = LedgerRoom(ledger, placer, replicas)
            if job.width and not room.take(job.spec, job.width):
                continue
            replicas = room.replicas()
            jobs.append(job)
        check(jobs, plan_round(NOW, jobs, LedgerRoom(ledger, placer, replicas), RULES), 8 * nodes)
        assert not any(ledger.conflicts(grant) for grant in ledger.grants().values())


def test_no_job_of_a_plan_over_a_ledger_is_where_its_constraints_do_not_let_it_be() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(40):
        ledger, names = Ledger(), [f"n{number}" for number in range(rng.randint(1, 5))]
        for name in names:
            ledger.set_node(name, inventory(name, 4))
        index = NodeIndex(
            NodeTraits(name, {"zone": rng.choice("ab")}, (Taint("k"),) * (rng.random() < 0.2))
            for name in names
        )
        placer, jobs = Placer(ledger), list[JobState]()
        replicas: Mapping[JobKey, Sequence[str]] = {}
        for job in random_jobs(rng, 4 * len(names), 4):
            constrained = replace(job, spec=replace(job.spec, nodes=rng.choice(PLACES)))
            room = LedgerRoom(ledger, placer, replicas, index)
            if job.width and not room.take(constrained.spec, job.width):
                continue
            replicas = room.replicas()
            jobs.append(constrained)
        room = LedgerRoom(ledger, placer, replicas, index)
        plan = plan_round(NOW, jobs, room, RULES)
        check(jobs, plan, 4 * len(names))
        states = {job.spec.key: job for job in jobs}
        for key, held in room.replicas().items():
            allowed = index.allowed(states[key].spec.nodes)
            nodes = {ledger.holdings()[holder].node for holder in held}
            assert allowed is None or nodes <= set(allowed), (key, nodes)
        for step in plan.steps:
            if isinstance(step, Admit):
                assert len(room.replicas()[step.job]) == step.width
        for key, job in states.items():
            if job.phase is JobPhase.WAITING and room.capacity(job.spec) == 0:
                assert any(isinstance(step, Refuse) and step.job == key for step in plan.steps)


def test_for_an_overdue_job_cards_are_kept_only_where_it_may_go() -> None:
    ledger = Ledger()
    for name in ("n0", "n1", "n2"):
        ledger.set_node(name, inventory(name, 2))
    index = NodeIndex(
        NodeTraits(name, {"zone": zone}) for name, zone in (("n0", "a"), ("n1", "b"), ("n2", "b"))
    )
    busy = running("busy", 1, since=NOW, nodes=PLACES[1])
    others = running("others", 3, since=NOW, nodes=PLACES[2])
    overdue = replace(waiting("overdue", least=2, most=2, nodes=PLACES[1]), since=NOW - 2 * HOUR)
    new = [replace(waiting(name, most=4), since=NOW) for name in "xy"]
    placer = Placer(ledger)
    room = LedgerRoom(ledger, placer, {}, index)
    assert all(room.take(job.spec, job.width) for job in (busy, others))
    jobs = [busy, others, overdue, *new]
    plan = plan_round(NOW, jobs, LedgerRoom(ledger, placer, room.replicas(), index), RULES)
    assert plan.steps == (Admit(("default", "x"), 1),), "the other card of n0 is kept"


def test_equal_states_give_equal_plans_whatever_the_order_of_the_jobs() -> None:
    rng = random.Random(3)
    for _ in range(200):
        jobs = random_jobs(rng, 20, 2)
        held = sum(job.width * int(job.spec.cards) for job in jobs)
        plan = plan_round(NOW, jobs, SlotRoom(20, held), RULES)
        rng.shuffle(jobs)
        assert plan_round(NOW, jobs, SlotRoom(20, held), RULES) == plan


@pytest.mark.parametrize(
    ("jobs", "after"),
    [
        ([running("a", 1, since=NOW, most=4), running("b", 3, since=NOW)], RULES.cooldown_s),
        ([running("a", 1, since=NOW, attained=HOUR / 2), waiting("b")], HOUR / 2),
        ([running("a", 1, since=NOW, attained=9 * HOUR), waiting("b")], RULES.due_quantum_s),
        ([running("a", 1, since=NOW, attained=7 * HOUR), stopped("b", since=NOW, attained=3 * HOUR)], RULES.cooldown_s),
    ],
)  # fmt: skip
def test_the_next_plan_that_may_differ_is_announced(jobs: list[JobState], after: float) -> None:
    jobs = [replace(job, since=NOW) for job in jobs]
    slots = sum(job.width for job in jobs)
    assert planned(slots, *jobs).again == NOW + after


def test_a_job_that_has_just_started_gives_as_soon_as_the_next_plan_is_due() -> None:
    """With VGPU_YOUNG_SECONDS=0 too: nothing else happens that would make the engine plan again."""
    rules = replace(RULES, young_s=0.0)
    first = replace(running("a", 4, since=NOW, least=2, most=4), started=NOW)
    jobs = [first, replace(waiting("b"), since=NOW)]
    plan = plan_round(NOW, jobs, SlotRoom(4, 4), rules)
    assert (plan.steps, plan.again) == ((), NOW + JUST_STARTED_S)
    later = plan_round(plan.again, jobs, SlotRoom(4, 4), rules)
    assert {(type(step), step.job[1]) for step in later.steps} == {(Admit, "b"), (Scale, "a")}


def test_nothing_changes_by_itself_where_nobody_waits_and_nobody_can_grow() -> None:
    assert planned(9, running("a", 4)).again == float("inf")


def test_a_refusal_is_said_once() -> None:
    job = waiting("a", least=2, most=2)
    (step,) = planned(1, job).steps
    assert isinstance(step, Refuse)
    assert planned(1, replace(job, phase=JobPhase.REFUSED)) == Plan()


def test_a_thousand_kinds_of_hopeless_jobs_are_not_all_searched_for() -> None:
    jobs = [replace(waiting(f"j{n}", least=n + 2, most=n + 2), since=NOW) for n in range(1000)]
    busy = [running(f"b{n}", 1, since=NOW) for n in range(8)]
    assert planned(1010, *jobs[1:], rules=Rules(searches=4)).steps
    assert planned(8, *busy, replace(jobs[0], since=NOW)).steps == ()


def test_a_user_with_many_kinds_of_hopeless_jobs_leaves_others_their_searches() -> None:
    busy = running("busy", 100, least=1, most=100, since=NOW - 9 * HOUR, attained=900 * HOUR)
    many = [waiting(f"m{n}", least=n + 3, most=n + 3, queue="poor", user="many") for n in range(50)]
    one = waiting("one", queue="z", user="one", least=2, most=2)
    jobs = [busy, *(replace(job, since=NOW) for job in (*many, one))]
    assert Admit(("default", "one"), 2) in planned(100, *jobs, rules=Rules(weights={"poor": 0.01})).steps


class CountingRoom(LedgerRoom):
    """A room that counts how often jobs leave a node."""

    vacated = 0

    def vacate(self, site: Site, jobs: Collection[JobKey], /) -> None:
        self.vacated += 1
        super().vacate(site, jobs)


def test_a_thousand_overdue_jobs_that_may_go_to_some_nodes_empty_the_room_a_few_times_only() -> None:
    ledger = Ledger()
    for name in ("n0", "n1"):
        ledger.set_node(name, inventory(name, 2))
    index = NodeIndex(NodeTraits(name, {"zone": name}) for name in ("n0", "n1"))
    room = CountingRoom(ledger, Placer(ledger), {}, index)
    busy = [running(f"b{n}", 1, since=NOW - 1) for n in range(4)]
    assert all(room.take(job.spec, job.width) for job in busy)
    zone = Requirement("zone", Operator.IN, ("n0",))
    overdue = [
        replace(
            waiting(f"w{n}", nodes=NodeConstraints((zone,), None, (Toleration(f"t{n}"),))),
            since=NOW - 2 * HOUR,
        )
        for n in range(1000)
    ]
    assert plan_round(NOW, [*busy, *overdue], room, RULES).steps == ()
    assert 0 < room.vacated <= 8 * MOST_RESERVED


def test_a_rigid_job_is_never_stopped_for_one_small_job_of_its_priority() -> None:
    large = running("large", 128, since=NOW - 2 * HOUR, attained=256 * HOUR)
    for waited in (60.0, 100 * HOUR):
        small = replace(waiting("small"), since=NOW - waited)
        assert planned(128, large, small).steps == ()
        assert planned(128, large, replace(small, spec=replace(small.spec, priority=-1))).steps == ()
    fresh = replace(waiting("small"), since=NOW - 60)
    assert planned(128, large, fresh, rules=Rules(resumable=True)).steps == (), "127 cards would be idle"
    bound = replace(large, spec=replace(large.spec, least=100))
    few = [replace(waiting(f"s{n:02}"), since=NOW - 60) for n in range(29)]
    plan = planned(128, bound, *few)
    assert next(step.after for step in plan.steps if isinstance(step, Scale)) == 100
    assert sum(isinstance(step, Admit) for step in plan.steps) == 28


def test_64_small_jobs_beside_a_wide_one_start_in_one_round_and_it_has_its_cards_again_afterwards() -> None:
    wide = running("wide", 128, least=64, most=128, since=NOW - 2 * HOUR, attained=256 * HOUR)
    small = [replace(waiting(f"s{n:02}"), since=NOW - 5) for n in range(64)]
    jobs = [wide, *small]
    after = carried_out(jobs, planned(128, *jobs), NOW)
    assert [job.width for job in after] == [64] + [1] * 64
    later = NOW + RULES.cooldown_s
    (back,) = carried_out(after[:1], planned(128, after[0], now=later), later)
    assert back.width == 128


@pytest.mark.parametrize("resumable", [True, False])
def test_a_rigid_job_beside_a_stream_of_small_ones_is_served(*, resumable: bool) -> None:
    """Eight cards, 3 h of work on all of them, and a job of one card and 30 min each 20 min."""
    world = Stream(cards=8, rules=Rules(resumable=resumable), every=1200.0, seconds=1800.0)
    world.add("rigid", 8, 3 * HOUR, resumes=resumable)
    world.run(3 * 86_400.0)
    assert "rigid" in world.ended
    assert world.longest_stop <= 12 * HOUR
    assert world.stops <= (2 if resumable else 0)


def test_a_job_that_begins_anew_waits_while_a_higher_priority_waits() -> None:
    world = Stream(cards=8, rules=RULES, every=1200.0, seconds=1800.0, priority=1)
    world.add("rigid", 8, 3 * HOUR, resumes=False)
    world.run(2 * 86_400.0)
    assert world.stops <= 2, "it does not start between two jobs of the stream only to be stopped again"
    displaced = stopped("anew", since=NOW - 60)
    displaced = replace(displaced, displaced=True)
    high = replace(waiting("high", least=2, most=2, priority=1), since=NOW - 60)
    assert planned(1 + 1, running("r", 1, priority=1, since=NOW - 60), displaced, high).steps == ()
    for other in (
        replace(displaced, displaced=False),
        replace(displaced, spec=job_spec("anew", resumable=True)),
    ):
        steps = planned(2, running("r", 1, priority=1, since=NOW - 60), other, high).steps
        assert steps == (Admit(other.spec.key, 1),)


class Stream:
    """Jobs over virtual time on slots: a small job comes `every` seconds and takes `seconds`."""

    TICK = 60.0

    def __init__(self, *, cards: int, rules: Rules, every: float, seconds: float, priority: int = 0) -> None:
        self.cards, self.rules, self.every, self.seconds, self.priority = (
            cards,
            rules,
            every,
            seconds,
            priority,
        )
        self.jobs: dict[JobKey, JobState] = {}
        self.left: dict[JobKey, float] = {}
        self.whole: dict[JobKey, float] = {}
        self.ended = set[str]()
        self.stops, self.longest_stop = 0, 0.0

    def add(self, name: str, width: int, seconds: float, *, since: float = 0.0, resumes: bool = True) -> None:
        """A rigid job; one that does not resume begins anew each time."""
        mine = 0 if width > 1 else self.priority
        job = replace(waiting(name, least=width, most=width, priority=mine), since=since)
        self.jobs[job.spec.key], self.left[job.spec.key] = job, seconds
        if not resumes:
            self.whole[job.spec.key] = seconds

    def run(self, until: float) -> None:
        """Time passes until then."""
        number, now = 0, 0.0
        while now < until:
            for key, job in list(self.jobs.items()):
                if job.width:
                    self.jobs[key] = replace(job, attained=job.attained + self.TICK * job.width)
                    self.left[key] -= self.TICK
                    if self.left[key] <= 0:
                        self.ended.add(key[1])
                        del self.jobs[key]
            if now >= self.every * (number + 1):
                number += 1
                self.add(f"s{number}", 1, self.seconds, since=now)
            self._round(now)
            now += self.TICK

    def _round(self, now: float) -> None:
        before = list(self.jobs.values())
        plan = planned(self.cards, *before, now=now, rules=self.rules)
        for step in plan.steps:
            job = self.jobs[step.job]
            if isinstance(step, Suspend):
                self.stops += step.job[1] == "rigid"
                self.left[step.job] = self.whole.get(step.job, self.left[step.job])
            elif isinstance(step, Admit) and job.phase is JobPhase.STOPPED:
                self.longest_stop = max(self.longest_stop, now - job.since)
        self.jobs = {job.spec.key: job for job in carried_out(before, plan, now)}
