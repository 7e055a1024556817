"""Growth onto idle cards: rules E4 to E7 and R4."""

from dataclasses import replace

from device_plugin.core.jobs.elastic import score
from device_plugin.core.jobs.job import JobPhase
from device_plugin.core.jobs.plan import Scale, Window
from device_plugin.core.jobs.rules import HOUR, Rules
from tests.builders.jobs import running, waiting
from tests.core.jobs.rounds import NOW, RULES, planned, widths


def test_e4_what_is_pending_resizing_or_cooling_down_is_left_alone_and_blocks_nobody() -> None:
    pending = replace(running("pending", 2, most=8), phase=JobPhase.STARTING)
    resizing = replace(running("resizing", 2, most=8), phase=JobPhase.RESIZING)
    cooling = running("cooling", 2, most=8, since=NOW - RULES.cooldown_s + 1)
    owned = replace(running("owned", 2, most=8), held=True)
    free = running("free", 2, most=8)
    jobs = [pending, resizing, cooling, owned, free]
    assert planned(20, *jobs).steps == (Scale(free.spec.key, 2, 8),)


def test_e5_jobs_grow_up_to_the_share_that_may_be_in_use() -> None:
    job = running("a", 2, most=20)
    assert widths([job], planned(20, job, rules=Rules(use=0.6))) == {"a": 12}


def test_e5_nobody_is_admitted_beyond_the_share_that_may_be_in_use() -> None:
    jobs = [running("a", 5, since=NOW), waiting("b"), waiting("c")]
    assert widths(jobs, planned(10, *jobs, rules=Rules(use=0.6))) == {"a": 5, "b": 1, "c": 0}


def test_e5_jobs_shrink_below_the_share_that_may_be_in_use() -> None:
    jobs = [running("a", 6, least=1, most=8), running("b", 4)]
    assert widths(jobs, planned(10, *jobs, rules=Rules(use=0.8))) == {"a": 4, "b": 4}


def test_e5_at_a_share_of_one_nobody_shrinks_unless_it_admits_somebody() -> None:
    jobs = [running("a", 6, least=1, most=8), running("b", 4)]
    assert planned(10, *jobs).steps == ()


def test_e6_the_score_is_the_position_between_least_and_most() -> None:
    job = running("a", 4, least=2, most=10)
    assert [score(job, width) for width in (2, 4, 10)] == [0.0, 0.25, 1.0]


def test_e6_those_nearest_to_their_most_shrink_first_and_each_has_one_step() -> None:
    jobs = [running("a", 6, least=2, most=10), running("b", 9, least=2, most=10), running("c", 3)]
    plan = planned(18, *jobs, rules=Rules(use=0.75))
    assert widths(jobs, plan) == {"a": 5, "b": 5, "c": 3}
    assert len(plan.steps) == 2


def test_e6_a_job_whose_least_is_its_most_is_not_elastic() -> None:
    job = running("a", 4, least=4, most=4)
    assert planned(10, job).steps == ()
    assert planned(10, job, rules=Rules(use=0.1)).steps == ()


def test_e7_shrinking_ends_when_nobody_can_give() -> None:
    jobs = [running("a", 6, least=5, most=8), running("b", 4)]
    assert widths(jobs, planned(10, *jobs, rules=Rules(use=0.1))) == {"a": 5, "b": 4}


def test_r4_idle_cards_go_where_a_card_adds_the_most_speed() -> None:
    jobs = [running("narrow", 1, most=16), running("wide", 8, most=16)]
    assert widths(jobs, planned(13, *jobs)) == {"narrow": 5, "wide": 8}


def test_r4_a_job_whose_speed_is_known_to_grow_less_gets_less() -> None:
    jobs = [running("a", 2, most=16), replace(running("b", 2, most=16), exponent=0.5)]
    assert widths(jobs, planned(10, *jobs)) == {"a": 8, "b": 2}


def test_r4_of_jobs_that_are_equally_wide_the_one_that_ends_soonest_grows() -> None:
    jobs = [replace(running(name, 4, most=8), remaining=left) for name, left in (("a", 9e6), ("b", 9e5))]
    assert widths(jobs, planned(12, *jobs)) == {"a": 4, "b": 8}


def test_a_running_job_doubles_or_grows_to_its_most_or_not_at_all() -> None:
    job, small = running("a", 4, most=32), running("b", 4, most=5)
    assert planned(64, job, running("busy", 57)).steps == ()
    assert planned(64, job, running("busy", 56)).steps == (Scale(job.spec.key, 4, 8),)
    assert planned(64, small, running("busy", 57)).steps == (Scale(small.spec.key, 4, 5),)


def test_a_wide_job_grows_by_a_quarter_that_is_an_eighth_of_all_cards() -> None:
    job, wider = running("a", 32, most=60), running("b", 36, most=60)
    assert planned(64, job, running("busy", 25)).steps == ()
    assert planned(64, job, running("busy", 24)).steps == (Scale(job.spec.key, 32, 40),)
    assert planned(64, wider, running("busy", 20)).steps == ()
    assert planned(64, wider, running("busy", 19)).steps == (Scale(wider.spec.key, 36, 45),)


