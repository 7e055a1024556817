"""make e2e: every test of the product runs in one lane, and in one alone."""

import os
import subprocess
import sys
from collections import Counter

from hack.testbed.cluster import PROJECT
from hack.testbed.e2e import LANES


def collected(*arguments: str) -> list[str]:
    """The tests that pytest would run with these arguments."""
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "--quiet", *arguments],
        cwd=PROJECT, env={**os.environ, "VGPU_E2E": "true"}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [line for line in found.stdout.splitlines() if "::" in line]


def test_every_test_is_in_one_lane() -> None:
    running = Counter(test for lane in LANES if lane.product for test in collected(*lane.tests))
    assert running == Counter(collected("tests/e2e"))
