"""The virtual clock: what starts, drains and ends when, and scenes in which the bare rules go wrong."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from device_plugin.core.jobs.rules import HOUR, Rules
from hack.bench.jobs.figures import Figures
from hack.bench.jobs.nodes import node_room
from hack.bench.jobs.policies import BASE, POLICIES, policy
from hack.bench.jobs.simulation import DRAIN_S, START_S, TICK_S, Costs, Knows, Simulation, SimulationOutcome
from hack.bench.jobs.slots import SlotRoom
from hack.bench.jobs.trace import EXPONENT, TraceJob

FREE = Costs(0.0, 0.0)


def job(name: str, arrival: float, asked: int, seconds: float) -> TraceJob:
    """A job that takes `seconds` at the width asked for."""
    return TraceJob(name, arrival, asked, seconds * asked**EXPONENT, EXPONENT, seconds)


def replay(
    policy: str,
    jobs: Sequence[TraceJob],
    cards: int,
    *,
    costs: Costs = FREE,
    per_node: int = 0,
    widest: int = 1,
) -> SimulationOutcome:
    decide, knows = POLICIES[policy]
    room = node_room(cards, per_node) if per_node else SlotRoom(cards)
    return Simulation(jobs, room, decide, cards, knows=knows, costs=costs, widest=widest).run()


def test_a_job_starts_at_the_next_tick_and_makes_progress_after_its_start() -> None:
    (run,) = replay(BASE, [job("a", 10.0, 2, 600.0)], 4, costs=Costs()).runs
    assert (run.first, run.finished) == (TICK_S, TICK_S + START_S + 600.0)
    assert run.attained == 2 * (START_S + 600.0)


def test_fifo_passes_over_what_does_not_fit() -> None:
    jobs = [job("a", 0, 3, 600.0), job("b", 1, 2, 600.0), job("c", 2, 1, 600.0)]
    first = [run.first for run in replay(BASE, jobs, 4).runs]
    assert first == [60.0, 660.0, 60.0]


def test_who_takes_cards_of_another_starts_when_it_has_drained() -> None:
    jobs = [job("wide", 0, 4, 36_000.0), job("new", 7200.0, 1, 600.0)]
    wide, new = replay("engine", jobs, 4, costs=Costs()).runs
    assert new.first == 7200.0 + DRAIN_S
    assert new.finished == new.first + START_S + 600.0
    assert wide.restarts == 2  # it shrinks, and it grows back


def test_the_first_job_of_a_longer_queue_is_told_apart_from_its_restarts() -> None:
    jobs = [job(f"j{n}", 0, 1, 40 * HOUR) for n in range(3)]
    decide, knows = policy("engine", Rules(resumable=True))
    outcome = Simulation(jobs, SlotRoom(2), decide, 2, knows=knows, costs=Costs(), widest=1).run()
    assert all(run.finished < float("inf") for run in outcome.runs)
    assert max(run.stop_longest for run in outcome.runs) <= 12 * HOUR
    assert sum(run.restarts for run in outcome.runs) > 0


@pytest.mark.parametrize("per_node", [0, 8])
@pytest.mark.parametrize("policy", POLICIES)
def test_on_any_trace_all_jobs_end_and_widths_and_cards_are_kept(policy: str, per_node: int) -> None:
    rng = random.Random(11)
    jobs = [
        job(f"{n:02}", rng.uniform(0, 20 * HOUR), rng.choice((1, 1, 2, 4, 8)), rng.lognormvariate(8, 1.5))
        for n in range(60 if per_node == 0 else 30)
    ]
    figures = Figures.of(replay(policy, jobs, 12, costs=Costs(), per_node=per_node))
    assert (figures.outside_widths, figures.over_commitments) == (0, 0)
    assert 0 < figures.allocation <= 1
    if policy.startswith("engine"):
        assert figures.useless_shrinks == 0
        assert figures.rounds_to_rest <= 2


def test_slots_and_nodes_give_the_same_result_for_replicas_of_one_card() -> None:
    jobs = [job(f"{n:02}", 600.0 * n, 1 + n % 5, 1800.0 * (1 + n % 7)) for n in range(25)]
    counted, placed = (Figures.of(replay("engine", jobs, 12, per_node=per_node)) for per_node in (0, 8))
    assert placed == counted


def test_progress_told_by_some_is_not_known_of_the_others() -> None:
    jobs = [job(f"j{n}", 0, 1, HOUR) for n in range(4)]
    runs = Simulation(jobs, SlotRoom(4), POLICIES[BASE][0], 4, knows=Knows.ALL, tells=2).outcome.runs
    assert [run.state(0.0).remaining for run in runs] == [HOUR, None, HOUR, None]


def test_progress_is_known_after_five_minutes_at_the_smallest_width() -> None:
    (run,) = Simulation(
        [job("a", 0, 4, HOUR)], SlotRoom(4), POLICIES[BASE][0], 4, knows=Knows.PROGRESS
    ).outcome.runs
    work = run.left
    run.resize(0.0, 1, 0.0, 0.0)
    assert run.state(299.0).remaining is None
    assert run.state(300.0).remaining == pytest.approx(work - 300.0)


def test_replicas_of_several_cards_wait_for_cards_of_one_node() -> None:
    """Two jobs of 3 cards leave one card of each node; a replica of 2 cards finds them on slots only."""
    jobs = [replace(job(name, 0.0, 1, 600.0), cards=cards) for name, cards in (("a", 3), ("b", 3), ("c", 2))]
    for per_node, first in ((0, 60.0), (4, 660.0)):
        outcome = replay(BASE, jobs, 8, per_node=per_node)
        assert [run.first for run in outcome.runs] == [60.0, 60.0, first]
        assert [run.attained for run in outcome.runs] == [1800.0, 1800.0, 1200.0]
        assert outcome.overcommitted == 0