def test_a_job_that_is_known_to_end_soon_does_not_grow() -> None:
    job = replace(running("a", 4, most=8), exponent=1.0)
    assert planned(8, replace(job, remaining=8 * RULES.saving_s)).steps == (Scale(job.spec.key, 4, 8),)
    assert planned(8, replace(job, remaining=8 * RULES.saving_s - 1)).steps == ()
    assert planned(8, replace(job, remaining=0.0)).steps == ()


def test_a_job_grows_as_far_as_it_must_to_end_much_earlier() -> None:
    job = replace(running("a", 2, most=8), exponent=1.0, remaining=3 * RULES.saving_s)
    assert planned(7, job, running("busy", 2)).steps == ()
    assert planned(8, job, running("busy", 2)).steps == (Scale(job.spec.key, 2, 6),)


def test_one_that_cannot_grow_leaves_the_cards_to_others() -> None:
    jobs = [running("a", 16, most=32), running("b", 17, most=64), running("c", 8, most=9)]
    assert planned(42, *jobs).steps == (Scale(("default", "c"), 8, 9),)


def test_new_jobs_start_at_the_width_asked_for_one_after_another() -> None:
    jobs = [waiting("a", most=6), waiting("b", most=2)]
    assert widths(jobs, planned(7, *jobs)) == {"a": 6, "b": 1}


def test_the_window_of_a_split_job_grows_one_by_one_and_at_once() -> None:
    job = running("s", 8, least=1, most=16, parts=16, since=NOW - 1)
    assert planned(9, job).steps == (Window(job.spec.key, 9),)


def test_what_a_job_tells_of_itself_gets_it_cards_of_its_own_queue_only() -> None:
    bold = replace(running("bold", 2, most=8), exponent=1.0, remaining=HOUR)
    jobs = [bold, running("modest", 2, most=8)]
    assert widths(jobs, planned(8, *jobs)) == {"bold": 6, "modest": 2}
    apart = [bold, running("modest", 2, most=8, queue="other")]
    assert widths(apart, planned(8, *apart)) == {"bold": 4, "modest": 4}


def test_queues_grow_by_their_weights() -> None:
    jobs = [running("a", 1, most=9, queue="a"), running("b", 1, most=9, queue="b")]
    assert widths(jobs, planned(9, *jobs, rules=Rules(weights={"b": 2.0}))) == {"a": 3, "b": 6}


def test_a_running_job_grows_to_a_listed_width_only() -> None:
    job = running("a", 2, most=8, widths=(1, 2, 4, 8))
    assert widths([job], planned(7, job)) == {"a": 4}
    assert widths([job], planned(8, job)) == {"a": 8}
    odd = running("a", 8, most=16, widths=(8, 9, 15, 16))
    assert planned(14, odd).steps == (), "9 are too few for a restart, and 15 do not fit"
    assert planned(15, odd).steps == (Scale(odd.spec.key, 8, 15),)


def test_a_job_grows_on_from_a_listed_width_to_another_one() -> None:
    """It ends much earlier with 5 replicas: that is 8."""
    job = running("a", 2, most=8, widths=(1, 2, 4, 8))
    job = replace(job, exponent=1.0, remaining=RULES.saving_s * 10 / 3)
    assert planned(8, job).steps == (Scale(job.spec.key, 2, 8),)
    assert planned(7, job).steps == ()


def test_a_new_job_takes_the_listed_widths_one_after_another() -> None:
    jobs = [waiting("a", most=8, asked=2, widths=(1, 2, 4, 8)), running("busy", 3)]
    for cards, width in ((6, 2), (7, 4), (10, 4), (11, 8), (20, 8)):
        assert widths(jobs, planned(cards, *jobs))["a"] == width


def test_the_speed_of_the_whole_step_decides_who_grows() -> None:
    """One card more would add the most speed to the narrow job, but it gets fifteen or none."""
    jobs = [waiting("wide", least=4, most=5), waiting("narrow", least=2, most=17, asked=2, widths=(2, 17))]
    jobs = [replace(job, spec=replace(job.spec, asked=job.spec.least)) for job in jobs]
    assert widths(jobs, planned(21, *jobs)) == {"wide": 5, "narrow": 2}
    assert widths(jobs, planned(22, *jobs)) == {"wide": 5, "narrow": 17}


def test_a_job_shrinks_to_a_listed_width_below_the_share_that_may_be_in_use() -> None:
    job = running("a", 8, least=1, most=8, widths=(1, 2, 4, 8))
    assert widths([job], planned(10, job, rules=Rules(use=0.7))) == {"a": 4}
    assert widths([job], planned(10, job, rules=Rules(use=0.1))) == {"a": 1}


def test_a_width_that_was_left_out_stays_until_the_next_change() -> None:
    job = running("a", 3, least=1, most=8, widths=(1, 2, 4, 8))
    busy = running("busy", 4)
    assert planned(7, job, busy).steps == ()
    assert planned(12, job, busy).steps == (Scale(job.spec.key, 3, 8),)
    assert planned(7, job, busy, rules=Rules(use=0.9)).steps == (Scale(job.spec.key, 3, 2),)
