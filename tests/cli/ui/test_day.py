"""The held share of each node over a day: the mean of each column that has ended, and the share of now."""

import random
from typing import Any

import pytest

from device_plugin.cli.ui.day import COLUMN_SECONDS, COLUMNS, LEVELS, HeldDay, held_share, level
from device_plugin.cli.ui.rows import Row

START = 3_000_000 * COLUMN_SECONDS


def node(share: float, *, complete: bool = True) -> Row:
    cards = [{"mib": 1000, "freeMiB": 1000 - round(1000 * share)}]
    return {"complete": complete, "cards": cards}


class Clock:
    now = float(START)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_column_that_ended_is_the_mean_over_its_time_and_the_last_one_is_now(clock: Clock) -> None:
    day = HeldDay(clock)
    day.see({"n1": node(1.0)})
    assert day.changes() == {"n1": {"last": 3_000_000, "levels": "K"}}
    clock.now += COLUMN_SECONDS / 4
    day.see({"n1": node(0.0)})
    assert day.changes() == {"n1": {"last": 3_000_000, "levels": "0"}}
    clock.now += COLUMN_SECONDS
    assert day.changes() == {"n1": {"last": 3_000_001, "levels": level(0.25) + "0"}}
    assert day.changes() == {}
    day.see({"n1": None})
    assert day.changes() == {"n1": None}


def test_what_is_not_known_counts_for_nothing(clock: Clock) -> None:
    day = HeldDay(clock)
    day.see({"n1": node(0.5, complete=False), "n2": node(0.5)})
    assert {name: row and row["levels"] for name, row in day.changes().items()} == {"n1": "-", "n2": "A"}
    clock.now += COLUMN_SECONDS
    assert {name: row and row["levels"] for name, row in day.changes().items()} == {"n1": "--", "n2": "AA"}
    assert held_share({"complete": True, "cards": []}) is None


def test_a_day_is_kept_and_days_without_the_command_cost_nothing(clock: Clock) -> None:
    day = HeldDay(clock)
    day.see({"n1": node(1.0)})
    for _ in range(2 * COLUMNS):
        clock.now += COLUMN_SECONDS
        found: Any = day.changes()["n1"]
    assert found["levels"] == "K" * COLUMNS
    clock.now += 1e9
    found = day.changes()["n1"]
    assert (len(found["levels"]), found["last"]) == (COLUMNS, int(clock.now // COLUMN_SECONDS))


def test_each_column_is_the_mean_of_random_changes(clock: Clock) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    day = HeldDay(clock)
    seconds: list[float] = []
    for _ in range(40):
        share = rng.randrange(21) / 20
        day.see({"n1": node(share)})
        stays = rng.randrange(1, COLUMN_SECONDS)
        seconds += [share] * stays
        clock.now += stays
        day.changes()
    day.see({"n1": node(0.0)})
    found: Any = day.changes()["n1"]
    for column, character in enumerate(found["levels"][:-1]):
        among = seconds[column * COLUMN_SECONDS : (column + 1) * COLUMN_SECONDS]
        assert abs(LEVELS.index(character) - 20 * sum(among) / len(among)) <= 0.51, (seed, column)


@pytest.mark.parametrize(
    ("share", "character"), [(-1, "0"), (0, "0"), (0.024, "0"), (0.5, "A"), (1, "K"), (2, "K")]
)
def test_the_character_of_a_share(share: float, character: str) -> None:
    assert level(share) == character
