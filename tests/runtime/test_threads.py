"""Threads of one program share its slice: under ThreadSanitizer, which reports each race."""

import subprocess
from pathlib import Path

import pytest

from tests.requirement import require
from tests.runtime.conftest import GPU, HERE, MIB, NATIVE, STRICT, Slice, own
from vgpu_runtime import region
from vgpu_runtime.paths import SOURCES

ROUNDS = 200


@pytest.fixture(scope="session")
def program(built: Path) -> Path:
    """threads.c with the library in it, all of it with ThreadSanitizer."""
    library = [str(path.relative_to(NATIVE)) for path in sorted(NATIVE.glob("*/*.c"))]
    flags = [
        "-fsanitize=thread",
        "-DVGPU_TEST_BUILD",
        "-U_FORTIFY_SOURCE",
        "-pthread",
        f"-I{SOURCES / 'include'}",
    ]
    command = [
        "cc",
        *STRICT,
        *flags,
        str(HERE / "threads.c"),
        *own(*library),
        "-ldl",
        "-o",
        str(built / "threads"),
    ]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    require("-ltsan" not in done.stderr, "needs gcc's ThreadSanitizer: apt-get install libtsan2")
    assert done.returncode == 0, done.stderr
    return built / "threads"


def test_16_threads_that_allocate_create_queues_and_fork(program: Path, container: Slice) -> None:
    container.configure()
    environment = container.environment(LD_PRELOAD=str(container.stub), TSAN_OPTIONS="halt_on_error=1")
    environment.pop("STUB_LOG")
    # ThreadSanitizer needs its own places in the address space to be free.
    command = ["setarch", "--addr-no-randomize", str(program), str(GPU), str(ROUNDS)]
    done = subprocess.run(command, env=environment, text=True, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{1024 * MIB}\n"
    usage = region.read(container.region)
    assert (usage.used_bytes[0], usage.live_slots) == (0, 0)
    assert usage.denied[0] > 0, "the threads never reached the limit"
