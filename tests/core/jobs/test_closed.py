"""Waiting for closed cards: which jobs do, and what is said of them."""

from dataclasses import replace

from device_plugin.core.jobs.closed import MOST_LOOKED_UP, waiting_for_closed
from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.job import JobState
from device_plugin.core.jobs.plan import Admit, Refuse, Step
from device_plugin.core.jobs.room import LedgerRoom
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from tests.builders.cards import inventory
from tests.builders.jobs import running, stopped, waiting

CORDONED = "card a-1 of node a is cordoned"


def room(cards: int = 2) -> LedgerRoom:
    """Node a, of whose cards the second is cordoned."""
    ledger = Ledger()
    ledger.set_node("a", inventory("a", cards).cordon({"a-1"}))
    return LedgerRoom(ledger, Placer(ledger), {})


def steps(*jobs: JobState) -> tuple[Step, ...]:
    return plan_round(1e6, jobs, room(), Rules()).steps


def joint(name: str, least: int) -> JobState:
    return waiting(name, least=least, most=least, joint=True, group="g")


def test_a_job_for_which_a_card_is_closed_waits_and_the_card_is_named() -> None:
    job = waiting("pair", least=2, most=2)
    assert steps(job) == ()
    assert waiting_for_closed([job], room()) == {
        job.spec.key: f"needs 2 replicas, and 1 fits on the cards that are open: {CORDONED}"
    }
    again = stopped("pair", least=2, most=2)
    assert waiting_for_closed([again], room()).keys() == {again.spec.key}


def test_one_that_all_cards_together_are_too_few_for_is_refused() -> None:
    (refused,) = steps(waiting("three", least=3, most=3))
    assert refused == Refuse(
        ("default", "three"), "needs 3 replicas, and 2 fit even if nothing else runs: ask for fewer"
    )


def test_a_group_that_needs_a_closed_card_waits() -> None:
    group = [joint("x", 1), joint("y", 1)]
    assert steps(*group) == ()
    text = f"the Jobs of group g need more cards together than are open: {CORDONED}"
    assert waiting_for_closed(group, room()) == {job.spec.key: text for job in group}
    assert all(isinstance(step, Refuse) for step in steps(joint("x", 2), joint("y", 1)))


def test_nothing_is_said_of_what_runs_of_what_fits_and_of_what_no_card_would_help() -> None:
    one = waiting("one")
    assert steps(one) == (Admit(one.spec.key, 1),)
    assert waiting_for_closed([one, running("r", 4), waiting("three", least=3, most=3)], room(3)) == {
        ("default", "three"): f"needs 3 replicas, and 2 fit on the cards that are open: {CORDONED}"
    }
    assert waiting_for_closed([one, running("r", 4)], room()) == {}


def test_the_cards_are_looked_up_for_some_jobs_of_a_round_only() -> None:
    job = waiting("pair", least=2, most=2)
    many = [replace(job, spec=replace(job.spec, key=("default", f"j{number}"))) for number in range(200)]
    assert len(waiting_for_closed(many, room())) == MOST_LOOKED_UP
