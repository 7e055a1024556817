"""A draft's trials, and the steps of its plan."""

from device_plugin.core.jobs.job import JobPhase, JobState
from device_plugin.core.jobs.plan import Admit, Draft, Plan, Refuse, Scale, Suspend
from device_plugin.core.jobs.room import LedgerRoom
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from tests.builders.cards import inventory
from tests.builders.jobs import running, waiting


def draft(cards: int, *jobs: JobState) -> Draft:
    ledger = Ledger()
    ledger.set_node("a", inventory("a", cards))
    room = LedgerRoom(ledger, Placer(ledger), {})
    for job in jobs:
        assert room.take(job.spec, job.width)
    return Draft(100.0, jobs, room)


def test_a_draft_without_a_change_has_no_step() -> None:
    assert draft(4, running("a", 2), waiting("b")).plan() == Plan()


def test_steps_that_release_cards_come_first() -> None:
    wide, stopping, growing, new = (
        running("w", 4),
        running("x", 2),
        running("a", 1, most=2),
        waiting("b", most=3),
    )
    made = draft(7, wide, stopping, growing, new)
    made.narrow(wide, 3, new.spec)
    made.narrow(stopping, 0, new.spec)
    assert made.widen(new, 2)
    assert made.widen(growing, 2)
    plan = made.plan(again=160.0)
    assert plan.steps == (
        Scale(wide.spec.key, 4, 3, new.spec.key),
        Suspend(stopping.spec.key, new.spec.key),
        Scale(growing.spec.key, 1, 2),
        Admit(new.spec.key, 2),
    )
    assert list(plan.given(new.spec.key)) == [wide.spec.key, stopping.spec.key]
    assert plan.again == 160.0


def test_a_job_has_one_step_for_all_of_its_changes() -> None:
    job = running("a", 1, most=8)
    made = draft(8, job)
    assert made.widen(job, 4)
    assert made.widen(job, 8)
    made.narrow(job, 6)
    assert made.plan().steps == (Scale(job.spec.key, 1, 6),)
    made.narrow(job, 1)
    assert made.plan() == Plan()


def test_what_does_not_fit_changes_nothing() -> None:
    job = running("a", 1, most=8)
    made = draft(4, job)
    assert not made.widen(job, 5)
    assert made.width(job) == 1
    assert made.room.free(job.spec) == 3


def test_a_trial_is_undone_with_its_room_and_its_beneficiaries_unless_it_is_kept() -> None:
    job, new = running("a", 4), waiting("b", most=4)
    made = draft(4, job, new)
    with made.trial():
        made.narrow(job, 2, new.spec)
        assert made.widen(new, 2)
        assert made.narrowed(job)
    assert (made.width(job), made.width(new), made.narrowed(job)) == (4, 0, False)
    assert made.room.free(job.spec) == 0
    with made.trial() as trial:
        made.narrow(job, 3, new.spec)
        trial.keep()
    assert made.plan().steps == (Scale(job.spec.key, 4, 3, new.spec.key),)
    assert made.room.free(job.spec) == 1


def test_a_job_is_refused_once() -> None:
    new, known = waiting("a"), JobState(spec=waiting("b").spec, phase=JobPhase.REFUSED)
    made = draft(1, new, known)
    for job in (new, known):
        made.refuse(job, "ask for less")
    assert made.plan().steps == (Refuse(new.spec.key, "ask for less"),)
