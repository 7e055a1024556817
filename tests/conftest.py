import random
from pathlib import Path

import pytest

from tests import compiled
from tests.requirement import require
from vgpu_runtime.sim import hip


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
