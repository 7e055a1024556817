"""`--split`: what is printed of each mode."""

import json
import random

from device_plugin.core.jobs.rules import Rules
from hack.bench.jobs.simulation import Costs
from hack.bench.jobs.slots import SlotRoom
from hack.bench.jobs.splits import MODES, splits
from tests.hack.bench.jobs.test_simulation import job


def test_all_sub_tasks_run_once_and_a_window_ends_before_a_barrier() -> None:
    rng = random.Random(5)
    others = [job(f"{n:02}", rng.uniform(0, 40_000), rng.choice((1, 2, 4)), 3000.0) for n in range(40)]
    report = splits(others, 8, Costs(), lambda: SlotRoom(8), Rules())
    figures = json.loads(json.dumps(report.figures))
    modes = figures["modes"]
    assert tuple(modes) == MODES
    assert all((each["parts_lost"], each["parts_twice"]) == (0, 0) for each in modes.values())
    assert modes["window"]["span_ratio"] < modes["barrier"]["span_ratio"]
    assert figures["others_jct_ratios"]["barrier"] == 1.0
    assert "4 jobs of 16 sub-tasks among 40 others on 8 cards" in report.text
