"""Rules S1 to S4: a job says what it has to do and by when, and gets as many replicas as that takes."""

import random
from collections.abc import Callable
from dataclasses import replace
from math import ceil, isclose
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.hosts import HostAmounts
from device_plugin.core.jobs.job import JobKey, JobPhase, JobSpec, JobState
from device_plugin.core.jobs.rates import Curve, Rates
from device_plugin.core.jobs.room import LedgerRoom
from device_plugin.core.jobs.sizing import (
    MOST_TRIED,
    Short,
    Sized,
    offers,
    size,
    with_width,
    with_widths,
)
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from hack.bench.jobs.slots import SlotRoom
from tests.builders.bad_jobs import QUEUED, SIZED
from tests.builders.cards import FAMILY, inventory
from tests.builders.jobs import job_spec
from tests.builders.requests import whole_request
from tests.builders.written_jobs import ELASTIC, spec, template

HOUR = 3600.0


def job(written: dict[str, str] | None = None, cards: int = 1, **fields: Any) -> JobSpec:
    """A job of 1,000 samples in 10 epochs to be done in 1,000 s, each pod with so many cards."""
    goal = {"samples": "1000", "epochs": "10", "duration": "1000s", "model": "m", **(written or {})}
    models = {key: text for key, text in goal.items() if key == "card-model"}
    return spec(QUEUED, goal, template=template({FAMILY: str(cards)}, annotations=models), **fields)


def linear(rate: float, guess: bool = False) -> Curve:
    """A curve on which each card has this rate, for up to 1,024 cards."""
    return Curve(((1, rate), (1024, 1024 * rate)), guess)


def free(width: int) -> Callable[[int], bool]:
    return lambda wanted: wanted <= width


def anything(_: int) -> bool:
    return True


def test_s1_the_inputs_are_what_the_author_writes() -> None:
    written = {**SIZED, "app-type": "gpu", "card-model": "Z100"}
    found = spec(QUEUED, written, template=template({FAMILY: "2"}, annotations={"card-model": "Z100"}))
    assert found.goal is not None
    assert (found.goal.samples, found.goal.epochs, found.goal.seconds, found.goal.model) == (
        1_281_167, 90, 8 * HOUR, "resnet50",
    )  # fmt: skip
    assert (found.app_type, found.cards, found.request.models.text) == ("gpu", 2, "Z100")


def test_s2_cards_are_the_work_by_rate_and_duration_rounded_up() -> None:
    assert size(job(), linear(1.0), anything) == Sized(10, 1000.0)
    assert size(job(), linear(1.01), anything) == Sized(10, 10_000 / 10.1)
    assert size(job(), linear(0.99), anything) == Sized(11, 10_000 / 10.89)


def test_s2_the_rate_falls_with_the_number_of_cards() -> None:
    """n ** 0.9 samples a second are 10 with 13 cards: 10 would be enough only if each were as fast as one alone."""
    found = size(job(), Curve(((1, 1.0),)), anything)
    assert isinstance(found, Sized)
    assert found.width == ceil(10 ** (1 / 0.9)) == 13
    assert isclose(found.seconds, 10_000 / 13**0.9)


def test_s2_replicas_have_several_cards_each() -> None:
    assert size(job(cards=4), linear(1.0), anything) == Sized(3, 10_000 / 12)


def test_s2_a_guess_is_said_to_be_one() -> None:
    short = size(job(), linear(1.0, guess=True), free(3))
    assert isinstance(short, Short)
    assert offers(short).endswith("; a guess from another card's rate")


def test_s2_the_author_may_bound_the_width() -> None:
    assert size(job(dict(ELASTIC)), linear(10.0), anything) == Sized(2, 500.0)
    short = size(job(dict(ELASTIC)), linear(1.0), anything)
    assert isinstance(short, Short)
    assert (short.now, short.now_seconds, short.needed) == (8, 1250.0, 0)


def test_s3_free_is_what_a_trial_gives_and_the_duration_grows_up_to_its_limit_only() -> None:
    asked: list[int] = []

    def trial(width: int) -> bool:
        asked.append(width)
        return width <= 6

    assert size(job({"duration-at-most": "2000s"}), linear(1.0), trial) == Sized(6, 10_000 / 6)
    assert asked[0] == 10
    short = size(job({"duration-at-most": "1600s"}), linear(1.0), free(6))
    assert isinstance(short, Short)
    assert (short.now, short.needed, short.now_samples) == (6, 10, 600)


