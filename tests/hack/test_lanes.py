"""make e2e, hack/nightly: every test of the product runs in one lane, and in one alone."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

from hack.testbed import nightly
from hack.testbed.cluster import PROJECT
from hack.testbed.e2e import LANES, Installed

# One process: most of the time is that of the first import of what the tests use.
COLLECT = """
import contextlib, io, json, sys
import pytest

found = []

class Collected:
    def pytest_collection_finish(self, session):
        found.append([item.nodeid for item in session.items])

for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["-p", "no:cacheprovider", "--collect-only", *arguments], plugins=[Collected()])
print(json.dumps(found))
"""


def collected(*runs: Sequence[str], wanted: str = "") -> list[list[str]]:
    """For each run's arguments the tests that pytest would run with them; with $VGPU_NIGHTLY as `wanted`."""
    command = [sys.executable, "-c", COLLECT, json.dumps(runs)]
    environment = {**os.environ, "VGPU_E2E": "true", nightly.WANTED: wanted}
    found = subprocess.run(
        command, cwd=PROJECT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return [list(tests) for tests in json.loads(found.stdout)]


def test_every_test_is_in_one_lane() -> None:
    lanes = [lane.tests for lane in LANES if lane.installed is not Installed.ADMISSION]
    everything, *running = collected(["tests/e2e"], *lanes)
    assert len(running) == len(lanes)
    assert Counter(test for lane in running for test in lane) == Counter(everything) != Counter()


def test_every_nightly_test_is_in_one_part() -> None:
    own = "tests/e2e/nightly"
    lanes = [lane.tests for part in nightly.LANES.values() for lane in part if own in " ".join(lane.tests)]
    everything, *running = collected([own], *lanes, wanted="true")
    assert Counter(test for lane in running for test in lane) == Counter(everything) != Counter()
