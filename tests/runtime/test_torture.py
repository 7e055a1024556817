"""Processes killed at any instruction, and processes that race. hack/region-torture runs this for longer."""

import dataclasses
import os
import random
from pathlib import Path

import pytest

from tests.runtime.conftest import GPU, MIB, Slice, card
from tests.runtime.torture import Command, Held, race, torture, violations
from vgpu_runtime import region

LIMIT = 512 * MIB
PAGE = 4096
RESERVE = 32 * MIB  # as in memory.c: for small allocations
KILLS = int(os.environ.get("TORTURE_KILLS", "150"))
ADMISSIONS = int(os.environ.get("TORTURE_ADMISSIONS", "20000"))
RACERS = 32
RACES = 10


@pytest.fixture
def shipped(container: Slice, native: Path) -> Slice:
    """On the library as shipped, which is faster."""
    return dataclasses.replace(container, library=native / "libvgpu-test.so", sanitizers=())


@pytest.fixture(params=["as shipped", "with sanitizers"])
def built_so(request: pytest.FixtureRequest, container: Slice, shipped: Slice) -> Slice:
    """On both builds: sanitizers see more, and make each process slower."""
    return shipped if request.param == "as shipped" else container


@pytest.fixture
def seed(rng: random.Random) -> int:
    return int(os.environ.get("TORTURE_SEED", rng.randrange(1 << 30)))


@pytest.mark.timeout(max(120, KILLS))
def test_killed_processes_break_neither_limit_nor_books(built_so: Slice, seed: int) -> None:
    container = built_so
    container.configure(card(mem_bytes=LIMIT))
    truth = container.folder / "truth"
    truth.touch()
    environment = container.environment(STUB_TRUTH=str(truth), STUB_LIMIT=str(LIMIT + PAGE))
    environment.pop("STUB_LOG")
    programs = container.stub.parent
    tortured = torture(
        [programs / "churn", str(GPU)], [programs / "admit", str(GPU)], environment, kills=KILLS, seed=seed
    )
    assert tortured.failed == []

    usage = region.read(container.region)
    report = f"over the limit {violations(truth)}, leaked {sum(usage.used_bytes)}, denied {usage.denied[0]}"
    print(f"kills {KILLS}, {report}, slowest admission after one {tortured.slowest * 1e3:.1f} ms")
    assert violations(truth) == 0
    assert (sum(usage.used_bytes), usage.live_slots) == (0, 0)
    assert usage.denied[0] > 0, "the processes never reached the limit: nothing was tried"
    assert container.output(f"print(kfd.alloc(GPU, {LIMIT}) > 0)") == ["True"]


@pytest.mark.timeout(max(120, ADMISSIONS // 1000))
def test_racing_admissions_stay_within_limit_and_reserve(shipped: Slice, seed: int) -> None:
    shipped.configure(card(mem_bytes=LIMIT))
    file = shipped.folder / "peak"
    file.write_bytes(bytes(16))
    environment = shipped.environment(STUB_PEAK=str(file))
    environment.pop("STUB_LOG")
    command: Command = [shipped.stub.parent / "churn", str(GPU)]
    # On a busy machine the processes of one race may run nearly one after another.
    for number in range(RACES):
        assert set(race(command, environment, RACERS, ADMISSIONS // RACERS, seed + number * RACERS)) == {0}
        if Held.read(file).peak > LIMIT - RESERVE:
            break

    held, usage = Held.read(file), region.read(shipped.region)
    over = held.peak - LIMIT - RESERVE
    print(
        f"admissions {ADMISSIONS} from {RACERS} processes, over limit and reserve {max(over, 0)},"
        f" peak {held.peak / MIB:.1f} MiB of {LIMIT // MIB} + {RESERVE // MIB}, denied {usage.denied[0]}"
    )
    assert over <= 0
    assert (held.now, sum(usage.used_bytes), usage.live_slots) == (0, 0, 0)
    assert held.peak > LIMIT - RESERVE, "the processes never came near the limit: nothing was tried"


@pytest.mark.timeout(max(120, ADMISSIONS // 1000))
def test_racing_processes_that_were_alone_stay_within_the_limit(shipped: Slice, seed: int) -> None:
    """Each holds more than half of the limit, or nothing: admissions without the lock meet."""
    shipped.configure(card(mem_bytes=LIMIT))
    file = shipped.folder / "peak"
    file.write_bytes(bytes(16))
    environment = shipped.environment(STUB_PEAK=str(file))
    environment.pop("STUB_LOG")
    command: Command = [shipped.stub.parent / "churn", str(GPU)]
    turns = 2 * ADMISSIONS
    assert set(race(command, environment, 3, turns, seed, "300")) == {0}

    held, usage = Held.read(file), region.read(shipped.region)
    print(
        f"alone in turns {3 * turns}, peak {held.peak // MIB} MiB of {LIMIT // MIB}, denied {usage.denied[0]}"
    )
    assert held.peak == 300 * MIB
    assert (held.now, sum(usage.used_bytes), usage.live_slots) == (0, 0, 0)
    assert usage.denied[0] > 0, "the processes never met: nothing was tried"