def test_s3_the_data_set_is_never_made_smaller_silently() -> None:
    short = size(job(), linear(1.0), free(9))
    assert isinstance(short, Short)
    assert offers(short) == (
        "19 min with 9 cards now (vgpu.io/duration-at-most: 19m), 17 min with 10 cards when they are free, or 900"
        " samples in 17 min now (vgpu.io/samples: 900)"
    )


def test_s3_why_offers_a_longer_duration_a_wait_or_fewer_samples() -> None:
    goal = {"samples": "1250000", "epochs": "1", "duration": "8h", "model": "m"}
    wanted = spec(QUEUED, goal, template=template())
    short = size(wanted, linear(1_250_000 / (8 * HOUR * 6)), free(4))
    assert isinstance(short, Short)
    assert offers(short, 50 * 60) == (
        "12 h with 4 cards now (vgpu.io/duration-at-most: 12h), 8 h with 6 cards in about 50 min, or 830,000 samples in"
        " 8 h now (vgpu.io/samples: 830000)"
    )


def test_s2_of_listed_widths_it_is_the_smallest_that_is_enough() -> None:
    assert size(job({"widths": "1,2,4,8,16"}), linear(1.0), anything) == Sized(16, 625.0)
    assert size(job({"widths": "3,10,12"}), linear(1.0), anything) == Sized(10, 1000.0)


def test_s3_of_listed_widths_it_is_the_largest_that_fits() -> None:
    written = {"widths": "1,2,4,8,16", "duration-at-most": "1500s"}
    assert size(job(written), linear(1.0), free(15)) == Sized(8, 1250.0)
    short = size(job(written), linear(1.0), free(7))
    assert isinstance(short, Short)
    assert (short.now, short.needed) == (4, 16)
    few = size(job({"widths": "2,4"}), linear(1.0), anything)
    assert isinstance(few, Short)
    assert (few.now, few.needed) == (4, 0)
    assert few == replace(few, now=4), "the largest that it may have fits"


@pytest.mark.parametrize(
    ("bounds", "fits", "words"),
    [
        ({}, 0, "17 min with 10 cards in about 5 min"),
        ({"max-replicas": "4"}, 1, "2 h 47 min with 1 card now (vgpu.io/duration-at-most: 2h47m), or 100 samples in"),
        ({"max-replicas": "4"}, 0, "no number of cards that the Job may have is enough for 17 min: write"),
    ],
)  # fmt: skip
def test_s3_offers_only_what_can_be_had(bounds: dict[str, str], fits: int, words: str) -> None:
    short = size(job(bounds), linear(1.0), free(fits))
    assert isinstance(short, Short)
    assert offers(short, 300.0).startswith(words)


@given(
    st.lists(st.integers(1, 64), min_size=1, max_size=16, unique=True), st.integers(1, 10**5), st.integers(0, 70)
)  # fmt: skip
def test_s3_every_width_is_listed(listed: list[int], samples: int, room: int) -> None:
    widths = sorted(listed)
    written = {"widths": ",".join(map(str, widths)), "samples": str(samples), "duration-at-most": "5000s"}
    found = size(job(written), linear(1.0), free(room))
    if isinstance(found, Sized):
        assert found.width in widths
        enough = [width for width in widths if samples * 10 / width <= 1000]
        fitting = [width for width in widths if width <= room]
        assert found.width == min(enough[0] if enough else widths[-1], fitting[-1])
    else:
        assert {found.now, found.needed} <= {0, *widths}
        assert found.now == max(
            (width for width in widths if width <= min(room, found.needed or room)), default=0
        )


