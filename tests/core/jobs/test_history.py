"""What is concluded from what a job tells of its progress, and what is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.jobs import history
from device_plugin.core.jobs.history import MOST_INTERVALS, MOST_JOBS, MOST_WIDTHS, Histories, History
from device_plugin.core.jobs.job import EXPONENT
from device_plugin.core.jobs.progress import MOST, Progress

TOTAL = 1_000_000


def told(*words: tuple[float, int, int | None], total: int = TOTAL) -> History:
    """The history of (time, width, done) in turn; done is None for no news."""
    made = Histories()
    for now, width, done in words:
        made.add("a", now, width, Progress(done, total) if done is not None else None)
    found = made.of("a")
    assert found is not None
    return found


def steady(
    begin: float, width: int, done: int, rate: int, seconds: int
) -> list[tuple[float, int, int | None]]:
    """A job that tells every 10 s what it has done."""
    return [(begin + at, width, done + rate * at) for at in range(0, seconds + 1, 10)]


def test_the_work_left_is_in_seconds_of_one_replica() -> None:
    made = told(*steady(0, 1, 0, 100, 300))
    assert made.remaining == pytest.approx((TOTAL - 30_000) / 100)
    assert made.seconds_left(1) == made.remaining
    wide = told(*steady(0, 4, 0, 100, 300))
    assert wide.remaining == pytest.approx((TOTAL - 30_000) / 100 * 4**EXPONENT)
    assert wide.seconds_left(4) == pytest.approx((TOTAL - 30_000) / 100), "as fast as it was seen to be"
    assert wide.seconds_left(0) is None


def test_nothing_is_known_before_five_minutes_were_seen() -> None:
    assert told(*steady(0, 4, 0, 100, 290)).remaining is None
    assert told((0, 4, TOTAL)).remaining is None, "whatever it says"
    assert told(*steady(0, 4, TOTAL - 30_000, 100, 300)).remaining == 0


def test_a_program_that_is_quiet_between_its_words_is_as_fast_as_it_says() -> None:
    quiet = [(at, 1, 100 * (at // 60) * 60) for at in range(0, 601, 5)]
    assert told(*quiet).measured[0].rate == pytest.approx(100)


def test_a_restart_is_no_negative_speed_and_counts_for_nothing() -> None:
    before = steady(0, 4, 0, 100, 300)
    after = told(*before, (400, 4, 20_000), (410, 4, 21_000))
    assert after.measured[0].rate == pytest.approx(100)
    assert after.remaining == pytest.approx((TOTAL - 21_000) / 100 * 4**EXPONENT)
    silent = told(*before, (305, 4, None), (900, 4, 30_000), (910, 4, 31_000))
    assert silent.measured[0].rate == pytest.approx(100), "the time in which it told nothing does not count"


def test_another_amount_to_do_may_be_another_unit() -> None:
    made = Histories()
    for now, _, done in steady(0, 4, 0, 100, 600):
        made.add("a", now, 4, Progress(done or 0, TOTAL))
    made.add("a", 610.0, 4, Progress(7, 90))
    assert made.of("a") == History(Progress(7, 90), 4, 610.0, 610.0)


def test_the_speed_at_two_widths_gives_the_exponent() -> None:
    words = [*steady(0, 2, 0, 100, 300), *steady(400, 8, 30_000, 200, 300)]
    assert told(*words).exponent == pytest.approx(0.5)
    assert told(*words).remaining == pytest.approx((TOTAL - 90_000) / 200 * 8**0.5)
    assert told(*words[:-1]).exponent == EXPONENT, "the second width was not seen for long enough"
    slower = [*steady(0, 2, 0, 100, 300), *steady(400, 8, 30_000, 50, 300)]
    assert told(*slower).exponent == 0.0
    faster = [
        *steady(0, 2, 0, 100, 300),
        *steady(400, 8, 30_000, 5_000, 180),
        *steady(600, 8, 930_000, 10, 300),
    ]
    assert told(*faster).exponent == 1.0


def test_the_time_in_which_not_all_replicas_run_is_not_measured() -> None:
    made = told(
        *steady(0, 4, 0, 100, 300), *steady(310, 0, 31_000, 5, 600), *steady(920, 4, 34_000, 100, 300)
    )
    assert [each.width for each in made.measured] == [4]
    assert made.measured[0].rate == pytest.approx(100)


def test_what_is_long_ago_counts_less() -> None:
    made = told(*steady(0, 1, 0, 10, 36_000), *steady(36_010, 1, 360_000, 20, 7200))
    assert made.measured[0].rate == pytest.approx(20, rel=0.1)
    assert made.measured[0].seconds <= history.REMEMBERED_S


@pytest.mark.parametrize(("every", "limit"), [(10, 600), (60, 600), (300, 3000)])
def test_a_job_is_stuck_after_ten_times_its_usual_interval_and_ten_minutes(every: int, limit: int) -> None:
    advances = [(at, 1, at) for at in range(0, 10 * every + 1, every)]
    last = advances[-1]
    assert told(*advances, (last[0] + limit - 1, 1, last[2])).stuck_for is None
    assert told(*advances, (last[0] + limit, 1, last[2])).stuck_for == limit
    assert (
        told(*advances, (last[0] + limit, 1, last[2]), (last[0] + limit + 1, 1, last[2] + 1)).stuck_for
        is None
    )


def test_what_is_not_stuck() -> None:
    assert told((0, 1, 5), (9000, 1, 5)).stuck_for is None, "it was never seen to advance"
    done = [(0, 1, 0), (10, 1, TOTAL), (9000, 1, TOTAL)]
    assert told(*done).stuck_for is None, "all is done"
    begun = [(0, 1, 0), (10, 1, 10), (20, 1, None), (9000, 1, None)]
    assert told(*begun).stuck_for is None, "it begins again"
    assert told((0, 1, 0), (10, 1, 10), (20, 2, 10), (619, 2, 10)).stuck_for is None, "its width changed"


def test_at_most_so_many_jobs_are_remembered() -> None:
    made = Histories()
    for number in range(MOST_JOBS + 1):
        made.add(str(number), 0.0, 1, Progress(1, 2))
        made.add("0", 0.0, 1, None)
    assert made.of("1") is None
    assert made.of("0") is not None, "it told something lately"
    made.forget("0")
    made.forget("nobody")
    assert made.of("0") is None
    made.add("silent", 0.0, 1, None)
    assert made.of("silent") is None


WORDS = st.lists(
    st.tuples(
        st.floats(-1e9, 1e9), st.integers(0, 1024),
        st.one_of(st.none(), st.builds(
            lambda done, total: Progress(min(done, total), total), st.integers(0, MOST),
            st.sampled_from([1, 1000, MOST]),
        )),
    ), min_size=1, max_size=60,
)  # fmt: skip


@given(WORDS)
def test_whatever_is_told_is_bounded_and_never_an_exception(
    words: list[tuple[float, int, Progress | None]],
) -> None:
    made = Histories()
    for now, width, progress in words:
        made.add("a", now, width, progress)
        found = made.of("a")
        if found is None:
            continue
        assert len(found.measured) <= MOST_WIDTHS
        assert len(found.intervals) <= MOST_INTERVALS
        assert all(each.units > 0 and each.seconds > 0 and each.width for each in found.measured)
        assert 0 <= found.exponent <= 1
        assert found.remaining is None or 0 <= found.remaining < float("inf")
        assert found.stuck_for is None or found.stuck_for >= history.STUCK_S
