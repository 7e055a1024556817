"""Rates of models: the operator's table, curves between measured points, and what jobs tell."""

from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.jobs.rates import (
    MAX_CURVES,
    MAX_LINES,
    MAX_NAMESPACES,
    MAX_POINTS,
    MAX_PROBLEMS,
    Curve,
    LearntRates,
    Rates,
    read_rates,
)

TABLE = """
# model card samples per second
resnet50 Z100 390
resnet50 K100 1:300 8:1800
bert Z100 52.5
"""


def test_s2_rates_are_read_from_an_operators_table() -> None:
    rates, problems = read_rates(TABLE)
    assert not problems
    assert rates.curve("bert", "Z100") == Curve(((1, 52.5),))
    assert rates.curve("resnet50", "K100") == Curve(((1, 300.0), (8, 1800.0)))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("resnet50 Z100", "write MODEL CARD SPEED"),
        ("resnet50 Z100 fast", "line 1 of the table of rates is 'resnet50 Z100 fast'"),
        ("resnet50 Z100 0", "write MODEL"), ("resnet50 Z100 1:390 390", "write MODEL"),
        ("resnet50 Z100 0:390", "write MODEL"),
        ("resnet50 Z100 -1", "write MODEL"), ("resnet50 Z100 1e9", "write MODEL"),
        ("a b " + " ".join(f"{n}:{n}" for n in range(1, MAX_POINTS + 2)), "write MODEL"), ("x" * 600, "write MODEL"),
        ("a b 1\na b 2", "line 2 of the table of rates repeats a on b: write one line"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_named(line: str, words: str) -> None:
    rates, problems = read_rates(line)
    assert len(problems) == 1
    assert words in problems[0]
    assert len(problems[0]) < 300
    assert len(rates.curves) == line.count("\n")


def test_a_table_is_bounded() -> None:
    rates, problems = read_rates("\n".join(f"m{n} Z100 1" for n in range(2 * MAX_LINES)))
    assert (len(rates.curves), len(problems)) == (MAX_LINES, 1)
    assert len(read_rates("x\n" * 500)[1]) == MAX_PROBLEMS


def test_s2_a_rate_of_another_card_is_a_guess() -> None:
    rates, _ = read_rates(TABLE)
    guessed = rates.curve("resnet50", "BW1000")
    assert guessed == Curve(((1, 300.0), (8, 1800.0)), guess=True)
    assert rates.curve("vgg", "Z100") is None


def test_an_unknown_model_says_which_are_known() -> None:
    rates, _ = read_rates(TABLE)
    assert rates.unknown("vgg") == ("no rate is known of the model vgg, only of bert, resnet50")
    assert Rates().unknown("vgg") == "no rate is known of the model vgg"
    many, _ = read_rates("\n".join(f"model{n:03} Z100 1" for n in range(500)))
    assert many.unknown("vgg").endswith("model007, …")


def test_s2_between_measured_points_and_beyond_them() -> None:
    curve = Curve.of({8: 800.0, 2: 200.0})
    assert [curve.speed(n) for n in (2, 8)] == [200, 800]
    assert isclose(curve.speed(4), 400)
    assert isclose(curve.speed(16), 800 * 2**0.9)
    assert isclose(curve.speed(1), 200 / 2**0.9)
    assert isclose(curve.speed(16), 800 * 2**0.9)


@given(
    st.dictionaries(st.integers(1, 1024), st.floats(0.001, 1e9), min_size=1, max_size=MAX_POINTS),
    st.integers(1, 2000),
)
def test_more_cards_are_never_slower(points: dict[int, float], cards: int) -> None:
    curve = Curve.of(points)
    assert 0 < curve.speed(cards) <= curve.speed(cards + 1) * (1 + 1e-9)


def test_what_jobs_tell_stays_in_their_namespace_and_the_table_goes_before_it() -> None:
    table, _ = read_rates(TABLE)
    learnt = LearntRates()
    learnt.add("team-a", "resnet50", "Z100", 1, 350.0)
    learnt.add("team-a", "own", "Z100", 2, 10.0)
    own = learnt.beside("team-a", table)
    assert own.curve("resnet50", "Z100") == Curve(((1, 390.0),))
    assert own.curve("own", "Z100") == Curve(((2, 10.0),), learnt=True)
    assert own.curve("own", "K100") == Curve(((2, 10.0),), guess=True, learnt=True)
    assert learnt.beside("team-b", table).curve("own", "Z100") is None


def test_what_jobs_tell_is_smoothed_and_bounded() -> None:
    learnt = LearntRates()
    for speed in (100.0, 200.0, 0.0, -5.0, float("nan"), float("inf")):
        learnt.add("a", "m", "c", 1, speed)
    learnt.add("a", "m", "c", 0, 5.0)
    assert learnt.beside("a", Rates()).curve("m", "c") == Curve(((1, 125.0),), learnt=True)
    for cards in range(1, 100):
        learnt.add("a", "m", "c", cards, 100.0)
    curve = learnt.beside("a", Rates()).curve("m", "c")
    assert curve is not None
    assert [cards for cards, _ in curve.points] == list(range(84, 100))
    for number in range(100):
        learnt.add("flood", f"m{number}", "c", 1, 1.0)
    assert len(learnt.beside("flood", Rates()).curves) == MAX_CURVES
    assert learnt.beside("a", Rates()).curves, "a namespace pushes out no other one's"
    for number in range(MAX_NAMESPACES):
        learnt.add(f"n{number}", "m", "c", 1, 1.0)
    assert not learnt.beside("a", Rates()).curves


def test_a_rate_is_found_by_another_name_of_its_card() -> None:
    rates, _ = read_rates("resnet50 vega20 100\nresnet50 K100_AI 200")
    assert rates.curve("resnet50", "MI50/MI60") == Curve(((1, 100.0),))
    assert rates.curve("resnet50", "K100-AI") == Curve(((1, 200.0),))