@given(st.integers(1, 10**12), st.floats(0.01, 1e6), st.integers(0, 1100), st.integers(1, 8))
def test_s3_every_width_is_the_smallest_that_is_enough_or_all_that_fits(
    samples: int, rate: float, room: int, cards: int
) -> None:
    wanted = job({"samples": str(samples), "duration-at-most": "5000s"}, cards)
    trials = 0

    def trial(width: int) -> bool:
        nonlocal trials
        trials += 1
        return width <= room

    curve = Curve(((1, rate),))
    found = size(wanted, curve, trial)
    assert trials <= 12
    work = samples * 10
    if isinstance(found, Sized):
        assert found.width <= room
        assert found.seconds <= 5000 * (1 + 1e-6)
        assert isclose(found.seconds, work / curve.speed(found.width * cards))
        narrower = work / curve.speed((found.width - 1) * cards) if found.width > 1 else float("inf")
        assert narrower > 1000 * (1 - 1e-6)
        assert found.seconds <= 1000 * (1 + 1e-6) or found.width in (room, 1024)
    else:
        assert found.now == min(room, 1024, found.needed or 1024)
        assert not found.now or found.now_seconds > 5000 * (1 - 1e-6)
        assert found.now_samples <= samples
        assert len(offers(found)) < 400


def test_s4_the_pods_are_placed_as_they_say() -> None:
    asked = {"policy": "node-score", "app-type": "gpu", "role-order": "trainer"}
    pods = template(annotations=asked, labels={"group": "g", "role": "trainer-0"})
    found = spec({**QUEUED, "group": "g", "role": "trainer"}, {**SIZED, "group-jobs": "1"}, template=pods)
    assert (found.request.policy, found.request.app_type) == ("node-score", "gpu")
    assert with_width(found, 4, HOUR).request == found.request


def test_a_width_that_was_found_stays_unless_bounds_are_written() -> None:
    fixed = with_width(job(), 10, 1000.0)
    assert (fixed.least, fixed.asked, fixed.most, fixed.elastic, fixed.expected_seconds) == (
        10,
        10,
        10,
        False,
        1000,
    )
    bounded = with_width(job(dict(ELASTIC)), 5, 1000.0)
    assert (bounded.least, bounded.asked, bounded.most, bounded.elastic) == (5, 5, 8, True)


RATES = Rates({("m", "slow"): linear(1.0), ("m", "fast"): linear(2.0)})


def by_table(_: str) -> Rates:
    return RATES


def room(nodes: int, cards: int, busy: int = 0) -> LedgerRoom:
    """Nodes of some cards, of which `busy` cards of each are held."""
    ledger = Ledger()
    for number in range(nodes):
        name = f"n{number}"
        ledger.set_node(name, inventory(name, cards), HostAmounts(cpu_milli=64_000, memory_mib=65_536))
    made = LedgerRoom(ledger, Placer(ledger), {})
    for number in range(nodes if busy else 0):
        assert made.take(job_spec(f"busy-{number}", request=whole_request("", busy)), 1)
    return made


def test_s3_room_is_where_the_pods_can_be_placed_not_a_sum_of_cards() -> None:
    """Three nodes with four free cards each have room for three pods of three cards, although twelve cards are free."""
    waiting = JobState(spec=job({"duration": "835s"}, cards=3))
    (made,) = with_widths([waiting], room(3, 8, busy=4), by_table, ["slow"]).jobs
    assert made.spec.least == 4
    stretched = JobState(spec=job({"duration": "835s", "duration-at-most": "20m"}, cards=3))
    found = with_widths([stretched], room(3, 8, busy=4), by_table, ["slow"])
    assert [(made.spec.least, made.spec.most) for made in found.jobs] == [(3, 3)]
    assert not found.short


def test_s3_the_room_is_as_before() -> None:
    left = room(2, 8)
    with_widths([JobState(spec=job())], left, by_table, ["slow"])
    assert left.free(job()) == 16


def test_s2_the_slowest_card_that_the_job_accepts_counts() -> None:
    accepting = job({"card-model": "fast"})
    for wanted, cards, expected in (
        (job(), ["fast", "slow"], 10), (job(), ["fast"], 5), (accepting, ["fast", "slow"], 5), (job(), [], 10),
    ):  # fmt: skip
        (made,) = with_widths([JobState(spec=wanted)], room(2, 8), by_table, cards).jobs
        assert made.spec.asked == expected


def test_a_job_waits_for_the_width_that_it_needs_and_says_what_it_can_have() -> None:
    found = with_widths([JobState(spec=job())], room(1, 8), by_table, ["slow"])
    (made,) = found.jobs
    assert (made.queued, made.spec.least, made.spec.most) == (True, 10, 10)
    assert offers(found.short[made.spec.key]).startswith("21 min with 8 cards now")


