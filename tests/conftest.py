import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.requirement import require
from vgpu_runtime.paths import BUILD, SOURCES


@pytest.fixture
def rng() -> random.Random:
    """Randomness of a test; a failure shows the seed among the captured output."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it when the test fails
    return random.Random(seed)


@pytest.fixture(scope="session")
def hip_libraries() -> Path:
    """The folder of the real HIP and HSA runtimes, fetched once into the cache."""
    from vgpu_runtime.sim import hip

    require(shutil.which("apt-get"), "needs the HIP runtime from Debian's packages: apt-get is not here")
    cache = Path(os.environ.get("VGPU_CACHE", Path.home() / ".cache/vgpu"))
    libraries = hip.ensure(cache)
    assert libraries is not None
    return libraries


@pytest.fixture(scope="session")
def native() -> Path:
    """The folder with everything that `make -C vgpu_runtime` builds."""
    require(shutil.which("cc") and shutil.which("make"), "needs cc and make: apt-get install gcc make")
    subprocess.run(["make", "--no-print-directory", "-C", SOURCES], check=True)
    return BUILD
