"""Processes killed at any instruction. hack/region-torture runs this for longer."""

import dataclasses
import os
import random
from pathlib import Path

import pytest

from tests.runtime.conftest import GPU, MIB, Slice, card
from tests.runtime.torture import torture, violations
from vgpu_runtime import region

LIMIT = 512 * MIB
KILLS = int(os.environ.get("TORTURE_KILLS", "150"))


@pytest.fixture(params=["as shipped", "with sanitizers"])
def container(request: pytest.FixtureRequest, container: Slice, native: Path) -> Slice:
    """On both builds: sanitizers see more, and make each process slower."""
    if request.param == "as shipped":
        return dataclasses.replace(container, library=native / "libvgpu-test.so", sanitizers=())
    return container


@pytest.mark.timeout(max(120, KILLS))
def test_killed_processes_break_neither_limit_nor_books(container: Slice, rng: random.Random) -> None:
    container.configure(card(mem_bytes=LIMIT))
    truth = container.folder / "truth"
    truth.touch()
    environment = container.environment(STUB_TRUTH=str(truth), STUB_LIMIT=str(LIMIT))
    environment.pop("STUB_LOG")
    seed = int(os.environ.get("TORTURE_SEED", rng.randrange(1 << 30)))
    churn = container.stub.parent / "churn"
    assert torture([churn, str(GPU)], environment, kills=KILLS, seed=seed) == []

    usage = region.read(container.region)
    report = f"over the limit {violations(truth)}, leaked {sum(usage.used_bytes)}, denied {usage.denied[0]}"
    print(f"kills {KILLS}, {report}")
    assert violations(truth) == 0
    assert (sum(usage.used_bytes), usage.live_slots) == (0, 0)
    assert usage.denied[0] > 0, "the processes never reached the limit: nothing was tried"
    assert container.output(f"print(kfd.alloc(GPU, {LIMIT}) > 0)") == ["True"]
