"""The whole system: the demo's story, many pods in flight, and kill -9 anywhere. Short runs of hack/'s trials."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from hack.measure import in_flight, kill_anywhere, kill_writes

SHRUNK = "JobShrunk: goes from 4 to 3 pods for job default/evaluate\n   JobGrown: goes from 3 to 4 pods"

pytestmark = pytest.mark.usefixtures("native")


def test_every_container_of_many_in_flight_gets_its_own_grant() -> None:
    first = random.randrange(10**6)
    print(f"seeds from {first}")
    result = in_flight.run(range(first, first + 3), 40)
    assert result.containers >= 120
    assert str(result) == "mismatches 0, failed 0, overlaps 0"


@pytest.mark.parametrize("claims", [False, True])
def test_killing_either_service_anywhere_loses_and_leaks_nothing(claims: bool) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    assert kill_anywhere.run(seed, 20.0, claims=claims)


def test_a_service_killed_after_any_write_of_a_claim_leaves_nothing_stuck() -> None:
    assert kill_writes.run(1)


def test_the_demo_holds_what_it_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPU_SESSION", str(tmp_path / "session.json"))
    command = [sys.executable, "-m", "device_plugin", "demo", "run"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    print(told.stdout, told.stderr)
    assert told.returncode == 0
    for promise in (
        "greedy asks for 6144 MiB: hipErrorOutOfMemory",
        "lack memory",
        SHRUNK,
        "Everything held",
    ):
        assert promise in told.stdout
    assert not (tmp_path / "session.json").exists()
