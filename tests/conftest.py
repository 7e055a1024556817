import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import compiled
from tests.effort import SEED
from tests.requirement import require
from vgpu_runtime.sim import hip

# gRPC would start its threads again in a forked child, and a process with threads can have no user namespace of its own
# (tests/namespaces.py). It reads this when it is first used.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# The one profile of all property tests, in CI too. Nothing in it depends on how busy the machine is: an example may
# take long, and its input may be slow to make. A fixture may serve all examples of a test, such as a folder.
settings.register_profile(
    "vgpu",
    deadline=None,
    derandomize=not SEED,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("vgpu")

# What runs in this process there are the stand-ins and tools of hack/, whose lines are not counted; the product's
# services are processes of their own. Counting would more than double the time.
NOT_COUNTED = ("contract", "hack", "system")


# Before pytest chooses by marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that run without coverage, because it has next to nothing to count there."""
    folders = [Path(__file__).parent / name for name in NOT_COUNTED]
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in folders):
            item.add_marker("no_cover")


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """Random numbers that are the same in every run of a test (tests/effort.py)."""
    random.seed(f"{SEED} {request.node.nodeid}")


@pytest.fixture
def rng() -> random.Random:
    """Randomness of a test; a failure shows the seed among the captured output."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture(scope="session")
def hip_libraries() -> Path:
    """The folder of the real HIP and HSA runtimes, fetched once into the cache."""
    try:
        return hip.ensure(hip.default_cache())
    except hip.HipUnavailableError as error:
        require(False, str(error))  # noqa: FBT003 - it is what require asks
        raise


@pytest.fixture(scope="session")
def native() -> Path:
    """The folder with everything that `make -C vgpu_runtime` builds."""
    return compiled.library()