def test_a_job_that_no_width_helps_is_refused() -> None:
    found = with_widths([JobState(spec=job({"max-replicas": "4"}))], room(1, 8), by_table, ["slow"])
    assert not found.jobs
    assert next(iter(found.refused.values())).startswith("42 min with 4 cards now")


def test_a_job_of_an_unknown_model_starts_with_the_width_that_is_written_and_says_so() -> None:
    found = with_widths([JobState(spec=job({"model": "x"}))], room(1, 8), by_table, ["slow"])
    (made,) = found.jobs
    assert (made.spec.least, made.spec.asked, made.spec.most) == (4, 4, 4)
    assert found.unsized[made.spec.key] == (
        "no rate is known of the model x, only of m: it starts with the width that is written, 4 pods, and is sized"
        " once its program has reported its progress for some minutes"
    )
    bounded = with_widths([JobState(spec=job({"model": "x", **ELASTIC}))], room(1, 8), by_table, ["slow"])
    assert [(each.spec.least, each.spec.most) for each in bounded.jobs] == [(4, 8)], "elastic, once it runs"


def test_only_jobs_that_have_never_run_are_sized_and_others_keep_their_width() -> None:
    new = (JobPhase.WAITING, JobPhase.REFUSED)
    ran = [JobState(spec=job(name=phase.value), phase=phase) for phase in JobPhase if phase not in new]
    made = with_widths(ran, room(1, 8), by_table, ["slow"]).jobs
    assert {(made.spec.least, made.spec.asked, made.spec.most) for made in made} == {(4, 4, 4)}
    others = [JobState(spec=spec()), JobState(spec=job(dict(ELASTIC)), phase=JobPhase.STOPPED)]
    assert sorted(with_widths(others, room(1, 8), by_table, ["slow"]).jobs, key=others.index) == others


def test_room_is_sought_for_few_jobs_in_a_round_those_that_wait_longest() -> None:
    waiting = [JobState(spec=job(name=f"j{n:02}"), since=100.0 - n) for n in range(2 * MOST_TRIED)]
    found = with_widths(waiting, room(1, 8), by_table, ["slow"])
    tried = [key[1] for key, short in found.short.items() if short.now]
    assert tried == [f"j{n:02}" for n in reversed(range(MOST_TRIED, 2 * MOST_TRIED))]
    assert all(made.spec.least == 10 for made in found.jobs)


class CountingRoom(SlotRoom):
    """A room that remembers the jobs of which replicas were tried."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.tried = set[JobKey]()

    def take(self, job: JobSpec, count: int) -> bool:
        self.tried.add(job.key)
        return super().take(job, count)


@pytest.mark.parametrize("written", [{"max-replicas": "4"}, {}, {"epochs": "1"}])
def test_room_is_sought_for_few_jobs_whatever_comes_of_it(written: dict[str, str]) -> None:
    waiting = [JobState(spec=job(written, name=f"j{n}"), since=1.0) for n in range(4 * MOST_TRIED)]
    other = replace(job(written, name="other"), key=("other", "other"))
    counting = CountingRoom(8)
    with_widths([*waiting, JobState(spec=other, since=2.0)], counting, by_table, ["slow"])
    assert len(counting.tried) == MOST_TRIED
    assert other.key in counting.tried, "each namespace has its turn"


def test_only_a_job_with_a_goal_is_sized() -> None:
    with pytest.raises(ValueError, match="has no goal"):
        size(spec(), linear(1.0), anything)


def test_what_is_offered_can_be_written() -> None:
    """The width that fits now is taken once its offer is written, whatever the rounding."""
    seed = random.randrange(2**32)
    print("seed", seed)
    draw = random.Random(seed)
    for _ in range(200):
        curve, room = linear(draw.uniform(0.01, 3.0)), draw.randint(1, 9)
        short = size(job(), curve, free(room))
        if isinstance(short, Sized):
            continue
        text = offers(short)
        longer = text.partition("duration-at-most: ")[2].partition(")")[0]
        assert isinstance(size(job({"duration-at-most": longer}), curve, free(room)), Sized), text
        if "vgpu.io/samples: " in text:
            fewer = text.partition("vgpu.io/samples: ")[2].partition(")")[0]
            assert isinstance(size(job({"samples": fewer}), curve, free(room)), Sized), text
