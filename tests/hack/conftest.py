import shutil
from pathlib import Path
from typing import Any

import pytest

from hack.testbed import images
from tests.hack.archives import Archive
from tests.requirement import require
from vgpu_runtime.sim.debian import DebianUnavailableError

# The first image of a cold cache downloads and compiles Python and all packages: minutes on a busy machine.
COLD_SECONDS = 1500


def build(name: str, **options: Any) -> Path:
    try:
        return images.build(name, **options)
    except DebianUnavailableError as error:
        require(False, str(error))  # noqa: FBT003 - it is what require asks
        raise


@pytest.fixture(scope="session")
def checkout(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What of this checkout goes into images, as it is now: builds during a test see no later edit."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("device_plugin", "hack", "vgpu_runtime", native.name):
        shutil.copytree(native.parent / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def vgpu(checkout: Path) -> Archive:
    """The image of both services."""
    return Archive(build("vgpu", source=checkout))


@pytest.fixture(scope="session")
def simulated(checkout: Path) -> Archive:
    """The same on simulated cards."""
    return Archive(build("simulated", source=checkout))


@pytest.fixture(scope="session")
def workload(checkout: Path) -> Archive:
    """The image of the tests' pods."""
    return Archive(build("workload", source=checkout))
